#!/usr/bin/env bash
# What every CUDA kernel is made of, for sm_80 and sm_90: registers, shared memory, spills, wide accesses, matrix instructions, occupancy. Needs nvcc, no GPU.
# cuda_resources.sh [--nvcc FILE] [--markdown] [--cache FOLDER] [--jobs N] [FILE.cu...]
#   --markdown   the table as docs/cuda-kernels.md has it
#   --cache      keeps what was found in FOLDER, by the hash of sources, headers and compiler
# Exit code: 0, 1 when a kernel spills registers and is not in the list of exceptions below, 2 when a source does not compile.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Deliberate: "kernel architecture reason", one a line.
exceptions=$(cat <<'LIST'
LIST
)

nvcc=nvcc markdown='' cache='' jobs=$(nproc)
files=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --nvcc) nvcc=$2; shift 2 ;;
    --markdown) markdown=1; shift ;;
    --cache) cache=$2; shift 2 ;;
    --jobs) jobs=$2; shift 2 ;;
    -*) echo "cuda_resources.sh: unknown option $1" >&2; exit 2 ;;
    *) files+=("$(realpath "$1")"); shift ;;
  esac
done
command -v "$nvcc" >/dev/null || { echo "cuda_resources.sh: there is no nvcc here: give it with --nvcc" >&2; exit 2; }
[[ ${#files[@]} -gt 0 ]] || mapfile -t files < <(find "$root/kernels" "$root/collectives" -name '*.cu' | sort)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# facts_of LOG PTX ARCH: a line a kernel, tab-separated: mangled name, architecture, threads, registers, static shared bytes, dynamic or -, stack, spilled bytes,
# then instructions in the code: 16-byte loads and stores of global and of shared memory, cp.async, ldmatrix, mma.
facts_of() {
  awk -v arch="$3" '
    FNR == 1 { part += 1 }
    # ptxas names the kernel in one line, its stack and spills two lines on, its registers and shared memory in the one after.
    part == 1 && match($0, /Compiling entry function \047[^\047]*\047 for \047[^\047]*\047/) {
      split(substr($0, RSTART, RLENGTH), quoted, "\047"); kernel = quoted[4] == arch ? quoted[2] : ""
      if (kernel != "") order[++kernels] = kernel
    }
    part == 1 && kernel != "" && /bytes stack frame/ { stack[kernel] = $1; spilled[kernel] = $5 + $9 }
    part == 1 && kernel != "" && match($0, /Used [0-9]+ registers/) { split(substr($0, RSTART, RLENGTH), word, " "); registers[kernel] = word[2]
      shared[kernel] = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH) + 0 : 0 }
    part == 2 && match($0, /\.entry [A-Za-z0-9_$]+/) { inside = substr($0, RSTART + 7, RLENGTH - 7); next }
    part == 2 && /^}/ { inside = "" }
    part == 2 && inside == "" { next }
    /\.maxntid/ { gsub(/[^0-9 ]/, " "); threads[inside] = $1 * ($2 ? $2 : 1) * ($3 ? $3 : 1); next }
    /faibench_dynamic_shared/ { dynamic[inside] = 1 }
    /\.(v4\.[a-z]*32|v2\.[a-z]*64|b128)/ {
      if (/ld\.global/) ++load[inside]
      if (/st\.global/) ++store[inside]
      if (/ld\.(volatile\.)?shared/) ++shared_load[inside]
      if (/st\.(volatile\.)?shared/) ++shared_store[inside]
    }
    /cp\.async\.c[ag]/ { ++copy[inside] }
    /ldmatrix/ { ++matrix[inside] }
    /mma\.sync/ { ++mma[inside] }
    END {
      for (i = 1; i <= kernels; ++i) {
        k = order[i]
        printf "%s\t%s\t%d\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", k, arch, threads[k], registers[k], shared[k], dynamic[k] ? "dynamic" : "-", stack[k], spilled[k], load[k], store[k], shared_load[k],
               shared_store[k], copy[k], matrix[k], mma[k]
      }
    }' "$1" "$2"
}

# measure FILE: its facts into $work/NUMBER.facts, from the cache where they are known.
measure() {
  local file=$1 out=$2 own key
  own=$(mktemp -d "$work/XXXXXX")
  if [[ -n $cache ]]; then
    key=$({ "$nvcc" --version; cat "${BASH_SOURCE[0]}" "$file"; find "$(dirname "$file")" "$root"/src/{cuda,tensor,task} -maxdepth 1 -name '*.h' -print0 | sort -z | xargs -0 cat; } | sha256sum | cut -c1-32)
    [[ -f $cache/$key ]] && { cp "$cache/$key" "$out"; return; }
  fi
  local arch
  for arch in 80 90; do
    local flags=(-std=c++20 -O3 -diag-suppress 554 -I "$root/src" -I "$root" -I "$root/collectives")
    if ! { "$nvcc" "${flags[@]}" -arch="compute_$arch" -ptx "$file" -o "$own/kernel.ptx" && "$nvcc" -arch="sm_$arch" -Xptxas -v -cubin "$own/kernel.ptx" -o "$own/kernel.cubin"; } >"$own/log" 2>&1; then
      { cat "$own/log"; echo "cuda_resources.sh: $file does not compile for sm_$arch"; } >"$out.failed"
      return
    fi
    facts_of "$own/log" "$own/kernel.ptx" "sm_$arch" >>"$own/facts"
  done
  # Names as people write them, without namespaces and parameters.
  cut -f1 "$own/facts" | c++filt | sed -E 's/^void //; s/\(anonymous namespace\):://g; s/faibench:://g; s/> >/>>/g; s/\(([^()]|\([^()]*\))*\)$//' >"$own/names"
  cut -f2- "$own/facts" | paste "$own/names" - >"$own/named"
  [[ -z $cache ]] || { mkdir -p "$cache"; cp "$own/named" "$cache/$key.$$" && mv "$cache/$key.$$" "$cache/$key"; }
  mv "$own/named" "$out"
}

running=0 number=0
for file in "${files[@]}"; do
  number=$((number + 1))
  if ((running >= jobs)); then wait -n || true; running=$((running - 1)); fi
  measure "$file" "$work/$number.facts" &
  running=$((running + 1))
done
wait
if compgen -G "$work/*.failed" >/dev/null; then cat "$work"/*.failed >&2; exit 2; fi

# occupancy THREADS REGISTERS SHARED ARCH: warps a multiprocessor of its 64, by registers and static shared memory. Where the source names no block size: blocks of 256.
occupancy() {
  local threads=$(($1 ? $1 : 256)) registers=$2 shared=$3 room=$((164 * 1024)) warps blocks limit
  [[ $4 == sm_90 ]] && room=$((228 * 1024))
  warps=$(((threads + 31) / 32))
  blocks=$((65536 / ((registers * 32 + 255) / 256 * 256) / warps))
  limit=$((room / (shared + 1024)))
  for limit in $limit $((64 / warps)) 32; do blocks=$((limit < blocks ? limit : blocks)); done
  echo $((blocks * warps))
}

if [[ -n $markdown ]]; then
  cat <<'HEAD'
# CUDA kernels: what the compiler made of them

Made by `scripts/cuda_resources.sh --markdown`; no GPU has run anything here. `threads`: the largest block the source allows; `shared`: static bytes, `+` where the launch adds dynamic memory;
`spilled`: bytes stored and loaded; `a : b`: on sm_80 and on sm_90, where they differ. Then instructions in the code (PTX), not executed ones: 16-byte loads and stores of global and shared memory,
asynchronous copies to shared memory (`cp.async`), matrix loads (`ldmatrix`), matrix products (`mma`). `warps`: of 64 that fit a multiprocessor by registers and static shared memory, in blocks of 256
where the source names no size; dynamic shared memory may leave fewer. What share of the roofline a kernel should reach, and why, stands at the head of its `cuda.cu`.
HEAD
fi

columns=(kernel arch threads registers shared spilled 'global ld' 'global st' 'shared ld/st' cp.async ldmatrix mma warps)
row='%-56s %-6s %7s %9s %9s %7s %9s %9s %10s %8s %8s %4s %5s\n'

# rows FACTS: the table's cells, tab-separated.
rows() {
  while IFS=$'\t' read -r kernel arch threads registers shared dynamic _ spilled load store shared_load shared_store copy matrix mma; do
    local warps
    warps=$(occupancy "$threads" "$registers" "$shared" "$arch")
    [[ $dynamic != dynamic ]] || shared+=+
    printf '%s\t' "$kernel" "$arch" "${threads/#0/-}" "$registers" "$shared" "$spilled" "$load" "$store" "$shared_load/$shared_store" "$copy" "$matrix" "$mma"
    printf '%s\n' "$warps"
  done <"$1"
}

# One row a kernel: what differs between the architectures stands as "sm_80 : sm_90".
print_markdown() {
  printf '\n## %s\n\n' "$2"
  awk -F'\t' -v folder="$2::" '
    { gsub(folder, "", $1); if (!($1 in seen)) order[++count] = $1; ++seen[$1]
      for (i = 3; i <= NF; ++i) cell[$1, i] = seen[$1] == 1 ? $i : cell[$1, i] == $i ? $i : cell[$1, i] " : " $i; fields = NF }
    END {
      print "| kernel | threads | registers | shared | spilled | global ld | global st | shared ld/st | cp.async | ldmatrix | mma | warps |"
      print "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
      for (k = 1; k <= count; ++k) { line = "| `" order[k] "` |"; for (i = 3; i <= fields; ++i) line = line " " cell[order[k], i] " |"; print line }
    }' "$1"
}

status=0 number=0
# shellcheck disable=SC2059
[[ -n $markdown ]] || printf "$row" "${columns[@]}"
for file in "${files[@]}"; do
  number=$((number + 1))
  rows "$work/$number.facts" >"$work/$number.rows"
  if [[ -n $markdown ]]; then
    print_markdown "$work/$number.rows" "$(basename "$(dirname "$file")")"
  else
    # shellcheck disable=SC2059
    while IFS=$'\t' read -r -a cells; do printf "$row" "${cells[@]}"; done <"$work/$number.rows"
  fi
  while IFS=$'\t' read -r kernel arch _ _ _ spilled _; do
    if ((spilled > 0)) && ! grep -qF "$kernel $arch " <<<"$exceptions"; then
      echo "cuda_resources.sh: $kernel spills on $arch: $spilled bytes" >&2
      status=1
    fi
  done <"$work/$number.rows"
done
exit $status
