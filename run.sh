#!/usr/bin/env bash
# Installs what is missing (Debian, Ubuntu), builds, and runs the main job on all cores: gate, time and score every task of the catalog.
# Prints the scoreboard and the result file's name. Arguments go to `faibench run`: ./run.sh --workload smoke
# Exit code: faibench's own (0: every gate passed), 1: the build failed, 2: packages are missing and cannot be installed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/scripts/setup.sh"

set_up run
build run OFF

[[ $# -gt 0 ]] || set -- --budget 1  # seconds of timed blocks a task: a tenth of the default, a first answer within minutes
cores=$(nproc)
ranks=$((cores < 2 ? cores : 2))
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1  # containers run as root
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_orte_execute_quiet=1  # no words of mpirun's about an exit code that is the answer
exec mpirun -n "$ranks" --bind-to none "$faibench_root/build/run/bin/faibench" run "$@"
