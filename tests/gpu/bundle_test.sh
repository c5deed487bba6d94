#!/usr/bin/env bash
# A bundle runs from wherever it was moved to, on a machine without any of the libraries it was built with: they are hidden from it in a mount namespace.
#   bundle_test.sh BUILD_FOLDER
# Exit code: 0, 1 when it does not, 77 where namespaces are not allowed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
unshare -m true 2>/dev/null || { echo "SKIPPED: no right to make a mount namespace"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$root/scripts/bundle.sh" "$1" "$work/made"
mv "$work/made" "$work/moved"
cat >"$work/elsewhere.sh" <<'SCRIPT'
set -euo pipefail
cd "$1"
for folder in "$(ompi_info --path pkglibdir --parsable | cut -d: -f3)" "$(ompi_info --path pkgdatadir --parsable | cut -d: -f3)"; do mount -t tmpfs tmpfs "$folder"; done
ldconfig -p | awk '/lib(hdf5|mpi|open-pal|open-rte|fmt|hwy|hwloc|pmix|xxhash|cudart|boost)/ {print $NF}' | sort -u | while read -r library; do mount --bind /dev/null "$library"; done
for tool in mpirun orted; do mount --bind /dev/null "$(readlink -f "$(command -v $tool)")"; done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
./faibench doctor >/dev/null
./mpirun -n 2 ./faibench run --workload smoke --gate-only --quiet --tasks 'tp_allreduce*' --tasks 'coalesced*' --out "$1/../run.h5" | tee "$1/../said"
grep -q '2 ranks on 1 node' "$1/../said"
if [[ -e lib/faibench/libfaibench_emulated.so ]]; then tests/gpu/check.sh --emulate --tasks 'fp16*'; fi
tests/gpu/check.sh --tasks 'coalesced*' && code=0 || code=$?
[[ $code == 77 || -e /dev/nvidiactl ]] || { echo "check.sh without a GPU: exit code $code, not 77"; exit 1; }
SCRIPT
unshare -m bash "$work/elsewhere.sh" "$work/moved"
