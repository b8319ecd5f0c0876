#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the check mode writes. WRONG is the program wrong.c, RACE race.c, UTOFURUN the launcher.

: "${WRONG:?names the program}" "${RACE:?names race}" "${UTOFURUN:?names utofurun}"
folder=$(mktemp -d)
failures=0
trap 'rm -rf "$folder"' EXIT
unset "${!UTOFU_@}" # an outer job must not be taken for ours
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1

fail() {
    echo "FAIL: $1"
    sed 's/^/    /' "$folder/err"
    failures=$((failures + 1))
}

# run STATUS COMMAND...
run() {
    local want=$1
    shift
    timeout 120 "$@" >"$folder/out" 2>"$folder/err" </dev/null
    local got=$?
    [ "$got" = "$want" ] || fail "$*: status $got, not $want"
}

# lines PATTERN NUMBER NAME
lines() {
    local got
    got=$(grep -cE "$1" "$folder/err")
    [ "$got" = "$2" ] || fail "$3: $got lines, not $2, are $1"
}

place() {
    sed -n 's/^.*line //p' "$folder/out" | head -n 1
}

run 0 "$WRONG"
lines 'utofu: check' 0 off
UTOFU_CHECK=0 run 0 "$WRONG"
lines 'utofu: check' 0 0
UTOFU_CHECK=1 run 0 "$WRONG" right
lines 'utofu: check: \[rank' 0 right
lines '^utofu: check: note: 3 puts and gets had a gap' 1 'right, gap'
lines '^utofu: check: note: 1 MRQ notice came' 1 'right, notices'

# an MRQ that was more than half full; gates of three processes on a node
export UTOFU_NUM_MRQ_ENTRIES=2048
UTOFU_CHECK=1 run 0 "$WRONG" right 1000
lines '^utofu: check: note: [0-9]+ VCQs? had an MRQ' 0 'less than half full'
lines '^utofu: check: note: [0-9]+ (start/end|relay) gates' 0 '20 gates'
UTOFU_CHECK=1 run 0 "$UTOFURUN" -n 3 "$WRONG" right 1030
lines '^utofu: check: note: 1 VCQ had an MRQ' 1 'more than half full'
lines '^utofu: check: note: 57 relay gates' 1 '60 gates'
unset UTOFU_NUM_MRQ_ENTRIES

# once for each place, in at most four lines, with the line number of the call, and the sums
UTOFU_CHECK=1 run 0 "$WRONG"
lines '^utofu: check: \[rank 0\] source-written: ' 1 once
lines '^utofu: check: \[rank 0\] [0-9]+ findings? at 1 place: source-written [0-9]+$' 1 sums
lines "^    put of 8 bytes, number [0-9]+ of VCQ [0-9a-f]{16}, to VCQ [0-9a-f]{16} \(rank 0\), [0-9.]+ ms ago in " 1 who
lines '^    instead: .*\(manual 2.2.3, 2.2.10\)$' 1 instead
[ "$(grep -vc note "$folder/err")" -le 5 ] || fail 'more than four lines and the sums'
if [ -e "${LIBDW:-}" ]; then
    lines "in main\(\) at wrong\.c:$(place)\$" 1 'file and line'
fi

# without libdw: module and offset
: >"$folder/libdw.so.1"
UTOFU_CHECK=1 LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} run 0 "$WRONG"
lines 'ago in wrong\+0x[0-9a-f]+$' 1 'module and offset'

# abort ends it, for a debugger; in a shell of its own, which prints that
ulimit -c 0
UTOFU_CHECK=abort run 134 bash -c '"$0"; exit $?' "$WRONG"
lines '^utofu: check: \[rank 0\] source-written: ' 1 abort
UTOFU_CHECK=abort run 0 "$WRONG" right

UTOFU_CHECK=perhaps run 1 "$WRONG"
lines "UTOFU_CHECK.*0\|1\|abort" 1 'a bad value'

# every installed launcher; each process reports
UTOFU_CHECK=1 run 0 "$UTOFURUN" -n 3 "$WRONG"
lines '^utofu: check: \[rank [012]\] source-written: ' 3 utofurun
lines '^utofu: check: note: ' 2 'notes of rank 0'
for launcher in mpirun.openmpi mpiexec.hydra; do
    command -v $launcher >/dev/null || continue
    UTOFU_CHECK=1 run 0 $launcher -n 2 "$WRONG"
    lines 'utofu: check: \[rank [01]\] source-written: ' 2 $launcher
done

# two processes, under any launcher; on busy CPUs it may take some runs until two puts are held at the same time
for launcher in "$UTOFURUN" mpirun.openmpi mpiexec.hydra; do
    command -v "$launcher" >/dev/null || continue
    for ((tries = 1; tries <= 20; tries++)); do
        UTOFU_CHECK=1 run 0 "$launcher" -n 2 "$RACE"
        grep -qE '^utofu: check: \[rank [01]\] origins: ' "$folder/err" && break
    done
    [ $tries -le 20 ] || fail "$launcher: nothing is found in 20 runs"
    grep -qE '^    beside put of 8 bytes, number [0-9]+ of VCQ [0-9a-f]{16} of rank [01], to VCQ [0-9a-f]{16}, [0-9.]+ ms ago in ' \
        "$folder/err" || fail "$launcher: the other one is not told"
    [ ! -e "${LIBDW:-}" ] || grep -qE "^    beside .* in main\(\) at race\.c:$(place)\$" "$folder/err" ||
        fail "$launcher: file and line of the other one"
    UTOFU_CHECK=1 run 0 "$launcher" -n 2 "$RACE" right
    lines 'utofu: check: \[rank' 0 "$launcher: right"
done

[ $failures -eq 0 ] && echo ok
exit $((failures > 0))
