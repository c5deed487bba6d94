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

# Three variants a task; inputs and gates of such sizes take the CPU as long as the timing does.
remaining=$(left)
budget=$(awk -v s="$remaining" -v n="${#tasks[@]}" 'BEGIN {b = s / n / 3 / 4; print (b < 0.5 ? 0.5 : b > 10 ? 10 : b)}')
say "gpu workloads, $budget s of timed calls a variant, $remaining s left"
selected=()
for task in "${tasks[@]}"; do selected+=(--tasks "$task"); done
timeout --signal=USR1 --kill-after=20 "$((remaining > 30 ? remaining - 15 : 15))" "$faibench" run --workload gpu --variant cuda --variant cuda_baseline --variant 'peer:cublas' --budget "$budget" "${selected[@]}" --out "$out" --force
code=$?
((code == 0)) || say "the run ended with exit code $code; what it finished stands in $out"
((code != 1)) || status=1
say "table"
"$faibench" report "$out" || status=1
say "done after $((SECONDS - started)) s; results in $out"
exit $status
