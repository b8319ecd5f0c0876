#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An example started with a wrong number of processes prints one line, and
# ends with a status other than 0.
#
# usage: wrong_number.sh PROCESSES COMMAND...
processes=$1
shift
out=$(timeout 60 "$@" 2>&1)
rc=$?
echo "$out"
case $rc in
0 | 124) echo "FAIL: the status is $rc"; exit 1 ;;
esac
lines=$(echo "$out" | grep -c "this program takes [0-9].* processes, not $processes: start it with")
[ "$lines" = 1 ] || { echo "FAIL: $lines lines say how many processes it takes"; exit 1; }
echo ok
