#!/usr/bin/env bash
# Several hosts on one machine: each has network, host name, processes, /dev/shm and TMPDIR of its own, and they reach each other over TCP and through a real Slurm.
#
#   hosts.sh probe [slurm] [tbf]     says what this machine lacks or forbids (exit code 77), or nothing
#   hosts.sh up N [--no-slurm] [--shm SIZE] [--lifetime SECONDS]     N hosts h1 ... hN of two slots and a head; sweeps what an earlier cluster of this id left
#   hosts.sh down                    ends every process of the cluster and removes its folder; also after a crash
#   hosts.sh run HOST COMMAND...     as ssh would; HOST is head or h1, h2, ...
#   hosts.sh mpirun ARGUMENTS...     mpirun on head over all hosts, two slots a host
#   hosts.sh shape RATE | off        every host's link gets this rate in both directions, as 1gbit
#   hosts.sh cut HOST, mend HOST     takes a host's link down without a word to either end, and up again
#   hosts.sh ps HOST                 processes on h1, h2, ... that belong to neither the host nor Slurm
#   hosts.sh status                  what is up
#
# Under Slurm: hosts.sh run head srun ..., hosts.sh run head sbatch ...
# FAIBENCH_HOSTS tells clusters apart (default: t): lower-case letters and digits, eight at most. All of a cluster lies in /tmp/faibench-hosts-$FAIBENCH_HOSTS, in memory of its hosts, and in
# namespaces that end with their last process: there is no bridge, address or mount outside, and no name a developer's own could clash with. The head's first process is an ancestor of all the
# others within its PID namespace: the kernel ends them with it, whatever state they are in. It ends by itself after the lifetime.
# shellcheck disable=SC2016  # what stands in single quotes is for the shell of another host
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
id=${FAIBENCH_HOSTS:-t}
if [[ ! $id =~ ^[a-z0-9]{1,8}$ ]]; then
  echo "hosts.sh: FAIBENCH_HOSTS is '$id': one to eight lower-case letters and digits are wanted" >&2
  exit 2
fi
state=/tmp/faibench-hosts-$id
# Nothing of it is visible outside the head's network namespace: it cannot clash with an address of the machine.
subnet=10.77.0 head_address=10.77.0.254
cookie=FAIBENCH_HOSTS_COOKIE=$id

fail() { printf 'hosts.sh: %s\n' "$1" >&2; exit "${2:-1}"; }
lacking() { printf 'SKIPPED: no hosts on this machine: %s\n' "$1"; exit 77; }

# --- what the machine allows -----------------------------------------------------------------------------------------------------------------------------------------------------------------

probe() {
  local what tool out conf
  [[ $(uname -s) == Linux ]] || lacking "this is no Linux"
  for tool in unshare nsenter ip mount flock; do command -v "$tool" >/dev/null || lacking "there is no $tool (packages util-linux, iproute2)"; done
  [[ $(id -u) -eq 0 ]] || lacking "network namespaces and mounts want root, and this is user $(id -un)"
  out=$(unshare --net --mount --uts --ipc --pid --fork --propagation private bash -c 'mount -t proc proc /proc && mount -t tmpfs tmpfs /dev/shm && hostname faibench-probe' 2>&1) ||
    lacking "namespaces of their own with a private /proc and /dev/shm are not allowed (CAP_SYS_ADMIN?): ${out##*$'\n'}"
  out=$(unshare --net bash -c 'ip link set lo up && ip link add br0 type bridge && ip link add name veth0 type veth peer name veth1 && ip link set veth0 master br0 && ip addr add 10.77.0.254/24 dev br0' 2>&1) ||
    lacking "the kernel refuses a bridge and veth links: ${out##*$'\n'}"
  for what in "$@"; do
    case $what in
      slurm)
        for tool in munged slurmctld slurmd srun sbatch scontrol pgrep; do
          command -v "$tool" >/dev/null || [[ -x /usr/sbin/$tool ]] || lacking "there is no $tool (packages slurm-wlm, munge, procps)"
        done
        conf=$(mktemp)
        printf 'ClusterName=probe\nSlurmctldHost=localhost\n' >"$conf"
        out=$(SLURM_CONF=$conf srun --mpi=list 2>&1) || true
        rm -f "$conf"
        grep -qw pmix <<<"$out" || lacking "srun has no pmix plugin (srun --mpi=list)"
        ;;
      tbf)
        command -v tc >/dev/null || [[ -x /usr/sbin/tc ]] || lacking "there is no tc (package iproute2)"
        out=$(unshare --net bash -c 'ip link set lo up && tc qdisc add dev lo root tbf rate 1gbit burst 128kb latency 50ms' 2>&1) || lacking "the kernel has no tbf queue (tc): ${out##*$'\n'}"
        ;;
      *) fail "probe $what: slurm and tbf can be asked for" 2 ;;
    esac
  done
}

