#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 life_is_documented.sh PRINT_LIFE ARCHITECTURE.MD: the table of
# the life of a connection in the page equals the library's; and a table without one of the rows
# does not.
set -eu
printed=$("$1")
documented=$(sed -n '/^<!-- life -->$/,/^$/p' "$2" | sed 1d | sed '/^$/d')
if [ "$printed" != "$documented" ]; then
    echo "FAILED: the table behind <!-- life --> in $2 is not what the library does, which is"
    echo "$printed"
    exit 1
fi
if [ "$(echo "$printed" | sed 5d)" = "$documented" ]; then
    echo "FAILED: a table with a row left out is good, too"
    exit 1
fi
