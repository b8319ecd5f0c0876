#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# alone.sh SOURCE BUILD: a program of the tutorial, an example, the program of README.md and a Python program whose other
# process does not come, or has the same rank, end by themselves after UTOFU_JOB_TIMEOUT, with a status other than 0
# and a message. The twin is the tutorial's exchange.c with a loop that has no end.
set -u

source=$1 build=$2
work=$(mktemp -d)
limit=60 # seconds, of timeout: many times what the programs take
failures=0
trap 'rm -rf "$work"' EXIT
export PKG_CONFIG_PATH=$build/meson-uninstalled LD_LIBRARY_PATH=$build PYTHONPATH=$build/bindings/python UTOFU_PROVIDER=shm
export UTOFU_JOB_TIMEOUT=2 UTOFU_SIZE=2
unset UTOFU_RANK UTOFU_ROOT UTOFU_JOB_KEY

fail() {
    failures=$((failures + 1))
    echo "FAIL $*"
    sed 's/^/    /' "$work/out"
}

# alone RANK COMMAND...: as this rank of a job of two, without the other one
alone() {
    local rank=$1
    shift
    UTOFU_RANK=$rank UTOFU_ROOT=unix:@alone-$$-$RANDOM timeout "$limit" "$@" >"$work/out" 2>&1
    status=$?
}

# ends NAME COMMAND...
ends() {
    local name=$1 rank first
    shift
    for rank in 0 1; do
        alone "$rank" "$@"
        [ "$status" != 124 ] && [ "$status" != 0 ] && grep -q 'UTOFU_JOB_TIMEOUT\|has not called the library' "$work/out" ||
            fail "$name as rank $rank of 2, alone: status $status"
    done
    for root in "unix:@twice-$$-$RANDOM" "$work/root-$RANDOM"; do
        [ "${root#/}" = "$root" ] || mkdir "$root"
        UTOFU_RANK=0 UTOFU_ROOT=$root timeout "$limit" "$@" >"$work/first" 2>&1 &
        first=$!
        UTOFU_RANK=0 UTOFU_ROOT=$root timeout "$limit" "$@" >"$work/out" 2>&1
        status=$?
        [ "$status" != 124 ] && [ "$status" != 0 ] || fail "$name twice as rank 0, the second: status $status"
        wait "$first"
        status=$?
        cat "$work/first" >>"$work/out"
        [ "$status" != 124 ] && [ "$status" != 0 ] || fail "$name twice as rank 0, the first: status $status"
        grep -q 'another process claims to be rank 0' "$work/out" || fail "$name twice as rank 0: what is said"
        [ "$(grep -c 'File exists' "$work/out")" = 0 ] || fail "$name twice as rank 0: the error of a file"
    done
}

cp "$source"/docs/tutorial/code/* "$work"
cd "$work" || exit 1
make -s step2 2>"$work/out" || fail 'make step2'
ends 'the tutorial' ./step2
ends 'examples/pingpong_notice' "$build/examples/pingpong_notice"
ends 'examples/pingpong_memory' "$build/examples/pingpong_memory"
ends 'examples/ci-project' "$build/examples/sum"
if [ -d "$PYTHONPATH/utofu" ]; then
    ends 'Meeting of Python' python3 -c 'import utofu
with utofu.Meeting() as meeting:
    meeting.barrier()'
fi

# the twin
sed -i 's/ && is_early());/);/' exchange.c
make -s step2
limit=10
alone 1 ./step2
[ "$status" = 124 ] || fail "a loop without end is not noticed: status $status"
[ "$failures" = 0 ] && echo ok
exit $((failures > 0))
