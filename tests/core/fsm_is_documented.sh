#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fsm_is_documented.sh PRINT_FSM CONNECTIONS.MD: the table of the connection state machine in the page
# equals the table of the library, and a table without one of the rows differs.
set -eu
printed=$("$1")
documented=$(sed -n '/^<!-- fsm -->$/,/^$/p' "$2" | sed 1d | sed '/^$/d')
if [ "$printed" != "$documented" ]; then
    echo "FAILED: the table behind <!-- fsm --> in $2 is not what the library does, which is"
    echo "$printed"
    exit 1
fi
if [ "$(echo "$printed" | sed 5d)" = "$documented" ]; then
    echo "FAILED: a table with a row left out is good, too"
    exit 1
fi
