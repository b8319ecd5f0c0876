#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A process that waits for a stopped one prints the reason; then the other is continued, and
# the job ends well.
#
# usage: waits.sh LINE COMMAND...
#
# COMMAND starts the job: one of its processes writes "stops PID" to standard output and stops
# itself. LINE: what another one has to say, an extended regular expression.
#
# Where only other reasons have been named for ten seconds, no right one follows.
#
# UT_TEST_TIMEOUT_SCALE: how much slower the machine is.
line=$1
shift
work=$(mktemp -d)
export TMPDIR=$work # tests/harness/openmpi keeps its files there until its job ends
trap 'rm -rf "$work"' EXIT

: >"$work/out" && : >"$work/err"
"$@" >"$work/out" 2>"$work/err" &
job=$!
said=no
others=0
for ((i = 0; i < 300 * ${UT_TEST_TIMEOUT_SCALE:-1}; i++)); do
    if grep -Eqr "$line" "$work"; then
        said=yes
        break
    fi
    grep -Eqr 'has waited [0-9]+ s' "$work" && others=$((others + 1))
    [ $others -lt $((100 * ${UT_TEST_TIMEOUT_SCALE:-1})) ] && kill -0 "$job" 2>/dev/null || break
    sleep 0.1
done
stopped=$(grep -hr '^stops ' "$work" | head -n 1 | cut -d ' ' -f 2)
[ -z "$stopped" ] || kill -CONT "$stopped"
wait "$job"
status=$?
cat "$work/err"
echo "said: $said; the job ended with status $status"
[ "$said" = yes ] && [ "$status" = 0 ]
