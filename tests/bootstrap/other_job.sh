#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# other_job.sh OTHER_JOB UTOFURUN: ids of another job, and of an earlier run, are refused.
set -u
other_job=$1 utofurun=$2
unset UTOFU_LOG_LEVEL
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
n=0

# pair NAME COMMAND...: two jobs side by side; again if both have the same mark, which one in 1023 has
pair() {
    local name=$1 first second
    shift
    for _ in 1 2 3; do
        n=$((n + 1))
        mkdir "$folder/$n" "$folder/$n.a" "$folder/$n.b"
        FOLDER="$folder/$n.a" timeout -k 5 60 "$@" "$other_job" "$folder/$n/a" "$folder/$n/b" >"$folder/a" 2>&1 &
        FOLDER="$folder/$n.b" timeout -k 5 60 "$@" "$other_job" "$folder/$n/b" "$folder/$n/a" >"$folder/b" 2>&1
        second=$?
        wait $!
        first=$?
        [ "$first" = 3 ] || [ "$second" = 3 ] || break
    done
    if [ "$first" != 0 ] || [ "$second" != 0 ]; then
        echo "FAIL $name: $first, $second"
        cat "$folder/a" "$folder/b"
        failures=$((failures + 1))
    fi
}

# by_hand PROGRAM ARGUMENT...: two processes that meet in the folder
# shellcheck disable=SC2153 # pair sets it
by_hand() {
    UTOFU_RANK=1 UTOFU_SIZE=2 UTOFU_ROOT=$FOLDER "$@" &
    UTOFU_RANK=0 UTOFU_SIZE=2 UTOFU_ROOT=$FOLDER "$@"
    local first=$?
    wait $! && return $first
}
export -f by_hand

pair utofurun "$utofurun" -n 2
pair alone env
# shellcheck disable=SC2016 # the inner shell expands it
pair folder bash -c 'by_hand "$@"' bash
left=$(find "$folder" -name 'utofu.*' | wc -l)
[ "$left" = 0 ] || { echo "FAIL $left files are left of the folders"; failures=$((failures + 1)); }
# a file that an earlier run has left
for _ in 1 2 3; do
    rm -f "$folder/own"
    timeout -k 5 60 "$other_job" "$folder/own" "$folder/$n/a" >"$folder/a" 2>&1
    status=$?
    [ "$status" = 3 ] || break
done
if [ "$status" != 0 ]; then
    echo "FAIL earlier run: $status"
    cat "$folder/a"
    failures=$((failures + 1))
fi
echo "$failures failures"
[ "$failures" = 0 ]
