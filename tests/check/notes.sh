#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Each note of the check mode is printed for a program that exceeds a limit of the real machine, or
# does something that differs there, and not for its twin. NOTES is the program notes.c, UTOFURUN
# the launcher. usage: notes.sh [NAME]

: "${NOTES:?names the program}" "${UTOFURUN:?names utofurun}"
folder=$(mktemp -d)
failures=0 all=0
trap 'rm -rf "$folder"' EXIT
unset "${!UTOFU_@}" # an outer job must not be taken for ours
export UTOFU_NUM_MRQ_ENTRIES=2048 UTOFU_NUM_MRQ_ENTRIES_SESSION=2048 UTOFU_CHECK=1

fail() {
    echo "FAIL: $1"
    sed 's/^/    /' "$folder/err"
    failures=$((failures + 1))
}

# try NAME VERSION PROCESSES NOTES TEXT
try() {
    timeout 60 "$UTOFURUN" -n "$3" "$NOTES" "$1" "$2" >"$folder/out" 2>"$folder/err" </dev/null ||
        fail "$1 $2: status $?"
    local notes
    notes=$(grep -c '^utofu: check: note: ' "$folder/err")
    [ "$notes" = "$4" ] || fail "$1 $2: $notes notes, not $4"
    ! grep -q '^utofu: check: \[rank' "$folder/err" || fail "$1 $2: a finding"
    if [ "$2" = beyond ]; then
        grep -qF "utofu: check: note: $5" "$folder/err" || fail "$1 beyond: no such note: $5"
    else
        ! grep -qF "utofu: check: note: ${5%%,*}" "$folder/err" || fail "$1 within: the note"
    fi
}

while read -r name few many silent told text; do
    [ -z "${1-}" ] || [ "$1" = "$name" ] || continue
    all=$((all + 1))
    try "$name" within "$few" "$silent" "$text"
    try "$name" beyond "$many" "$told" "$text"
done < <("$NOTES" list)
[ -n "${1-}" ] || [ $all -ge 25 ] || fail "$all notes"

[ $failures -eq 0 ] && echo "ok: $all notes"
exit $((failures > 0))
