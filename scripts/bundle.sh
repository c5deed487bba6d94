#!/usr/bin/env bash
# Packs a build with every library it needs, so that it runs where nothing can be installed: unpack it anywhere, start ./faibench. The machine needs a Linux whose
# C library is no older than this one's, and for GPUs the driver; CUDA's big libraries (cuBLAS, NCCL) are taken from the machine where it has them.
#   bundle.sh BUILD_FOLDER BUNDLE_FOLDER
# Exit code: 0, 2 when something that belongs into it is missing.
set -euo pipefail

fail() {
  echo "bundle.sh: $1" >&2
  exit 2
}

[[ $# -eq 2 ]] || fail "usage: bundle.sh BUILD_FOLDER BUNDLE_FOLDER"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$1 out=$2
[[ -x $build/bin/faibench && -x $build/bin/faibench-worker ]] || fail "$build has no bin/faibench and bin/faibench-worker: build them first"
[[ ! -e $out || -e $out/faibench ]] || fail "$out is there already and is no bundle"
rm -rf "$out"
mkdir -p "$out"/{bin,lib,share,tests/gpu,results}

cp "$build/bin/faibench" "$build/bin/faibench-worker" "$out/bin/"
[[ ! -d $build/lib/faibench ]] || cp -r "$build/lib/faibench" "$out/lib/faibench"  # the libraries of device variants

# Open MPI: its launcher, its daemon and its plugins, which are found through the variables that ./faibench and ./mpirun set.
ompi_path() { ompi_info --path "$1" --parsable 2>/dev/null | cut -d: -f3; }
plugins='' help=''
if command -v ompi_info >/dev/null; then
  plugins=$(ompi_path pkglibdir) help=$(ompi_path pkgdatadir)
  for tool in orterun orted; do cp "$(command -v "$tool")" "$out/bin/"; done
  cp -rL "$plugins" "$out/lib/openmpi"
  cp -rL "$help" "$out/share/openmpi"
else
  echo "bundle.sh: this MPI is not Open MPI: the bundle runs on one rank, or under the MPI of the machine" >&2
fi
pmix=$(dirname "$(ldconfig -p | sed -n 's/.*libpmix\.so\.2 .*=> //p' | head -1 | xargs -r readlink -f)")/pmix
[[ ! -d $pmix ]] || cp -rL "$pmix" "$out/lib/pmix"

# What all of these are linked to, but for the C library and its loader, which belong to a machine.
of_the_machine='^(ld-linux.*|libc|libm|libpthread|libdl|librt|libresolv|libutil|libnsl|libanl|libnss_.*|libcuda|libnvidia-.*)\.so'
mapfile -t objects < <(find "$out/bin" "$out/lib" -type f)
ldd "${objects[@]}" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | while read -r library; do
  name=$(basename "$library")
  if [[ $name =~ $of_the_machine || -e $out/lib/$name ]]; then continue; fi
  cp -L "$library" "$out/lib/$name"
done
if missing=$(ldd "$out/bin/faibench" "$out/bin/faibench-worker" | grep 'not found'); then fail "not found here: $missing"; fi

# Started through a script, so that the programs themselves need to know nothing of where they lie.
for program in faibench mpirun; do
  tool=$program
  [[ $program != mpirun ]] || tool=orterun
  [[ -e $out/bin/$tool ]] || continue
  cat >"$out/$program" <<SCRIPT
#!/bin/sh
here=\$(cd "\$(dirname "\$(readlink -f "\$0")")" && pwd)
export LD_LIBRARY_PATH="\$here/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
export OPAL_PREFIX="\$here" OPAL_BINDIR="\$here/bin" OPAL_LIBDIR="\$here/lib" OPAL_PKGLIBDIR="\$here/lib/openmpi" OPAL_DATADIR="\$here/share" OPAL_PKGDATADIR="\$here/share/openmpi"
export PMIX_LIBDIR="\$here/lib" PMIX_PKGLIBDIR="\$here/lib/pmix" PATH="\$here/bin:\$PATH"
exec "\$here/bin/$tool" "\$@"
SCRIPT
  chmod +x "$out/$program"
done

cp -r "$root/tests/cases" "$out/tests/cases"
[[ ! -d $root/tests/gpu ]] || cp "$root"/tests/gpu/*.sh "$out/tests/gpu/"
cp "$root/results/read_results.py" "$root/results/FORMAT.md" "$out/results/"
cp "$root/LICENSE" "$root/README.md" "$out/"
libc=$(ldd --version | sed -n '1s/.* //p')
printf 'faibench, with what it needs to run: ./faibench, or ./mpirun -n 4 ./faibench run. Needs glibc %s or newer; GPUs need their driver.\n' "$libc" >"$out/BUNDLE.txt"
printf '%s: %s, for glibc %s and newer\n' "$out" "$(du -sh "$out" | cut -f1)" "$libc"