# --- in and out of the hosts -----------------------------------------------------------------------------------------------------------------------------------------------------------------

is_up() {
  local pid
  [[ -r $state/head.pid ]] && pid=$(<"$state/head.pid") && [[ -r /proc/$pid/environ ]] && tr '\0' '\n' <"/proc/$pid/environ" | grep -qxF "$cookie"
}

# COMMAND... on the head, with what launchers there need to find the hosts.
on_head() {
  is_up || fail "the cluster '$id' is not up: hosts.sh up N"
  local environment=(
    "$cookie" "TMPDIR=$state/tmp" "SLURM_CONF=$state/slurm.conf"
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # More ranks than cores: who waits gives its core away. Every host would bind its first rank to core 0: no binding.
    OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_oversubscribe=1
    OMPI_MCA_pml=ob1 'OMPI_MCA_btl=tcp,self,vader' "OMPI_MCA_btl_tcp_if_include=$subnet.0/24" "OMPI_MCA_oob_tcp_if_include=$subnet.0/24"
    "OMPI_MCA_plm_rsh_agent=$state/agent" OMPI_MCA_plm_rsh_no_tree_spawn=1 "OMPI_MCA_orte_default_hostfile=$state/hostfile")
  env "${environment[@]}" nsenter --target "$(<"$state/head.pid")" --net --mount --uts --ipc --pid bash -c 'cd "$1" && shift && exec "$@"' bash "$PWD" "$@"
}

run_on() {
  local host=$1
  shift
  if [[ $host == head ]]; then on_head "$@"; else on_head "$state/enter" "$host" "$@"; fi
}

# --- up and down -----------------------------------------------------------------------------------------------------------------------------------------------------------------------------

# Every process that carries the cookie, whether it belongs to a cluster that is up or to what is left of one.
sweep() {
  local environ pid found quiet=0
  for _ in {1..300}; do
    found=
    for environ in /proc/[0-9]*/environ; do
      pid=${environ#/proc/} pid=${pid%/environ}
      [[ $pid != "$$" && $pid != "$BASHPID" ]] || continue
      if tr '\0' '\n' <"$environ" 2>/dev/null | grep -qxF "$cookie"; then
        found=1
        kill -KILL "$pid" 2>/dev/null || true
      fi
    done 2>/dev/null
    # Not after the first look: what a killed 'up' had just forked shows the cookie only once it has become another program.
    if [[ -n $found ]]; then quiet=0; elif ((++quiet == 3)); then break; fi
    sleep 0.1
  done
  [[ -z $found ]] || fail "processes of the cluster '$id' do not end"
  rm -rf "$state"
}

# Of 'up' and 'down'. The lock is on this folder: no file is left. What outlives this program must not inherit descriptor 9.
one_at_a_time() {
  exec 9<"$here"
  flock -w 300 9 || fail "another 'up' or 'down' goes on"
}

clean_up_unless() {  # EXIT_CODE
  [[ $1 -eq 0 || $1 -eq 77 ]] || sweep || true
}

wait_for() {  # SECONDS WHAT COMMAND...
  local until=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < until)) || return 1
    sleep 0.1
  done
}

write_scripts() {
  # How a command gets onto a host, and mpirun's launch agent: ssh's options are dropped, the command is one line for a shell.
  cat >"$state/enter" <<ENTER
#!/usr/bin/env bash
[[ -r $state/hosts/\$1 ]] || { echo "no host \$1" >&2; exit 255; }
pid=\$(<$state/hosts/\$1)
shift
exec nsenter --target "\$pid" --net --mount --uts --ipc --pid bash -c 'cd "\$1" && shift && exec "\$@"' bash "\$PWD" "\$@"
ENTER
  cat >"$state/agent" <<AGENT
#!/usr/bin/env bash
while [[ \$1 == -* ]]; do shift; done
host=\$1
shift
exec $state/enter "\$host" bash -c "\$*"
AGENT
  chmod +x "$state/enter" "$state/agent"
}

