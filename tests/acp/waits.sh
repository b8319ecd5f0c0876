#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A process that waits for one that is stopped says for what; when it has said so, the other goes on, and
# the job ends well.
#
# usage: waits.sh UTOFURUN PROGRAM WHERE LINE
#
# PROGRAM WHERE: one of two processes writes "stops PID" to standard output and stops itself. LINE: what the
# other one has to say, an extended regular expression.
#
# UT_TEST_TIMEOUT_SCALE: how much slower the machine is.
utofurun=$1 program=$2 where=$3 line=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

: >"$work/out" && : >"$work/err"
"$utofurun" -n 2 "$program" "$where" >"$work/out" 2>"$work/err" &
job=$!
said=no
for ((i = 0; i < 300 * ${UT_TEST_TIMEOUT_SCALE:-1}; i++)); do
    if grep -Eq "$line" "$work/err"; then
        said=yes
        break
    fi
    kill -0 "$job" 2>/dev/null || break
    sleep 0.1
done
stopped=$(sed -n 's/^stops //p' "$work/out")
[ -z "$stopped" ] || kill -CONT "$stopped"
wait "$job"
status=$?
cat "$work/err"
echo "said: $said; the job ended with status $status"
[ "$said" = yes ] && [ "$status" = 0 ]
