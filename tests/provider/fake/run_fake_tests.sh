#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The provider that two processes choose where both libraries have the fake provider (those in the
# folder THREE), and where one of them has it. A library has the provider ofi if it was built where
# libfabric's headers are. UTOFURUN names utofurun, PROGRAM an example that puts between two ranks.

: "${THREE:?names the folder of the library with three providers}"
: "${UTOFURUN:?names utofurun}" "${PROGRAM:?names a program}"
folder=$(mktemp -d)
failures=0
trap 'rm -rf "$folder"' EXIT
unset "${!UTOFU_@}" LD_LIBRARY_PATH
three=LD_LIBRARY_PATH=$THREE
export PROGRAM

# job NAME STATUS PATTERN COUNT RANK0 RANK1: with these settings of the two ranks the job of puts
# ends with STATUS (0 or not), and COUNT of its lines match PATTERN
job() {
    local name=$1 status=$2 pattern=$3 count=$4 found got
    # shellcheck disable=SC2016 # each rank expands it
    timeout 120 "$UTOFURUN" -n 2 sh -c '
        [ "$UTOFU_RANK" = 0 ] && mine=$0 || mine=$1
        exec env UTOFU_STATS=1 $mine "$PROGRAM"' "$5" "$6" \
        >"$folder/out" 2>&1 </dev/null
    got=$?
    [ $got = 0 ] || got=1
    found=$(grep -c -E -- "$pattern" "$folder/out")
    [ $got = "$status" ] && [ "$found" -ge "$count" ] && echo "ok   $name" && return
    failures=$((failures + 1))
    echo "FAIL $name: status $got, $found lines match '$pattern'"
    sed 's/^/    /' "$folder/out" | cut -c1-300
}

# nothing_in_common NAME RANK0 RANK1: the job is ended after its message
nothing_in_common() {
    local said='is on this host, but uses no provider that this process uses' job
    # shellcheck disable=SC2016 # each rank expands it
    "$UTOFURUN" -n 2 sh -c '
        [ "$UTOFU_RANK" = 0 ] && mine=$0 || mine=$1
        exec env $mine "$PROGRAM"' "$2" "$3" >"$folder/out" 2>&1 </dev/null &
    job=$!
    for ((i = 0; i < 600; i++)); do
        grep -q "$said" "$folder/out" && break
        sleep 0.1
    done
    kill "$job"
    wait "$job"
    grep -q "$said" "$folder/out" && echo "ok   $1" && return
    failures=$((failures + 1))
    echo "FAIL $1: no line says '$said'"
    sed 's/^/    /' "$folder/out" | cut -c1-300
}

job first_of_the_registry_is_preferred 0 ' provider=shm ' 2 "$three" "$three"
job all_by_the_third 0 ' provider=fake ' 2 "$three UTOFU_PROVIDER=fake" "$three UTOFU_PROVIDER=fake"
job the_one_in_common_is_chosen 0 ' provider=fake ' 2 "$three" "$three UTOFU_PROVIDER=fake"
job unknown_provider_of_a_peer_is_passed_by 0 ' provider=shm ' 2 "$three" X=
nothing_in_common all_three_here "$three UTOFU_PROVIDER=shm" "$three UTOFU_PROVIDER=fake"
nothing_in_common two_and_the_third X= "$three UTOFU_PROVIDER=fake"
job names_come_from_the_registry 1 'one of auto\|shm\|verbs(\|ofi)?\|fake' 1 \
    "$three UTOFU_PROVIDER=tcp" "$three UTOFU_PROVIDER=tcp"
job a_library_without_it_does_not_take_its_name 1 'one of auto\|shm\|verbs(\|ofi)?$' 1 \
    UTOFU_PROVIDER=fake UTOFU_PROVIDER=fake
[ $failures = 0 ]
