#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: as-user.sh PROGRAM ARGUMENT...: runs it as an ordinary user, who has none of root's
# capabilities. 77 (skipped) where that is impossible.
[ "$(id -u)" != 0 ] && exec "$@"
user() {
    setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}
program=$(realpath "$1")
shift
set -- "$program" "$@"
user test -r "$1" -a -x "$1" 2>/dev/null || { echo "skipped: no other user can run $1 here"; exit 77; }
cd / && user "$@"
