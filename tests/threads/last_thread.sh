#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# last_thread.sh LAST_THREAD UTOFURUN [LAUNCHER...]: a process whose main() has called pthread_exit() ends.
set -u
last_thread=$1 utofurun=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
deadline=20

# expect NAME STATUS OUTPUT command...
expect() {
    local name=$1 status=$2 want=$3 got
    shift 3
    timeout -k 5 "$deadline" "$@" >"$folder/out" 2>"$folder/err" </dev/null
    got=$?
    if [ "$got" != "$status" ] || [ "$(paste -sd, "$folder/out")" != "$want" ] || [ -s "$folder/err" ]; then
        printf 'FAIL %s: status %s, not %s; said %s, not %s\n' "$name" "$got" "$status" "$(paste -sd, "$folder/out")" "$want"
        cat "$folder/err"
        failures=$((failures + 1))
    fi
}

# one process, a job, and one without the background thread, which has other threads of the library
jobs=("" "$utofurun -n 1" "env UTOFU_PROGRESS_THREAD=0 $utofurun -n 1")
[ $# = 0 ] || jobs+=("$*")
for job in "${jobs[@]}"; do
    # shellcheck disable=SC2086 # words of a command
    expect "alone $job" 0 'main,exit handler' $job "$last_thread" alone
    # shellcheck disable=SC2086
    expect "early $job" 0 'main,exit handler' $job "$last_thread" early
    # shellcheck disable=SC2086
    expect "worker $job" 0 'main,worker,exit handler' $job "$last_thread" worker
done

# a remaining thread keeps the process alive, and takes its signals
"$last_thread" stays >"$folder/out" &
until [ -s "$folder/out" ]; do sleep 0.1; done
sleep 1.5
kill $!
wait $!
status=$?
if [ "$status" != 143 ] || grep -q handler "$folder/out"; then
    echo "FAIL stays: status $status"
    failures=$((failures + 1))
fi
echo "$failures failures"
[ "$failures" = 0 ]
