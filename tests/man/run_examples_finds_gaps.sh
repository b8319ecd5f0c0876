#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The bad twin of run_examples.py: a program that is missing, does not compile, fails or has
# no compile command does not pass.
#
# usage: run_examples_finds_gaps.sh PYTHON RUN_EXAMPLES.PY MAN-DIR INCLUDE-DIR LIBRARY CC...
set -u
python=$1 check=$2 pages=$3
shift 3
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
failed=0

# After the script, on one page of five, the check fails with the text.
tried() { # WHAT TEXT SED-SCRIPT OTHER-ARGUMENTS...
    what=$1 text=$2 script=$3
    shift 3
    rm -rf "$tmp/man"
    mkdir "$tmp/man"
    # the changed page represents all five: one is sufficient, and quick
    for page in utofu_create_vcq utofu_reg_mem utofu_put utofu_poll_mrq utofu_barrier; do
        cp "$pages/utofu_create_vcq.3" "$tmp/man/$page.3"
    done
    sed -i "$script" "$tmp/man/utofu_barrier.3"
    "$python" "$check" "$tmp/man" "$@" >"$tmp/out" 2>&1
    rc=$?
    [ $rc -eq 77 ] && { cat "$tmp/out"; exit 77; }
    if [ -z "$text" ]; then
        [ $rc -eq 0 ] || { echo "FAIL: the page to begin with is not good"; cat "$tmp/out"; exit 1; }
    elif [ $rc -eq 0 ] || ! grep -q -- "$text" "$tmp/out"; then
        echo "FAIL: $what: not found as \"$text\", status $rc:"
        cat "$tmp/out"
        failed=1
    fi
}

tried "as it is" '' '' "$@"
tried "no program" "utofu_barrier has no program" '/^.SH EXAMPLES/,/^.EE/d' "$@"
tried "no line to compile it" "or no line that compiles it" 's/^cc .*o create_vcq/create_vcq/' "$@"
tried "a program that does not compile" "FAIL: utofu_barrier: status 1" 's/^int main/main/' "$@"
tried "a program that fails" "FAIL: utofu_barrier: status 3" 's/^ *return 0;/return 3;/' "$@"
[ $failed -eq 0 ] && echo ok
exit $failed
