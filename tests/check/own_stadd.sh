#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# own_stadd.sh PROGRAM UTOFURUN: with the check mode a process's own STADD is invalid in a peer, in
# each of several jobs. (Without the mode it is often valid.)
set -u
program=$1 utofurun=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset "${!UTOFU_@}"
failures=0
for _ in 1 2 3 4; do
    for how in own:3 peers:0; do
        UTOFU_CHECK=1 timeout -k 5 60 "$utofurun" -n 3 "$program" "${how%:*}" >"$folder/out" 2>&1
        status=$?
        [ "$status" = "${how#*:}" ] && continue
        echo "FAIL ${how%:*}: status $status"
        cat "$folder/out"
        failures=$((failures + 1))
    done
done
[ "$failures" = 0 ]
