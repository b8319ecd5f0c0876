#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In another release of Debian, which debootstrap makes once: README's two commands (scripts/quickstart, and
# scripts/run-tests without Soft-RoCE, which needs a kernel of its own), then every test of tier full in which an MPI
# library has a part. The packages there: run_bare_system_test.sh.
#
# usage: run_second_system_test.sh SOURCE SUITE-OF-DEBIAN
set -u
source=$1 suite=$2
# shellcheck source=tests/install/own_root.sh
. "$(dirname "$(readlink -f "$0")")/own_root.sh"
enter_own_root "$@"
make_own_root "$source" "$suite"

# step NAME COMMAND...: in the sources, as root
step() {
    local name=$1
    shift
    # shellcheck disable=SC2016 # for the shell there
    in_root root env UT_TEST_TIMEOUT_SCALE="${UT_TEST_TIMEOUT_SCALE:-3}" sh -c 'cd /src && "$@"' step "$@" \
        >"$work/out" 2>&1 || { fail "$name"; return 1; }
    echo "ok: $name"
}

step 'scripts/quickstart' scripts/quickstart || exit 1
says '^rank 1: 1000 rounds'
step 'scripts/run-tests' scripts/run-tests --no-rxe
step 'what has an MPI library' tests/install/run_mpi_tests.py build
[ $failures = 0 ] && echo ok
[ $failures = 0 ]
