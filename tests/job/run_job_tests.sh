#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run_job_tests.sh GROUP: starts jobs in every way there is, and in some that must fail.
# UTOFURUN, PROBE, PROBE_OPENMPI, PROBE_MPICH name the programs; exit 77 when one is not there.
# MPIRUN_OPENMPI and MPIEXEC_MPICH name the launchers.

: "${UTOFURUN:?names utofurun}" "${PROBE:?names job_probe}"
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
failures=0
checks=0
trap 'rm -rf "$folder"' EXIT
# MPI libraries lose memory at exit, which is not ours
export ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
export UTOFU_LOG_LEVEL=warning
# an outer job must not be taken for ours
unset UTOFU_RANK UTOFU_SIZE UTOFU_ROOT UTOFU_NODE UTOFU_LOCAL_RANK UTOFU_LOCAL_SIZE

fail() {
    failures=$((failures + 1))
    printf 'FAIL %s\n' "$*"
    sed 's/^/    /' "$folder/out"
}

# check NAME STATUS PATTERN COUNT command...: the status, and how many lines match the pattern
check() {
    local name=$1 want=$2 pattern=$3 count=$4 got lines
    shift 4
    checks=$((checks + 1))
    timeout 60 "$@" >"$folder/out" 2>&1 </dev/null
    got=$?
    lines=$(grep -c -E -- "$pattern" "$folder/out")
    [ "$got" = "$want" ] || fail "$name: status $got, not $want"
    case $count in
    *+) [ "$lines" -ge "${count%+}" ] ;; # the launcher may end the others before they say it
    *) [ "$lines" = "$count" ] ;;
    esac || fail "$name: $lines lines match '$pattern', not $count"
}

skip() {
    printf 'skipped: %s\n' "$1"
    exit 77
}

free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo "$port"
}

# by_hand SIZE ROOT [probe args]: starts one process per rank, status of the worst
by_hand() {
    local size=$1 root=$2 rank pids=() worst=0 rc
    shift 2
    for ((rank = 0; rank < size; rank++)); do
        UTOFU_RANK=$rank UTOFU_SIZE=$size UTOFU_ROOT=$root "$PROBE" "$@" &
        pids+=($!)
    done
    for rank in "${pids[@]}"; do
        wait "$rank"
        rc=$?
        [ $rc -gt $worst ] && worst=$rc
    done
    return $worst
}

as_rank() { # RANK SIZE ROOT command...
    UTOFU_RANK=$1 UTOFU_SIZE=$2 UTOFU_ROOT=$3 "${@:4}"
}
ranked=(bash -c 'as_rank "$@"' as_rank) # the same for check

is_gone() { # PID, waited for a little
    local i
    for i in {1..50}; do
        kill -0 "$1" 2>/dev/null || return 0
        sleep 0.05
    done
    return 1
}

export -f by_hand as_rank free_port
export PROBE UTOFURUN

group_utofurun() {
    check one 0 ': ok$' 1 "$UTOFURUN" -n 1 "$PROBE" --layout
    check two 0 ': ok$' 2 "$UTOFURUN" -n 2 "$PROBE" --layout
    check eight 0 ': ok$' 8 "$UTOFURUN" --np 8 "$PROBE" --layout
    check two_nodes 0 'node [01]/2 local [0-2]/[23] .*: ok$' 5 \
        "$UTOFURUN" -n 5 --nodes 2 "$PROBE" --layout
    check node_per_process 0 'node ([0-3])/4 local 0/1 .*: ok$' 4 \
        "$UTOFURUN" -n 4 --nodes 4 "$PROBE" --layout
    check other_node 0 'node 7/0 local [01]/2 .*: ok$' 2 \
        "$UTOFURUN" -n 2 sh -c 'UTOFU_NODE=7 exec "$PROBE" --layout'
    check threads 0 ': ok$' 4 "$UTOFURUN" -n 4 "$PROBE" --layout --threads 8
    check silent 0 '' 0 "$UTOFURUN" -n 3 true
    check tagged 0 '^\[[0-2]\] (first|second)$' 6 \
        "$UTOFURUN" -n 3 --tag-output sh -c 'echo first; printf second >&2'
    check options_of_the_program 0 '^-n --nodes$' 1 "$UTOFURUN" -n 1 printf '%s %s\n' -n --nodes
    check one_after_another 0 ': ok$' 4 \
        "$UTOFURUN" -n 2 sh -c '"$PROBE" --stay 400 && sleep 1 && "$PROBE" --stay 400'
    check inside_another 0 ': ok$' 2 "$UTOFURUN" -n 1 "$UTOFURUN" -n 2 "$PROBE" --layout
    check help 0 '^Usage: utofurun' 1 "$UTOFURUN" --help
    check version 0 '^utofurun .*[0-9]' 1 "$UTOFURUN" --version
    echo input >"$folder/in"
    "$UTOFURUN" -n 3 --tag-output cat <"$folder/in" >"$folder/out" 2>&1
    [ "$(cat "$folder/out")" = '[0] input' ] || fail 'standard input goes to rank 0 alone'
}

