#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 tests/harness/openmpi starts a job again only if the PMIx
# server fell silent, and twice at most.
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

# stand_in SILENT STATUS: an mpirun whose first SILENT starts fall silent; the next one ends with STATUS
stand_in() {
    : >"$folder/starts"
    cat >"$folder/mpirun" <<END
#!/bin/bash
echo >>"$folder/starts"
if [ \$(wc -l <"$folder/starts") -le $1 ]; then
    echo 'the PMIx server of this node has not answered in time' >&2
    exit 1
fi
echo "arguments: \$*"
exit $2
END
    chmod +x "$folder/mpirun"
}

# expect NAME SILENT STATUS WANTED-STATUS WANTED-STARTS
expect() {
    local got starts
    stand_in "$2" "$3"
    MPIRUN_OPENMPI=$folder/mpirun "$here/openmpi" -n 2 'a program' >"$folder/out" 2>"$folder/err"
    got=$?
    starts=$(wc -l <"$folder/starts")
    [ "$got" = "$4" ] && [ "$starts" = "$5" ] && return
    echo "FAIL $1: status $got after $starts starts, not $4 after $5"
    failures=1
}

expect works 0 0 0 1
grep -q '^arguments: .*-n 2 a program$' "$folder/out" || { echo 'FAIL: the arguments'; failures=1; }
expect fails 0 3 3 1
expect silent_once 1 0 0 2
[ ! -s "$folder/err" ] || { echo 'FAIL: what the silent job said is printed'; failures=1; }
expect silent_then_fails 1 3 3 2
expect silent_always 9 0 1 3
grep -q 'has not answered' "$folder/err" || { echo 'FAIL: the last one is silent'; failures=1; }
exit "$failures"
