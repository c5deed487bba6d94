#!/usr/bin/env bash
# scripts/cuda_resources.sh counts what a known kernel holds, alike from its cache, and refuses one that spills. cuda_resources_test.sh NVCC
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
script=$here/../../scripts/cuda_resources.sh
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
fail() { echo "cuda_resources_test: $1" >&2; exit 1; }

first=$("$script" --nvcc "$1" --jobs 1 --cache "$cache" "$here/counted.cu")
for arch in sm_80 sm_90; do
  # kernel arch threads registers shared spilled, loads and stores of 16 bytes, cp.async ldmatrix mma, warps
  row=$(grep "known $arch\|known  *$arch" <<<"$first" | tr -s ' ' | cut -d' ' -f2,3,5-12) || fail "no row of $arch in: $first"
  [[ $row == "$arch 64 1024 0 1 1 0/0 1 1 1" ]] || fail "wanted '$arch 64 1024 0 1 1 0/0 1 1 1', got '$row'"
done
[[ $("$script" --nvcc "$1" --cache "$cache" "$here/counted.cu") == "$first" ]] || fail "the cache says something else"
[[ $(find "$cache" -type f | wc -l) == 1 ]] || fail "not one file in the cache"

status=0
said=$("$script" --nvcc "$1" "$here/spilling.cu" 2>&1 >/dev/null) || status=$?
[[ $status == 1 && $said == *"counted::spilling spills on sm_80"* ]] || fail "a kernel that spills: exit code $status, '$said'"
echo 'no CUDA' >"$cache/broken.cu"
status=0
said=$("$script" --nvcc "$1" "$cache/broken.cu" 2>&1 >/dev/null) || status=$?
[[ $status == 2 && $said == *"broken.cu does not compile for sm_80"* ]] || fail "a source that does not compile: exit code $status, '$said'"
