# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Shared by the shell tests of programs: sourced after `folder`, `checks` and `failures` are set.
# shellcheck disable=SC2154 # folder is the test's

fail() {
    failures=$((failures + 1))
    printf 'FAIL %s\n' "$*"
    sed 's/^/    /' "$folder/out" | cut -c1-400
}

# check NAME STATUS PATTERN COUNT command...: checks the status, and the number of lines that match
# the pattern
check() {
    local name=$1 want=$2 pattern=$3 count=$4 scale=${UT_TEST_TIMEOUT_SCALE:-1} got lines
    shift 4
    checks=$((checks + 1))
    timeout "$((120 * ${scale%.*}))" "$@" >"$folder/out" 2>&1 </dev/null
    got=$?
    lines=$(grep -c -E -- "$pattern" "$folder/out")
    [ "$got" = "$want" ] || fail "$name: status $got, not $want"
    case $count in
    *+) [ "$lines" -ge "${count%+}" ] ;; # the launcher may end the others before they print it
    *) [ "$lines" = "$count" ] ;;
    esac || fail "$name: $lines lines match '$pattern', not $count"
}

# Runs one group of checks, a function group_NAME, and prints the result.
run_group() {
    if ! declare -F "group_$1" >/dev/null; then
        echo "usage: $0 $(declare -F | sed -n 's/.*group_//p' | tr '\n' '|')"
        exit 2
    fi
    "group_$1"
    printf '%s: %d checks, %d failures\n' "$1" "$checks" "$failures"
    [ "$failures" = 0 ]
}