group_utofurun_bad() {
    check no_processes 2 'takes a number from 1' 1 "$UTOFURUN" -n 0 true
    check not_a_number 2 'takes a number from 1' 1 "$UTOFURUN" -n 2x true
    check n_missing 2 'is missing' 1 "$UTOFURUN" true
    check n_without_value 2 'needs a value' 1 "$UTOFURUN" -n
    check program_missing 2 'program is missing' 1 "$UTOFURUN" -n 2
    check unknown_option 2 'unknown option --frobnicate' 1 "$UTOFURUN" --frobnicate -n 2 true
    check unknown_letter 2 'unknown option -x' 1 "$UTOFURUN" -x
    check too_many_nodes 2 'more than the 2 processes' 1 "$UTOFURUN" -n 2 --nodes 3 true
    check no_program 127 "cannot run '/no/such/program': No such file" 1 \
        "$UTOFURUN" -n 3 /no/such/program
    check status 7 'rank 1 \(pid [0-9]+\) exited with status 7' 1 \
        "$UTOFURUN" -n 3 sh -c '[ $UTOFU_RANK = 1 ] && exit 7; sleep 30'
    check signal 139 'rank 2 .* was killed by signal 11 \(Segmentation fault\)' 1 \
        "$UTOFURUN" -n 3 sh -c 'ulimit -c 0; [ $UTOFU_RANK = 2 ] && kill -SEGV $$; sleep 30'
    check stubborn 9 'rank 0 .* exited with status 9' 1 "$UTOFURUN" -n 2 \
        sh -c 'trap "" TERM; [ $UTOFU_RANK = 0 ] && sleep 0.5 && exit 9; while :; do sleep 0.1; done'
    check time_limit 124 'has not ended within 1 seconds' 1 "$UTOFURUN" -n 2 --timeout 1 sleep 30
    check nobody_reads 141 '' 0 bash -c '"$UTOFURUN" -n 2 --tag-output yes | head -1 >/dev/null
        exit ${PIPESTATUS[0]}'
}

# start_job command...: in the background, and waits until all its processes are there
start_job() {
    rm -f "$folder"/pid.*
    "$UTOFURUN" -n 2 bash -c "$1; echo \$\$ >'$folder'/pid.\$UTOFU_RANK; $2" >"$folder/out" 2>&1 &
    job=$!
    while ! [ -s "$folder/pid.0" ] || ! [ -s "$folder/pid.1" ]; do sleep 0.02; done
}

# A signal that was ignored when this shell began (nohup): no shell below it can trap it.
is_ignored() { # NAME
    local mask
    mask=$(awk '/^SigIgn/ { print $2 }' "/proc/$$/status")
    ((16#$mask >> ($(kill -l "$1") - 1) & 1))
}

group_signals() {
    local sig pid passed
    for sig in HUP INT TERM QUIT USR1 USR2; do
        checks=$((checks + 1))
        start_job "trap 'echo got $sig; exit 0' $sig" 'while :; do sleep 0.05; done'
        # a background job of a shell has SIGINT and SIGQUIT ignored from the start, too
        case $sig in INT | QUIT) passed=TERM ;; *) passed=$sig ;; esac
        is_ignored "$sig" && passed=TERM
        kill -"$passed" $job
        wait $job
        [ "$passed" != "$sig" ] || [ "$(grep -c "got $sig" "$folder/out")" = 2 ] ||
            fail "SIG$sig is passed on"
    done
    checks=$((checks + 1))
    start_job : 'exec sleep 30'
    kill -TERM $job
    wait $job
    [ $? = 143 ] || fail 'status of a job that was ended'
    [ -s "$folder/out" ] && fail 'a job that was ended prints nothing'

    checks=$((checks + 1))
    start_job : 'exec sleep 30'
    kill -KILL $job
    wait $job 2>/dev/null
    for pid in $(cat "$folder"/pid.*); do
        is_gone "$pid" || fail 'kill -9 of utofurun ends its processes'
    done
}

