# Sourced by run.sh and test.sh: the packages a build needs, and the build itself. Asks nothing; says in one line what it does or what is wrong.
# shellcheck shell=bash

faibench_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() {  # MESSAGE [EXIT_CODE]
  printf '%s: %s\n' "$(basename "$0")" "$1" >&2
  exit "${2:-1}"
}

run_packages=(g++ cmake ninja-build pkg-config openmpi-bin libopenmpi-dev libhdf5-dev libcli11-dev libfmt-dev nlohmann-json3-dev libhwy-dev libhwloc-dev libxxhash-dev)
test_packages=(libgtest-dev libgmock-dev libboost-context-dev libsimgrid-dev python3 python3-h5py python3-numpy python3-pandas python3-matplotlib)
# Of the tests on several hosts, which are skipped where these cannot be had.
cluster_packages=(slurm-wlm munge iproute2)

# What of the named Debian packages is not installed, one a line.
missing_packages() {
  local installed package
  installed=$(dpkg-query -W -f='${db:Status-Status} ${binary:Package}\n' 2>/dev/null | sed -n 's/^installed \([^:]*\).*/\1/p')
  for package in "$@"; do
    grep -qxF "$package" <<<"$installed" || printf '%s\n' "$package"
  done
}

install_packages() {
  local -a missing as_root=() apt
  mapfile -t missing < <(missing_packages "$@")
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if [[ $(id -u) -ne 0 ]]; then
    if ! sudo -n true 2>/dev/null; then fail "packages are missing and this is neither root nor a sudo that asks nothing; install them: apt-get install ${missing[*]}" 2; fi
    as_root=(sudo -n)
  fi
  printf 'Installing with apt-get: %s\n' "${missing[*]}"
  apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300)
  local log
  log=$(mktemp)
  if ! "${apt[@]}" update >"$log" 2>&1 || ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
    tail -n 15 "$log" >&2
    fail "apt-get could not install: ${missing[*]} (its last lines are above, all of them in $log)" 2
  fi
  rm -f "$log"
}

# Where there is no apt-get: nothing is installed, but what is there is used.
list_what_to_install() {
  local what=() tool module
  for tool in cmake ninja c++ pkg-config mpicxx mpirun; do command -v "$tool" >/dev/null || what+=("$tool"); done
  for module in libhwy hwloc libxxhash fmt; do pkg-config --exists "$module" 2>/dev/null || what+=("$module (development files)"); done
  [[ ${#what[@]} -gt 0 ]] || return 0
  cat >&2 <<'LIST'
This is no Debian or Ubuntu: please install what faibench builds with, then start again.
  a C++20 compiler (GCC 12 or newer), CMake 3.25 or newer, Ninja, pkg-config
  an MPI library with its compiler wrapper (Open MPI 4 or newer), HDF5 (serial, C library)
  CLI11 2, {fmt} 9, nlohmann-json 3.11, Google Highway 1.0.3, hwloc 2, xxHash
  for the tests: GoogleTest with GoogleMock, Python 3 with h5py, numpy, pandas, matplotlib
LIST
  local joined
  printf -v joined '%s, ' "${what[@]}"
  fail "missing here: ${joined%, }" 2
}

set_up() {  # run | test
  local packages=("${run_packages[@]}")
  [[ $1 == test ]] && packages+=("${test_packages[@]}")
  if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
    install_packages "${packages[@]}"
    if [[ $1 == test ]] && ! (install_packages "${cluster_packages[@]}"); then printf 'The tests on several hosts (ctest -L cluster) will be skipped\n'; fi
  else
    list_what_to_install
  fi
}

build() {  # FOLDER TESTS(ON|OFF) [TARGET...]
  local folder=$faibench_root/build/$1 tests=$2
  shift 2
  mkdir -p "$folder"
  local log=$folder/build.log launcher=()
  if command -v flock >/dev/null; then  # two at once would build into each other's files
    exec 9>"$folder.lock"
    flock 9
  fi
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  if [[ ! -e $folder/build.ninja ]]; then
    printf 'Configuring build/%s\n' "$(basename "$folder")"
    if ! (cd "$faibench_root" && cmake --preset release -B "$folder" -DFAIBENCH_TESTS="$tests" "${launcher[@]}") >"$log" 2>&1; then
      rm -f "$folder/build.ninja" "$folder/CMakeCache.txt"
      tail -n 20 "$log" >&2
      fail "the build cannot be configured (see above and $log)"
    fi
  fi
  printf 'Building build/%s\n' "$(basename "$folder")"
  if ! cmake --build "$folder" ${1:+--target "$@"} >"$log" 2>&1; then
    grep -E -A 5 'error|FAILED' "$log" | head -n 40 >&2 || true
    fail "the build failed (see above and $log)"
  fi
  if command -v flock >/dev/null; then exec 9>&-; fi
}
