# Sourced by hosts.sh: a Slurm of its own over the hosts that are up. slurmctld and munged run on the head, a slurmd on each host.
# shellcheck shell=bash disable=SC2154

slurm_conf() {  # COUNT
  cat <<CONF
ClusterName=faibench_$id
SlurmctldHost=head($head_address)
SlurmctldPort=6817
SlurmdPort=6818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$state/munge.socket
CredType=cred/munge
StateSaveLocation=$state/ctld
SlurmdSpoolDir=$state/spool
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/spool/slurmd.pid
SlurmctldLogFile=$state/log/slurmctld
SlurmdLogFile=$state/log/slurmd.%n
# Hosts of one machine share its cores and its cgroups: nothing is bound or confined.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=pmix
ReturnToService=2
SlurmdTimeout=30
KillWait=5
InactiveLimit=0
SchedulerParameters=sched_interval=1,batch_sched_delay=1,bf_interval=1
GresTypes=gpu
NodeName=h[1-$1] NodeAddr=$subnet.[1-$1] CPUs=2 RealMemory=1000 Gres=gpu:2 State=UNKNOWN
PartitionName=all Nodes=h[1-$1] Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
CONF
}

slurm_up() {  # COUNT
  local host nodes=1-$1
  [[ $1 -gt 1 ]] || nodes=1
  slurm_conf "$1" | sed "s/\[1-1\]/1/g" >"$state/slurm.conf"
  # GPUs in name only: what a script asks of them is scheduled like the real ones.
  mknod "$state/gpu0" c 1 3 && mknod "$state/gpu1" c 1 5
  printf 'NodeName=h[%s] Name=gpu File=%s/gpu[0-1]\n' "$nodes" "$state" >"$state/gres.conf"
  printf 'PMIxCliTmpDirBase=%s/tmp\n' "$state" >"$state/mpi.conf"
  : >"$state/cgroup.conf"
  (umask 077 && head -c 128 /dev/urandom >"$state/munge.key")
  on_head munged --force --num-threads=2 --key-file="$state/munge.key" --socket="$state/munge.socket" --pid-file="$state/munged.pid" --log-file="$state/log/munged" --seed-file="$state/munge.seed" \
    9<&- >"$state/log/munged.start" 2>&1 || fail "munged does not start: $(tail -n 1 "$state/log/munged.start")"
  on_head slurmctld -i 9<&- </dev/null >"$state/log/slurmctld.start" 2>&1 || fail "slurmctld does not start: $(tail -n 1 "$state/log/slurmctld.start")"
  for host in $(hosts); do
    run_on "$host" slurmd -N "$host" 9<&- </dev/null >"$state/log/slurmd.start" 2>&1 || fail "slurmd does not start on $host: $(tail -n 1 "$state/log/slurmd.start")"
  done
  wait_for 60 idle all_idle "$1" || fail "Slurm's nodes are not idle after 60 s: $(on_head sinfo --noheader 2>&1 | head -n 1); $(tail -n 1 "$state/log/slurmctld")"
}

all_idle() { [[ $(on_head sinfo --noheader --Node --states=idle | wc -l) -eq $1 ]]; }