group_hand() {
    check folder 0 ': ok$' 4 bash -c 'by_hand 4 "$0" --stay 700' "$folder"
    [ -z "$(ls "$folder" | grep utofu)" ] || fail 'files of the folder are removed at exit'
    check threads 0 ': ok$' 3 bash -c 'by_hand 3 "$0" --stay 700 --threads 8' "$folder"
    check tcp 0 'node 0/1 .*: ok$' 4 bash -c 'by_hand 4 127.0.0.1:$(free_port) --layout'
    check tcp_by_name 0 ': ok$' 2 bash -c 'by_hand 2 localhost:$(free_port)'
    check unix 0 ': ok$' 3 bash -c 'by_hand 3 unix:@utofu.test.$$ --layout'
    check unix_nodes 0 'node [01]/2 .*: ok$' 3 bash -c 'by_hand 3 unix:@utofu.test.$$,nodes=2 --layout'
    check rank_0_comes_late 0 ': ok$' 2 bash -c 'root=127.0.0.1:$(free_port)
        as_rank 1 2 $root "$PROBE" & sleep 1.5; as_rank 0 2 $root "$PROBE"; wait $!'
    check rank_1_comes_late 0 ': ok$' 2 bash -c 'root=127.0.0.1:$(free_port)
        as_rank 0 2 $root "$PROBE" & sleep 1.5; as_rank 1 2 $root "$PROBE"; wait $!'
    check folder_rank_0_comes_late 0 ': ok$' 2 bash -c 'as_rank 1 2 "$0" "$PROBE" --stay 700 &
        sleep 1.5; as_rank 0 2 "$0" "$PROBE" --stay 700; wait $!' "$folder"
    check folder_with_left_overs 0 ': ok$' 2 bash -c '
        UTOFU_RANK=1 UTOFU_SIZE=2 UTOFU_ROOT=$0 "$PROBE" & sleep 1; kill -9 $!; wait $! 2>/dev/null; [ -e "$0/utofu.1" ] || exit 1
        by_hand 2 "$0" --stay 700' "$folder"
    check folder_without_waiting 0 ': ok$' 4 bash -c 'by_hand 4 "$0"' "$folder"
    check folder_rank_1_ended 0 ': ok$' 2 bash -c 'as_rank 0 2 "$0" "$PROBE" --pause 2500 &
        sleep 1; as_rank 1 2 "$0" "$PROBE"; wait $!' "$folder"
    check folder_rank_1_killed 0 ': ok$' 1 bash -c 'as_rank 0 2 "$0" "$PROBE" --pause 2500 & zero=$!
        sleep 1; UTOFU_RANK=1 UTOFU_SIZE=2 UTOFU_ROOT=$0 "$PROBE" --delay 0 --pause 9000 & one=$!
        sleep 1; kill -9 $one; wait $one 2>/dev/null; wait $zero' "$folder"
    [ -z "$(ls "$folder" | grep utofu)" ] || fail 'files of killed processes are removed at exit'
    check alone 0 '^solo rank 0/1 node 0/1 local 0/1 .*: ok$' 1 "$PROBE" --layout
    check one_by_hand 0 '^hand rank 0/1 .*: ok$' 1 env UTOFU_RANK=0 UTOFU_SIZE=1 "$PROBE"
    check slurm_variables 0 '^hand rank 0/1 .*: ok$' 1 env SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 \
        SLURM_NODEID=0 SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE=1 UTOFU_ROOT="$folder" "$PROBE"
}

