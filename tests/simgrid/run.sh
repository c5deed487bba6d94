#!/bin/sh
# run.sh PROGRAM RANKS BYTES|WORKLOAD TASK...: the program on simulated nodes of 8 ranks. The simulated clock counts messages alone.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
program=$1 ranks=$2 bytes=$3
shift 3
hosts=$(mktemp)
trap 'rm -f "$hosts"' EXIT
rank=0
while [ "$rank" -lt "$ranks" ]; do
  echo "node$((rank / 8))"
  rank=$((rank + 1))
done > "$hosts"
export OMP_NUM_THREADS=1  # threads of their own would lose the identity of a simulated rank
smpirun -no-privatize -platform "$here/cluster.xml" -hostfile "$hosts" -np "$ranks" \
  --cfg=smpi/simulate-computation:no --cfg=smpi/bw-factor:0:1 --cfg=smpi/lat-factor:0:1 --cfg=network/weight-S:0 --log=root.thresh:warning \
  "$program" 8 "$bytes" "$@"
