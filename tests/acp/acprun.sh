#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# acprun starts what it is asked for, and says what is wrong.
#
# usage: acprun.sh ACPRUN UTOFURUN PROGRAM
# PROGRAM is acp_basic.
acprun=$1 program=$3
PATH=$(dirname "$2"):$PATH
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
    cat "$work/out"
}

refused() {
    text=$1
    shift
    "$acprun" "$@" >"$work/out" 2>&1
    [ $? = 2 ] && grep -qF -- "$text" "$work/out" || fail "$*: not: $text"
}

"$acprun" -np 3 "$program" 3 >"$work/out" 2>&1 || fail "-np 3"
"$acprun" -np 2 -ndev udp -smemsize 20000 -smemsize-cl 0 -smemsize-dl 30000 "$program" 2 \
    >"$work/out" 2>&1 || fail "with sizes"
"$acprun" -np 2 -smemsize 100 "$program" 2 >"$work/out" 2>&1 && fail "100 bytes are enough"
refused '-np N is wanted' "$program"
refused 'a program is wanted' -np 2
refused '-np x: a number is wanted' -np x "$program"
refused '-np 0: at least 1' -np 0 "$program"
refused '-smemsize: its value is missing' -np 1 -smemsize
refused '-ndev foo: udp, ib' -np 1 -ndev foo "$program"
refused 'there is no option -nope' -np 1 -nope "$program"
refused '-nodefile /nowhere: it cannot be read' -np 1 -nodefile /nowhere "$program"
refused '-np 99999999999999999999: less than' -np 99999999999999999999 "$program"
refused "-nodefile $work: it cannot be read" -np 1 -nodefile "$work" "$program"
PATH=/nowhere "$acprun" -np 1 "$program" >"$work/out" 2>&1
[ $? = 127 ] && grep -q '^acprun: utofurun: not found' "$work/out" || fail "without a launcher"
if [ -e /dev/full ]; then
    "$acprun" --help >/dev/full 2>"$work/out" && fail "--help on a full disk"
fi
"$acprun" --help | grep -q '^Usage: acprun -np N' || fail "--help"
[ $failures = 0 ] && echo ok
[ $failures = 0 ]