group_hand_bad() {
    check rank_beyond_size 3 'UTOFU_RANK=2 is not below UTOFU_SIZE=2' 1 "${ranked[@]}" 2 2 "$folder" "$PROBE"
    check rank_alone 3 'belong together' 1 env UTOFU_RANK=0 "$PROBE"
    check size_alone 3 'belong together' 1 env UTOFU_SIZE=2 "$PROBE"
    check root_missing 3 'UTOFU_ROOT is not set' 1 env UTOFU_RANK=0 UTOFU_SIZE=2 "$PROBE"
    check root_alone 3 'no launcher' 1 env UTOFU_ROOT="$folder" "$PROBE"
    check bad_root 3 'none of host:port' 1 "${ranked[@]}" 0 2 nonsense "$PROBE"
    check root_is_a_file 3 'none of host:port' 1 "${ranked[@]}" 0 2 /dev/null "$PROBE"
    check port_in_use 3 'cannot listen there: Address already in use' 1 bash -c '
        root=127.0.0.1:$(free_port)
        as_rank 0 2 $root "$PROBE" --stay 1500 --wait 1 >/dev/null 2>&1 & sleep 0.7
        as_rank 0 2 $root "$PROBE"; rc=$?; kill $!; exit $rc'
    check nobody_serves 1 'nobody serves this job there .*tried for 1 seconds' 1 \
        env UTOFU_JOB_TIMEOUT=1 UTOFU_RANK=1 UTOFU_SIZE=2 UTOFU_ROOT=127.0.0.1:$(free_port) "$PROBE"
    check nobody_serves_unix 1 'nobody serves this job there' 1 \
        env UTOFU_JOB_TIMEOUT=1 UTOFU_RANK=1 UTOFU_SIZE=2 UTOFU_ROOT=unix:@utofu.none.$$ "$PROBE"
    check same_rank_twice 4 'another process says that it is rank 1' 1 "$UTOFURUN" -n 2 sh -c \
        '[ $UTOFU_RANK = 0 ] && sleep 0.5; UTOFU_RANK=1 exec "$PROBE" --delay 0 --stay 2000 --wait 1'
    check same_rank_twice_in_a_folder 4 'another process says that it is rank 0' 1 bash -c '
        as_rank 0 2 "$0" "$PROBE" --delay 0 --stay 1500 --wait 1 >/dev/null & sleep 0.7
        as_rank 0 2 "$0" "$PROBE"' "$folder"
    check other_size 4 'does not belong to the job' 1 "$UTOFURUN" -n 2 sh -c \
        '[ $UTOFU_RANK = 0 ] && exec sleep 2; UTOFU_SIZE=3 exec "$PROBE"'
    check local_rank_beyond_size 3 'local rank 3 is not below' 1 \
        env UTOFU_LOCAL_RANK=3 UTOFU_LOCAL_SIZE=2 "$PROBE"
    check number_is_none 3 "UTOFU_RANK: '-1' is not allowed" 1 "${ranked[@]}" -1 2 "$folder" "$PROBE"
    check stale_pmi_fd 0 '^solo' 1 env PMI_FD=77 PMI_RANK=1 PMI_SIZE=2 "$PROBE"
    # a socket, but not the end of a launcher's pair
    check pmi_fd_is_another_socket 0 '^solo' 1 bash -c '
        as_rank 0 2 127.0.0.1:$0 "$PROBE" --stay 1500 --wait 1 >/dev/null & sleep 0.7
        exec 5<>/dev/tcp/127.0.0.1/$0
        PMI_FD=5 PMI_RANK=1 PMI_SIZE=2 "$PROBE"' "$(free_port)"
    port=$(free_port)
    check garbage 0 ': ok$' 2 bash -c '
        root=127.0.0.1:$0
        as_rank 0 2 $root "$PROBE" --wait 20000 & sleep 0.7
        for i in 1 2 3 4 5; do
            head -c 5000 /dev/urandom >/dev/tcp/127.0.0.1/$0
            printf "UTJ1\001\000\377\377" >/dev/tcp/127.0.0.1/$0
            printf "UTJ1\002\000\001\000x" >/dev/tcp/127.0.0.1/$0
            printf "GET / HTTP/1.0\r\n\r\n" >/dev/tcp/127.0.0.1/$0
        done 2>/dev/null
        exec 5<>/dev/tcp/127.0.0.1/$0; printf UTJ >&5
        as_rank 1 2 $root "$PROBE"; wait $!' "$port"
}

