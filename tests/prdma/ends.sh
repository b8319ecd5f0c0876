#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ends.sh MPI LAUNCHER LIBRARY ROUNDS HALO PRDMA_RUN LATE PLUGIN: faulty jobs, and their messages.
set -u
mpi=$1 launcher=$2 library=$3 rounds=$4 forms=$5 run=$6 late=$7 plugin=$(readlink -f "$8")
behind=${LD_PRELOAD:+:$LD_PRELOAD} # the library of the software adapter
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# start NAME OPTION... : runs the job with a time limit, its output in a file NAME
start() {
    local name=$1
    shift
    timeout $((60 * ${UT_TEST_TIMEOUT_SCALE:-1})) "$launcher" "$@" >"$folder/$name" 2>&1
}

fail() {
    echo "not so: $1"
    sed 's/^/    /' "$folder/$2"
    failed=1
}

# how_many WORDS NAME
how_many() {
    grep -c -- "$1" "$folder/$2"
}

# One rank without the library, in each place: one line, and MPI's own requests in all ranks. A shell sets LD_PRELOAD,
# as mpirun of Open MPI 5.0.7 (Debian 13) ends with SIGSEGV where ":" separates programs (open-mpi/ompi, issue 13303).
# shellcheck disable=SC2016 # for the shells that are started
for place in 0 2; do
    start missing -n 3 sh -c '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = "$0" ] || export LD_PRELOAD="$1"; shift; exec "$@"' \
        $place "$library$behind" "$rounds" 100 || fail "a job without the library on rank $place works" missing
    [ "$(how_many "rank $place has no libprdma" missing)" = 1 ] || fail 'one line says so' missing
done

# The statistics of each method; off, and a process without VCQs, use MPI's own requests.
export PRDMA_STATS=1
for method in auto eager fast mid mrc off; do
    PRDMA_METHOD=$method start "$method" -n 3 env LD_PRELOAD="$library$behind" "$rounds" 10 ||
        fail "method $method works" "$method"
    expected=$method
    why='0 times'
    case $method in
    auto) expected=eager ;;
    off) expected=mpi why='1 time (method off)' ;;
    esac
    [ "$(how_many "stats: request.*method $expected,.*2 in, 2 out, 10 rounds.*fell back $why" \
        "$method")" = 6 ] || fail "a line for each request: $expected" "$method"
done
PRDMA_EAGER=7 start long -n 3 env LD_PRELOAD="$library$behind" "$rounds" 10 || fail 'too long for eager' long
[ "$(how_many 'method fast' long)" = 6 ] || fail 'auto is fast where blocks are too long' long
PRDMA_SESSION_VCQS=3 start some -n 3 env LD_PRELOAD="$library$behind" PRDMA_METHOD=fast "$rounds" 10 ||
    fail 'too few VCQs for fast' some
[ "$(how_many 'method fast' some)" = 3 ] || fail 'the first request is fast' some
[ "$(how_many 'method mrc.*fell back 1 time (session-mode VCQs ran out)' some)" = 3 ] ||
    fail 'the second one falls back to mrc, and says why' some
UTOFU_LOG_LEVEL=info,category=api start none -n 3 env LD_PRELOAD="$library$behind" PRDMA_METHOD=fast \
    PRDMA_SESSION_VCQS=0 "$rounds" 10 || fail 'no VCQs' none
[ "$(how_many "MPI's own is used: no session-mode VCQ is left" none)" = 6 ] ||
    fail 'a line of level info says why' none
[ "$(how_many 'method mpi,.*fell back 1 time (no session-mode VCQ is left)' none)" = 6 ] ||
    fail 'statistics say why' none

# With the library for the other MPI there is one line, and the program runs without the layer.
case $mpi in
openmpi) other=mpich ;;
*) other=openmpi ;;
esac
if [ -e "${library%/*}/libprdma-$other.so" ]; then
    start other -n 2 env LD_PRELOAD="${library%/*}/libprdma-$other.so$behind" "$rounds" 10 ||
        fail 'the library for the other MPI leaves it alone' other
    [ "$(how_many "libprdma-$other.so is in front of a program of another MPI" other)" = 1 ] ||
        fail 'it says so' other
    [ "$(how_many 'stats:' other)" = 0 ] || fail 'it takes nothing over' other
fi
# A program that loads MPI at run time runs without the layer, or with it if MPI was loaded before.
start late -n 2 env LD_PRELOAD="$library$behind" "$late" "$plugin" 10 || fail 'MPI may come late' late
[ "$(how_many 'the program loads MPI when it runs' late)" = 1 ] || fail 'it says so' late
[ "$(how_many 'stats:' late)" = 0 ] || fail 'it takes nothing over' late
first=$(ldd "$plugin" | sed -n 's/.*=> \(.*libmpi[ch]*[.]so[^ ]*\) .*/\1/p' | head -1)
start early -n 2 env LD_PRELOAD="$library:$first$behind" "$late" "$plugin" 10 || fail 'or be preloaded' early
[ "$(how_many 'stats:' early)" = 4 ] || fail 'then it takes requests over' early
LD_PRELOAD=$library$behind true || fail 'it is in front of what uses no MPI' other

# prdma-run detects the MPI library.
PRDMA_LIBDIR=${library%/*} start run -n 2 "$run" "$forms" 40 || fail 'prdma-run works' run
[ "$(how_many 'method [ef]a' run)" -ge 10 ] || fail 'prdma-run puts the library in front' run
"$run" true || fail 'prdma-run starts what uses no MPI' run
"$run" --mpi lam true 2>"$folder/run"
[ $? = 2 ] || fail 'prdma-run refuses a wrong option' run
PRDMA_LIBDIR=/nowhere "$run" --mpi mpich true 2>"$folder/run"
[ $? = 2 ] || fail 'prdma-run does not go on without the library' run
[ "$(how_many '^prdma-run: /nowhere/libprdma-mpich.so cannot be loaded: PRDMA_LIBDIR' run)" = 1 ] ||
    fail 'and says so' run
if [ -e /dev/full ]; then
    "$run" --help >/dev/full 2>"$folder/run" && fail 'prdma-run --help on a full disk' run
fi
exit $failed