up() {
  local count=${1:-} slurm=1 shm=1g lifetime=7200
  [[ $count =~ ^[1-9][0-9]?$ ]] || fail "up wants the number of hosts, 1 to 99" 2
  shift
  while [[ $# -gt 0 ]]; do
    case $1 in
      --no-slurm) slurm=; shift ;;
      --shm) shm=$2; shift 2 ;;
      --lifetime) lifetime=$2; shift 2 ;;
      *) fail "up: unknown option $1" 2 ;;
    esac
  done
  if [[ -n $slurm ]]; then probe slurm; else probe; fi
  sweep
  mkdir -m 755 "$state"
  mkdir "$state/hosts" "$state/tmp" "$state/disk" "$state/spool" "$state/log" "$state/ctld"
  write_scripts
  {
    printf '127.0.0.1 localhost\n%s head\n' "$head_address"
    for ((i = 1; i <= count; ++i)); do printf '%s.%d h%d\n' "$subnet" "$i" "$i"; done
  } >"$state/names"
  for ((i = 1; i <= count; ++i)); do printf 'h%d slots=2\n' "$i"; done >"$state/hostfile"

  local -a spaces=(unshare --net --mount --uts --ipc --pid --fork --kill-child --propagation private)
  # Nothing of the caller's: its descriptors would be held open, and its variables would be everyone's.
  local -a clean=(env -i "$cookie" "PATH=$PATH" "HOME=${HOME:-/root}" LC_ALL=C.UTF-8)
  setsid "${clean[@]}" "${spaces[@]}" bash "$here/first_process.sh" "$state" head "$head_address" "$shm" "$lifetime" </dev/null >"$state/log/head" 2>&1 9<&- &
  wait_for 60 head test -s "$state/head.pid" || fail "the head does not start: $(tail -n 1 "$state/log/head")"
  for ((i = 1; i <= count; ++i)); do
    on_head setsid "${clean[@]}" "${spaces[@]}" bash "$here/first_process.sh" "$state" "h$i" "$subnet.$i" "$shm" "$lifetime" </dev/null >"$state/log/h$i" 2>&1 9<&- &
  done
  for ((i = 1; i <= count; ++i)); do
    wait_for 60 "h$i" test -s "$state/hosts/h$i" || fail "host h$i does not start: $(tail -n 1 "$state/log/h$i")"
    on_head ip link add "to-h$i" type veth peer name eth0 netns "$(<"$state/hosts/h$i")"
    on_head ip link set "to-h$i" master br0 up
    wait_for 60 "h$i" run_on "h$i" test -e "$state/tmp/ready" || fail "host h$i has no network: $(tail -n 1 "$state/log/h$i")"
  done
  if [[ -n $slurm ]]; then
    source "$here/slurm.sh"
    slurm_up "$count"
  fi
  printf '%d hosts and a head are up%s, id %s: hosts.sh run h1 ..., hosts.sh down\n' "$count" "${slurm:+ with Slurm}" "$id"
}

# --- what tests do to them -------------------------------------------------------------------------------------------------------------------------------------------------------------------

hosts() { for file in "$state"/hosts/*; do basename "$file"; done; }

shape() {
  local rate=${1:-} host
  [[ -n $rate ]] || fail "shape wants a rate, as 1gbit, or off" 2
  for host in $(hosts); do
    for where in "head to-$host" "$host eth0"; do
      if [[ $rate == off ]]; then
        run_on "${where% *}" tc qdisc del dev "${where#* }" root 2>/dev/null || true
      else
        run_on "${where% *}" tc qdisc replace dev "${where#* }" root tbf rate "$rate" burst 128kb latency 50ms || fail "$host: cannot be shaped"
      fi
    done
  done
}

command=${1:-}
[[ $# -gt 0 ]] && shift
case $command in
  probe) probe "$@" ;;
  up)
    one_at_a_time
    trap 'clean_up_unless $?' EXIT
    up "$@"
    ;;
  down)
    one_at_a_time
    sweep
    ;;
  run) [[ $# -gt 1 ]] || fail "run wants a host and a command" 2; run_on "$@" ;;
  mpirun) on_head mpirun "$@" ;;
  shape) shape "$@" ;;
  cut) on_head ip link set "to-$1" down ;;
  mend) on_head ip link set "to-$1" up ;;
  ps) run_on "$1" bash -c 'for entry in /proc/[0-9]*; do
        pid=${entry#/proc/}
        [[ $pid -ne 1 && $pid -ne $$ ]] && read -r _ name _ parent _ <"$entry/stat" || continue
        [[ $name != "(sleep)" || $parent -ne 1 ]] && [[ ! $name =~ ^\((slurmd|slurmstepd|slurmctld|slurmscriptd|munged)\)$ ]] && echo "$pid ${name//[()]/}"
      done 2>/dev/null; true' ;;
  status)
    if is_up; then
      echo "up: $(hosts | tr '\n' ' ')"
      if [[ -e $state/slurm.conf ]]; then on_head sinfo; fi
    else
      echo "down"
    fi
    ;;
  *) sed -n '2,/^set -/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
