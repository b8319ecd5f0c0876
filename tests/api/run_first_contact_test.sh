#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run_first_contact_test.sh SCALE PROCESSES NEIGHBOURS: in a job of PROCESSES that each put to
# NEIGHBOURS, a process only looks up the addresses of the processes that it puts to.
set -u
scale=$1 processes=$2 neighbours=$3
unset UTOFU_SHOW
said=$(mktemp)
trap 'rm -f "$said"' EXIT
UTOFU_STATS=1 UTOFU_PROVIDER=shm "$scale" "$processes" "$neighbours" >"$said" 2>&1 || {
    cat "$said"
    exit 1
}
most=$(sed -n 's/^utofu: stats: .* job .* looked_up=\([0-9]*\) .*/\1/p' "$said" | sort -n | tail -n 1)
lines=$(grep -c ' looked_up=' "$said")
echo "$lines of $processes processes reported; the most look-ups of one: ${most:-none}, where each puts to $neighbours"
[ "$lines" = "$processes" ] && [ "$most" -ge 1 ] && [ "$most" -le $((2 * neighbours)) ]
