#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# links_test.sh: the tools and the library never write through a symbolic link of another user. INFO
# and TRACE name the programs, UTOFURUN the launcher.

: "${INFO:?names utofu-info}" "${UTOFURUN:?names utofurun}" "${TRACE:?names utofu-trace}"
folder=$(mktemp -d)
failures=0
checks=0
trap 'rm -rf "$folder"' EXIT
unset "${!UTOFU_@}" # an outer job's variables must not count
export UTOFU_PROVIDER=shm

# shellcheck source=tests/harness/checks.sh
. "$(dirname "$0")/../harness/checks.sh"

if [ "$(id -u)" != 0 ]; then
    echo "skipped: only root can make a link of another user"
    exit 77
fi
cd "$folder" || exit 1
victim=$folder/victim
echo '[]' >empty.json

# Makes a link of another user with this name, to a file of ours.
lay_link() {
    echo precious >"$victim"
    ln -sf "$victim" "$1"
    chown -h 65534 "$1"
}

untouched() {
    checks=$((checks + 1))
    [ "$(cat "$victim")" = precious ] || fail "$1: wrote where the link leads"
}

# the name of the unfinished report is predictable: its process has the number of this shell
lay_report_link() { lay_link "r.txt.$BASHPID"; exec "$INFO" --report=r.txt; }
export -f lay_report_link lay_link
export victim INFO
check report_in_part 1 '^utofu-info: r.txt: File exists' 1 bash -c lay_report_link
untouched report_in_part
lay_link r.txt
check report 0 '^utofu-info: wrote r.txt' 1 "$INFO" --report=r.txt
untouched report
lay_link stats
check stats 0 'file=.* of UTOFU_STATS: a symbolic link of another user; the summary follows here' 1 \
    "$UTOFURUN" -n 1 env UTOFU_STATS=job,file="$folder/stats" "$INFO"
untouched stats
lay_link trace.json
check trace 1 'cannot write trace.json: a symbolic link of another user' 1 \
    "$TRACE" -o trace.json empty.json
untouched trace
rm -f stats
ln -s own stats
check own_link 0 'a symbolic link' 0 "$UTOFURUN" -n 1 env UTOFU_STATS=job,file="$folder/stats" "$INFO" --check
[ -s own ] || fail "own_link: is not followed"
echo "links: $checks checks, $failures failures"
exit $((failures > 0))