group_openmpi() {
    local run="${MPIRUN_OPENMPI:-$(command -v mpirun.openmpi)}" mpi
    [ -n "$run" ] || skip 'no mpirun of Open MPI'
    run="$run --oversubscribe"
    [ "$(id -u)" = 0 ] && run="$run --allow-run-as-root"
    $run -n 1 "$PROBE" 2>&1 | grep -q 'built without PMIx' && skip 'built without PMIx'
    check without_mpi 0 '^pmix rank .* node 0/1 .*: ok$' 4 $run -n 4 "$PROBE" --layout
    check one 0 '^pmix rank 0/1 .*: ok$' 1 $run -n 1 "$PROBE" --layout
    check threads 0 '^pmix .*: ok$' 4 $run -n 4 "$PROBE" --layout --threads 8
    check other_nodes 0 '^pmix rank .* node [01]/.* local 0/1 .*: ok$' 2 $run -n 2 sh -c \
        'UTOFU_NODE=$PMIX_RANK UTOFU_LOCAL_RANK=0 UTOFU_LOCAL_SIZE=1 exec "$PROBE"'
    check utofurun_inside 0 '^hand rank .*: ok$' 2 $run -n 1 "$UTOFURUN" -n 2 "$PROBE"
    check stale_pmi_fd 0 '^pmix rank .*: ok$' 2 $run -n 2 env PMI_FD=77 PMI_RANK=0 PMI_SIZE=1 "$PROBE"
    $run -n 1 env | grep ^PMIX_ >"$folder/pmix_env"
    check launcher_is_gone 0 'job of one|^solo rank 0/1 .*: ok$' 2 env \
        $(grep -vE '[ "]' "$folder/pmix_env") "$PROBE"
    [ -n "$PROBE_OPENMPI" ] || skip 'no Open MPI to build with'
    for mpi in none before after; do
        check mpi_$mpi 0 '^pmix rank .*: ok$' 4 $run -n 4 "$PROBE_OPENMPI" --layout --mpi $mpi
    done
    check mpi_over 3 'MPI_Finalize has ended PMIx' 1+ $run -n 2 "$PROBE_OPENMPI" --mpi over
    check singleton 0 'rank 0/1 .*: ok$' 1 "$PROBE_OPENMPI" --mpi before
}

group_mpich() {
    local run="${MPIEXEC_MPICH:-$(command -v mpiexec.mpich || command -v mpiexec.hydra)}" mpi
    [ -n "$run" ] || skip 'no mpiexec of MPICH'
    check without_mpi 0 '^pmi1 rank .* node 0/1 .*: ok$' 4 $run -n 4 "$PROBE" --layout
    check one 0 '^pmi1 rank 0/1 .*: ok$' 1 $run -n 1 "$PROBE" --layout
    check two_nodes 0 '^pmi1 rank .* node [01]/2 local [0-2]/[23] .*: ok$' 5 \
        $run -launcher ssh -launcher-exec "$here/fake_ssh.sh" -hosts a:2,b:2 -n 5 "$PROBE" --layout
    check in_turns 0 '^pmi1 rank .* node [01]/2 local [0-2]/[23] .*: ok$' 5 \
        $run -launcher ssh -launcher-exec "$here/fake_ssh.sh" -hosts a:1,b:1 -n 5 "$PROBE" --layout
    check threads 0 '^pmi1 .*: ok$' 4 $run -n 4 "$PROBE" --layout --threads 8
    check port_mode 3 'mpiexec -pmi-port, which does not work' 1 $run -pmi-port -n 1 "$PROBE"
    check utofurun_inside 0 '^hand rank .*: ok$' 2 $run -n 1 "$UTOFURUN" -n 2 "$PROBE"
    check launcher_that_lies 3 'PMI_RANK=5 is not below PMI_SIZE=1' 1 $run -n 1 env PMI_RANK=5 "$PROBE"
    [ -n "$PROBE_MPICH" ] || skip 'no MPICH to build with'
    for mpi in none before after; do
        check mpi_$mpi 0 '^pmi1 rank .*: ok$' 4 $run -n 4 "$PROBE_MPICH" --layout --mpi $mpi
    done
    check mpi_over 3 'MPI_Finalize has closed' 1+ $run -n 2 "$PROBE_MPICH" --mpi over
    # Slurm's pmi2 plugin is told by its variables
    check slurm_before_mpi 3 'must call MPI_Init before utofu' 1+ \
        $run -n 2 env -u MPI_LOCALRANKID PMI_JOBID=1 "$PROBE_MPICH" --mpi after
    check slurm_after_mpi 0 '^pmi1 rank .*: ok$' 2 \
        $run -n 2 env -u MPI_LOCALRANKID PMI_JOBID=1 "$PROBE_MPICH" --mpi before
}

if ! declare -F "group_$1" >/dev/null; then
    echo "usage: $0 $(declare -F | sed -n 's/.*group_//p' | tr '\n' '|')"
    exit 2
fi
"group_$1"
printf '%s: %d checks, %d failures\n' "$1" "$checks" "$failures"
[ $failures = 0 ]
