#!/usr/bin/env bash
# What a machine with a GPU says about the CUDA variants: all cases on the device, compute-sanitizer where it works, then the `gpu` workloads against the eager form and
# cuBLAS, with a table of time, speedup, share of the floor and ratio to the peer. Prints as it goes and leaves its HDF5 file, also when time is up.
#   check.sh [--seconds N=460] [--out FILE.h5] [--tasks GLOB] [--emulate]
# In a bundle (target `bundle`) it needs nothing installed; in a source tree it builds with the compilers and MPI of the machine.
# --emulate: no GPU: the cases on the emulator, no timings; shows that the script itself works.
# Exit code: 0 all right, 1 a case or a gate failed, 2 cannot work here, 77 there is no GPU.
set -uo pipefail

say() { printf '%s  %s\n' "$(date +%H:%M:%S)" "$*"; }
fail() {
  echo "check.sh: $1" >&2
  exit "${2:-2}"
}

seconds=460 out=faibench-gpu.h5 glob='*' emulate=''
while [[ $# -gt 0 ]]; do
  case $1 in
    --seconds | --out | --tasks)
      [[ $# -ge 2 ]] || fail "$1 needs a value"
      declare "$(case $1 in --seconds) echo seconds ;; --out) echo out ;; *) echo glob ;; esac)=$2"
      shift 2
      ;;
    --emulate) emulate=--emulate; shift ;;
    *) fail "unknown option $1" ;;
  esac
done
[[ $seconds =~ ^[0-9]+$ ]] || fail "--seconds $seconds: a whole number of seconds"
started=$SECONDS
left() { echo $((seconds - (SECONDS - started))); }

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
if [[ -x $root/faibench ]]; then
  faibench=$root/faibench
else
  say "building in $root/build/gpu"
  if ! { cmake --preset release -S "$root" -B "$root/build/gpu" -DFAIBENCH_TESTS=OFF && cmake --build "$root/build/gpu"; } >/dev/null; then
    fail "it does not build here: take a bundle made elsewhere (cmake --build BUILD --target bundle)"
  fi
  faibench=$root/build/gpu/bin/faibench
fi
cases=$root/tests/cases

# Tasks with a CUDA variant, from the program's own list.
mapfile -t tasks < <("$faibench" list --tasks "$glob" --json | awk -F'"' '/^ +"task":/ {task = $4} /"variants": \[/ {inside = 1} inside && $2 == "cuda" {print task} /\]/ {inside = 0}')
[[ ${#tasks[@]} -gt 0 ]] || fail "no task $glob with a CUDA variant"
if [[ -z $emulate ]]; then
  "$faibench" doctor | sed -n '/GPU/p'
  "$faibench" doctor --json | grep -q '"uuid"' || fail "no GPU here (see: $faibench doctor)" 77
fi

status=0
say "cases of ${#tasks[@]} tasks${emulate:+, emulated}"
for task in "${tasks[@]}"; do
  variants=()
  while read -r name; do variants+=(--variant "$name"); done < <("$faibench" show "$task" --json | grep -o '"cuda[a-z_]*"' | tr -d '"' | sort -u)
  if answer=$(timeout $(($(left) > 1 ? $(left) : 1)) "$faibench" check "${variants[@]}" $emulate --quiet "$cases/$task"/*.h5 2>&1); then
    say "  $task: $(tail -n 1 <<<"$answer")"
  else
    status=1
    say "  $task: FAILS"
    tail -n 20 <<<"$answer"
  fi
done
if [[ -n $emulate ]]; then exit $status; fi

# The sanitizer slows a kernel down a hundred times and cannot follow every process on every system: a minute and a half for it, and its silence is no verdict.
PATH=$PATH:/usr/local/cuda/bin
if sanitizer=$(command -v compute-sanitizer); then
  until=$((SECONDS + 90))
  for task in "${tasks[@]}"; do
    ((SECONDS < until && $(left) > 240)) || { say "compute-sanitizer: no time for $task and what follows"; break; }
    answer=$(timeout 30 "$sanitizer" --target-processes all --error-exitcode 86 "$faibench" run --workload smoke --gate-only --variant cuda --tasks "$task" --out /tmp/faibench-sanitized-$$.h5 --force 2>&1)
    code=$?
    errors=$(grep -c 'ERROR SUMMARY: [1-9]' <<<"$answer")
    if ((code == 0)); then say "compute-sanitizer $task: clean"
    elif ((errors > 0)); then
      status=1
      say "compute-sanitizer $task: errors"
      grep -m 12 '=========' <<<"$answer"
    else say "compute-sanitizer $task: did not work (exit code $code)"; fi
    rm -f /tmp/faibench-sanitized-$$.*
  done
else
  say "no compute-sanitizer here"
fi

# Times tasks into a file until `until` (of this script's seconds): the run is told to stop then, and what it finished stands in the file.
time_tasks() {  # FILE UNTIL TASK...
  local file=$1 room=$(($2 - (SECONDS - started))) task budget code
  shift 2
  local selected=()
  for task in "$@"; do selected+=(--tasks "$task"); done
  # Three variants a task; inputs and gates of such sizes take the CPU longer than the timing takes the GPU.
  budget=$(awk -v s="$room" -v n="$#" 'BEGIN {b = s / n / 3 / 4; print (b < 0.5 ? 0.5 : b > 10 ? 10 : b)}')
  say "gpu workloads of $# tasks, $budget s of timed calls a variant, $room s for all"
  timeout --signal=USR1 --kill-after=20 "$((room > 15 ? room : 15))" "$faibench" run --workload gpu --variant cuda --variant cuda_baseline --variant 'peer:cublas' --budget "$budget" "${selected[@]}" --out "$file" --force
  code=$?
  ((code == 0)) || say "the run ended with exit code $code; what it finished stands in $file"
  ((code != 1)) || status=1
}

# What is gated in f64 on the CPU for tens of seconds a call has a file of its own and the last third of the time, so that it cannot keep the others from theirs.
slow=' h2d_prefetch_compute_overlap chunked_swiglu_recompute '
first=() last=()
for task in "${tasks[@]}"; do
  if [[ $slow == *" $task "* ]]; then last+=("$task"); else first+=("$task"); fi
done
slow_out=${out%.h5}-slow.h5
files=()
if ((${#first[@]} > 0)); then
  time_tasks "$out" $((${#last[@]} > 0 ? seconds - $(left) / 3 : seconds - 15)) "${first[@]}"
  files+=("$out")
fi
if ((${#last[@]} > 0)); then
  time_tasks "$slow_out" $((seconds - 15)) "${last[@]}"
  files+=("$slow_out")
fi
say "table"
for file in "${files[@]}"; do "$faibench" report "$file" || status=1; done
say "done after $((SECONDS - started)) s; results in ${files[*]}"
exit $status
