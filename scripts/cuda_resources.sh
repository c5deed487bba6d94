#!/usr/bin/env bash
# Compiles every CUDA source for sm_80 and sm_90 and prints what each kernel takes: registers, shared memory, stack, spills. Needs nvcc, no GPU.
# cuda_resources.sh [--nvcc FILE] [--markdown] [FILE.cu...]
# Exit code: 0, 1 when a kernel spills registers and is not in the list of exceptions below, 2 when a source does not compile.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Deliberate: "kernel architecture reason", one a line.
exceptions=$(cat <<'LIST'
LIST
)

nvcc=nvcc row='%-44s %-6s %9s %9s %7s %7s\n'
files=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --nvcc) nvcc=$2; shift 2 ;;
    --markdown) row='| %s | %s | %s | %s | %s | %s |\n'; shift ;;
    -*) echo "cuda_resources.sh: unknown option $1" >&2; exit 2 ;;
    *) files+=("$1"); shift ;;
  esac
done
command -v "$nvcc" >/dev/null || { echo "cuda_resources.sh: there is no nvcc here: give it with --nvcc" >&2; exit 2; }
[[ ${#files[@]} -gt 0 ]] || mapfile -t files < <(find "$root/kernels" "$root/collectives" -name '*.cu' | sort)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2059
printf "$row" kernel arch registers shared stack spilled
[[ $row != '|'* ]] || echo '|---|---|---|---|---|---|'
status=0
for file in "${files[@]}"; do
  for arch in sm_80 sm_90; do
    if ! "$nvcc" -std=c++20 -O3 -diag-suppress 554 -arch="$arch" -I "$root/src" -I "$root" -Xptxas -v -c "$file" -o "$work/kernel.o" >"$work/log" 2>&1; then
      cat "$work/log" >&2
      echo "cuda_resources.sh: $file does not compile for $arch" >&2
      exit 2
    fi
    # ptxas names the kernel in one line, its stack and spills two lines on, its registers and shared memory in the one after.
    sed -n "s/.*Compiling entry function '\([^']*\)'.*/kernel \1/p; s/^ *\([0-9]*\) bytes stack frame, \([0-9]*\) bytes spill stores, \([0-9]*\) bytes spill loads.*/stack \1 \2 \3/p; s/.*Used \([0-9]*\) registers.*/registers &/p" "$work/log" >"$work/facts"
    while read -r what rest; do
      case $what in
        kernel) kernel=$(c++filt "$rest" | sed 's/^void //; s/(anonymous namespace):://; s/faibench:://g; s/(.*//') ;;
        stack) read -r stack stores loads <<<"$rest" ;;
        registers)
          registers=$(sed 's/.*Used \([0-9]*\) registers.*/\1/' <<<"$rest")
          shared=$(grep -o '[0-9]* bytes smem' <<<"$rest" | cut -d' ' -f1 || true)
          # shellcheck disable=SC2059
          printf "$row" "$kernel" "$arch" "$registers" "${shared:-0}" "$stack" "$((stores + loads))"
          if ((stores + loads > 0)) && ! grep -qF "$kernel $arch " <<<"$exceptions"; then
            echo "cuda_resources.sh: $kernel spills on $arch: $stores bytes stored, $loads loaded" >&2
            status=1
          fi
          ;;
      esac
    done <"$work/facts"
  done
done
exit $status
