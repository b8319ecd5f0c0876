#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs/porting.md speaks of every variable.
#
# usage: check_porting.sh PORTING.md ENV-TABLE
set -u
failed=0
for variable in $(sed -n 's/^X([A-Z_]*, "\([A-Z_]*\)".*/\1/p' "$2"); do
    if ! grep -q "\`$variable\`" "$1"; then
        echo "FAIL: $1 does not speak of $variable"
        failed=1
    fi
done
[ $failed -eq 0 ] && echo ok
exit $failed
