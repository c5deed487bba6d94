#!/usr/bin/env bash
# Installs what is missing (Debian, Ubuntu), builds everything and runs all tests. Arguments go to ctest: ./test.sh -L unit
# Exit code: ctest's own, 1: the build failed, 2: packages are missing and cannot be installed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/scripts/setup.sh"

set_up test
build test ON

exec ctest --test-dir "$faibench_root/build/test" --output-on-failure --no-tests=error "$@"
