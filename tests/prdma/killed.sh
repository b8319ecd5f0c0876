#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# killed.sh MPI LAUNCHER LIBRARY ROUNDS METHOD: one process of three after the other is killed. Both others, which are
# its neighbours, get an error of MPI and end.
set -u
mpi=$1 launcher=$2 library=$3 rounds=$4 method=$5
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# hydra ends the survivors too when a process was killed or has ended; a shell that does not end
# prevents that. Open MPI has an option for it.
case $mpi in
mpich) goes_on=() ;;
*) goes_on=(--enable-recovery) ;;
esac
for victim in 0 1 2; do
    survivors=("$folder/$victim-"{0..2})
    unset "survivors[$victim]"
    # shellcheck disable=SC2016
    PRDMA_METHOD=$method timeout $((60 * ${UT_TEST_TIMEOUT_SCALE:-1})) "$launcher" "${goes_on[@]}" -n 3 env LD_PRELOAD="$library${LD_PRELOAD:+:$LD_PRELOAD}" bash -c '
        survivors=$1; shift
        "$@"
        for i in {1..600}; do cat $survivors >/dev/null 2>&1 && break; sleep .5; done' shell "${survivors[*]}" \
        "$rounds" 1000 $victim "$folder/$victim-" >"$folder/said" 2>&1
    status=$?
    [ $status != 124 ] || echo "rank $victim killed: the job hangs"
    for file in "${survivors[@]}"; do
        [ $status != 124 ] && grep -q other "$file" && continue
        echo "rank $victim killed: rank ${file##*-} gets no error"
        sed 's/^/    /' "$folder/said"
        failed=1
    done
done
exit $failed
