#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two processes of different real-time priorities on one core: a process that waits lets the other run.
# Usage: real_time.sh PROGRAM...
core=$(taskset -cp $$ | sed 's/.*[ ,-]//')
chrt -f 1 true 2>/dev/null || exit 77 # takes CAP_SYS_NICE
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
for program; do
    UTOFU_RANK=0 UTOFU_SIZE=2 UTOFU_ROOT=$root timeout -s KILL 60 taskset -c "$core" chrt -f 10 "$program" &
    first=$!
    UTOFU_RANK=1 UTOFU_SIZE=2 UTOFU_ROOT=$root timeout -s KILL 60 taskset -c "$core" chrt -f 5 "$program" || exit 1
    wait "$first" || exit 1
done
