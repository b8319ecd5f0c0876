#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run_bootstrap_tests.sh GROUP: starts jobs with all launchers, and in some ways that must fail.
# UTOFURUN, PROBE, PROBE_OPENMPI, PROBE_MPICH, DEFERRED_OPENMPI and DEFERRED_MPICH name the programs;
# exit 77 if one is missing.
# MPIRUN_OPENMPI and MPIEXEC_MPICH name other launchers than those in PATH.

: "${UTOFURUN:?names utofurun}" "${PROBE:?names job_probe}"
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
failures=0
checks=0
trap 'rm -rf "$folder"' EXIT
# memory leaks of MPI libraries at exit are not reported
export ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
export UTOFU_LOG_LEVEL=warning
# an outer job must not be taken for ours
unset UTOFU_RANK UTOFU_SIZE UTOFU_ROOT UTOFU_NODE UTOFU_LOCAL_RANK UTOFU_LOCAL_SIZE UTOFU_JOB_KEY_FILE
UTOFU_JOB_KEY=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export UTOFU_JOB_KEY

# shellcheck source=tests/harness/checks.sh
. "$(dirname "$0")/../harness/checks.sh"
# shellcheck source=tests/harness/slurm.sh
. "$(dirname "$0")/../harness/slurm.sh"

# logged NAME PATTERN COUNT: COUNT lines of the last checked command match
logged() {
    local lines
    checks=$((checks + 1))
    lines=$(grep -c -E -- "$2" "$folder/out")
    [ "$lines" = "$3" ] || fail "$1: $lines lines match '$2', not $3"
}

skip() {
    printf 'skipped: %s\n' "$1"
    exit 77
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
of_step() { # RANK STEP ROOT command...: a process of a step of Slurm with two
    SLURM_JOB_ID=12 SLURM_STEP_ID=$2 SLURM_PROCID=$1 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=0 SLURM_LOCALID=$1 \
        SLURM_STEP_TASKS_PER_NODE=2 UTOFU_ROOT=$3 "${@:4}"
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

export -f by_hand as_rank of_step free_port
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
    check np 0 ': ok$' 3 "$UTOFURUN" -np 3 "$PROBE" --layout
    check np_of_the_program 0 '^-np 4$' 1 "$UTOFURUN" -n 1 echo -np 4
    check its_name 0 '^utofurun rank [01]/2 .*: ok$' 2 "$UTOFURUN" -n 2 "$PROBE" --layout
    check variables 0 '^1 3 1 0 2 unix:@utofurun\.' 1 "$UTOFURUN" -n 3 --nodes 2 sh -c \
        'echo "$UTOFU_RANK $UTOFU_SIZE $UTOFU_LOCAL_RANK $UTOFU_NODE $UTOFU_LOCAL_SIZE $UTOFU_ROOT"'
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

# prints the CPUs that a process may use
which_cpus='sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status'

group_binding() {
    local cores one=() each
    cores=$(lscpu -p=core,socket | grep -v '^#' | sort -u | wc -l)
    [ "$(nproc)" -ge 2 ] && [ "$cores" -ge 2 ] || skip 'there is one core'
    # a network namespace of its own, where no other job has reserved a core
    if unshare -n true 2>/dev/null; then
        one=(unshare -n)
    elif unshare -rn true 2>/dev/null; then
        one=(unshare -rn)
    fi
    check explicitly 0 '^[0-9]' 2 "$UTOFURUN" -n 2 --bind core sh -c "$which_cpus"
    [ "$(sort -u "$folder/out" | wc -l)" = 2 ] || fail 'two processes have two cores'
    [ "$(nproc)" -gt "$cores" ] || check one_cpu 0 '^[0-9]+$' 2 \
        "$UTOFURUN" -n 2 --bind core sh -c "$which_cpus"
    each=$(eval "$which_cpus")
    check not_at_all 0 "^$each\$" 2 "$UTOFURUN" -n 2 --bind none sh -c "$which_cpus"
    check more_than_cores 0 "^$each\$" $((cores + 1)) "$UTOFURUN" -n $((cores + 1)) sh -c "$which_cpus"
    check too_few_cores 2 "$((cores + 1)) processes, and $cores cores" 1 \
        "$UTOFURUN" -n $((cores + 1)) --bind core true
    check mask_of_its_own 2 '2 processes, and 1 core that' 1 \
        taskset -c "${each%%[-,]*}" "$UTOFURUN" -n 2 --bind core true
    check unbound_in_a_mask 0 "^${each%%[-,]*}\$" 2 \
        taskset -c "${each%%[-,]*}" "$UTOFURUN" -n 2 sh -c "$which_cpus"
    check how 2 'core or none, not .socket.' 1 "$UTOFURUN" -n 2 --bind socket true
    [ ${#one[@]} -gt 0 ] || return 0
    check by_default 0 '^[0-9]' 2 "${one[@]}" "$UTOFURUN" -n 2 sh -c "$which_cpus"
    [ "$(sort -u "$folder/out" | wc -l)" = 2 ] || fail 'two processes have two cores by default'
    check one_alone 0 "^$each\$" 1 "${one[@]}" "$UTOFURUN" -n 1 sh -c "$which_cpus"
    # one job has all cores: another one is not put on them too
    check second_job 0 "^$each\$" 2 "${one[@]}" "$UTOFURUN" -n "$cores" --bind core sh -c '
        [ $UTOFU_RANK != 0 ] || exec taskset -c "$1" "$UTOFURUN" -n 2 sh -c "$2"' sh "$each" "$which_cpus"
}

group_utofurun_bad() {
    check no_processes 2 'takes a number from 1' 1 "$UTOFURUN" -n 0 true
    check not_a_number 2 'takes a number from 1' 1 "$UTOFURUN" -n 2x true
    check n_missing 2 'is missing' 1 "$UTOFURUN" true
    check np_without_value 2 'needs a value' 1 "$UTOFURUN" -np
    check np_not_a_number 2 "not 'x'" 1 "$UTOFURUN" -np x true
    check n_without_value 2 'needs a value' 1 "$UTOFURUN" -n
    check program_missing 2 'program is missing' 1 "$UTOFURUN" -n 2
    check unknown_option 2 'unknown option --frobnicate' 1 "$UTOFURUN" --frobnicate -n 2 true
    for option in -H --host --hosts --hosts=a,b --hostfile --machinefile; do
        check "no_$option" 2 "utofurun: $option.*: utofurun starts processes of one machine only; on several hosts mpirun --host" 1 \
            "$UTOFURUN" -n 2 "$option" a,b true
    done
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
    # a terminal or socket that another program has made non-blocking: a full one is no error
    check slow_reader 0 '^40000$' 1 python3 -c "$slow_reader" "$UTOFURUN"
    [ ! -e /dev/full ] || check full_disk 1 'cannot write the output of the job: No space left' 1 \
        bash -c '"$UTOFURUN" -n 1 --tag-output echo text >/dev/full'
    # reads a line, and then nothing until the job has ended
    check time_limit_asleep 124 '^ended$' 1 bash -c '
        exec 3> >(exec sleep 50)
        "$UTOFURUN" -n 2 --timeout 1 --tag-output yes >&3 2>&1; rc=$?; kill $!; echo ended; exit $rc'
    check term_asleep 143 '^ended$' 1 bash -c '
        exec 3> >(exec sleep 50); reader=$!
        "$UTOFURUN" -n 2 --tag-output yes >&3 2>&1 & job=$!
        sleep 1; kill $job; wait $job; rc=$?; kill $reader; echo ended; exit $rc'
    # one pipe for both: lines do not mix
    check unmixed 0 '^\[0\] (a+|b+)$' 4000 bash -c '"$UTOFURUN" -n 1 --tag-output bash -c "
        a=\$(printf %06000d 0); b=\${a//0/b} a=\${a//0/a}
        for ((i = 0; i < 2000; i++)); do echo \$b >&2; done & for ((i = 0; i < 2000; i++)); do echo \$a; done; wait
        " 2>&1 | (sleep 1; cat)'
}

# Reads what utofurun writes into a small, non-blocking socket, now and then; prints the number of lines.
slow_reader='
import os, socket, subprocess, sys, time
ours, theirs = socket.socketpair()
theirs.setblocking(False)
theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
job = subprocess.Popen([sys.argv[1], "-n", "2", "--tag-output", "seq", "20000"], stdout=theirs)
theirs.close()
lines = 0
while piece := ours.recv(65536):
    lines += piece.count(b"\n")
    if lines < 2000:
        time.sleep(0.01)
print(lines)
sys.exit(job.wait())
'

# start_job command...: in the background, and waits until all its processes are there
start_job() {
    rm -f "$folder"/pid.*
    "$UTOFURUN" -n 2 bash -c "$1; echo \$\$ >'$folder'/pid.\$UTOFU_RANK; $2" >"$folder/out" 2>&1 &
    job=$!
    while ! [ -s "$folder/pid.0" ] || ! [ -s "$folder/pid.1" ]; do sleep 0.02; done
}

# A signal that was ignored when this shell began (nohup): shells below it cannot trap the signal.
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

    checks=$((checks + 1))
    start_job "bash -c 'echo \$\$ >$folder/child.\$UTOFU_RANK; sleep 40; true' & sleep 0.5" 'wait; true'
    while ! [ -s "$folder/child.0" ] || ! [ -s "$folder/child.1" ]; do sleep 0.02; done
    kill -KILL $job
    wait $job 2>/dev/null
    for pid in $(cat "$folder"/child.*); do
        is_gone "$pid" || { kill -9 "$pid"; fail 'kill -9 of utofurun ends what its processes started'; }
    done

    # the bad twin: processes that a successful job left behind on purpose continue
    checks=$((checks + 1))
    "$UTOFURUN" -n 1 bash -c "sleep 40 </dev/null >/dev/null 2>&1 & echo \$! >'$folder'/behind"
    sleep 0.2
    kill "$(cat "$folder/behind")" 2>/dev/null || fail 'the end of a job leaves alone what runs in the background'
}

# 1,024 processes of one machine: all communicate, their lines come complete, one death is reported
# once, and an interrupt ends them all. And 64 nodes.
group_utofurun_many() {
    local n=1024 nodes='6[0-3]|[0-5]?[0-9]' start pid
    # beside other programs utofurun has one time slice of 500, and may take minutes to answer all
    export UTOFU_JOB_TIMEOUT=1000 UTOFU_LOG_LEVEL=error
    check meet 0 '^rank [0-9]+ met 8$' $n "$UTOFURUN" -n $n "$MEET" 8
    check nodes 0 "node ($nodes)/64 local [01]/2 .*: ok\$" 128 "$UTOFURUN" -n 128 --nodes 64 "$PROBE" --layout
    check meet_between_nodes 0 '^rank [0-9]+ met 127$' 128 "$UTOFURUN" -n 128 --nodes 64 "$MEET" 127 2
    check lines 0 '^begin ([0-9]+) middle \1 end$' $((3 * n)) "$UTOFURUN" -n $n sh -c \
        'for i in 1 2 3; do echo "begin $UTOFU_RANK middle $UTOFU_RANK end"; done'
    logged lines '' $((3 * n))
    # in pieces, which other processes' lines might separate
    check tagged_lines 0 '^\[([0-9]+)\] begin \1 middle \1 end$' $((3 * n)) "$UTOFURUN" -n $n --tag-output sh -c \
        'for i in 1 2 3; do printf "begin $UTOFU_RANK "; printf "middle $UTOFU_RANK "; echo end; done'
    logged tagged_lines '' $((3 * n))
    check death 137 '^utofurun: rank 500 \(pid [0-9]+\) ' 1 "$UTOFURUN" -n $n sh -c \
        'if [ $UTOFU_RANK = 500 ]; then sleep 2; kill -9 $$; fi; exec "$PROBE" --stay 100000'
    logged death '[^ ]' 1

    checks=$((checks + 1))
    rm -f "$folder"/pid.*
    # a background job of a shell ignores SIGINT
    env --default-signal=INT "$UTOFURUN" -n $n sh -c 'echo $$ >"$0/pid.$UTOFU_RANK"; exec sleep 1000' "$folder" \
        >"$folder/out" 2>&1 &
    job=$!
    while [ "$(find "$folder" -name 'pid.*' -size +0 | wc -l)" -lt $n ]; do sleep 0.1; done
    start=$(date +%s%N)
    kill -INT $job
    wait $job
    [ $? = 130 ] || fail 'status of a job that was interrupted'
    printf 'interrupt: %d processes ended after %d ms\n' $n $((($(date +%s%N) - start) / 1000000))
    for pid in $(cat "$folder"/pid.*); do
        kill -0 "$pid" 2>/dev/null && fail "process $pid goes on after an interrupt"
    done
}

# A process that has ended is known in its step, until all have joined, and in no other step.
folder_of_a_step() {
    local step
    check folder_of_a_step 0 '^hand rank 0/2 .*: ok$' 1 bash -c '
        of_step 1 3 "$0" "$PROBE" --delay 0 --wait 50 >/dev/null; of_step 0 3 "$0" "$PROBE" --wait 5000' "$folder"
    ! compgen -G "$folder/*utofu*" >/dev/null || fail 'files of a step are removed at its end'
    for step in '4' '3 SLURM_RESTART_COUNT=1'; do
        check "folder_of_step_$step" 1 '^hand rank 0/2 .*: ok$' 0 bash -c '
            of_step 1 3 "$0" "$PROBE" --delay 0 --wait 50 >/dev/null
            of_step 0 ${1%% *} "$0" env ${1#* } "$PROBE" --wait 500' "$folder" "$step SLURM_JOB_ID=12"
        rm -f "$folder"/utofu.*
    done
}

group_hand() {
    check folder 0 ': ok$' 4 bash -c 'by_hand 4 "$0" --stay 700' "$folder"
    ! compgen -G "$folder/*utofu*" >/dev/null || fail 'files of the folder are removed at exit'
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
    : >"$folder/utofu.1.1.new" # killed before it wrote anything
    check folder_rank_1_killed 0 ': ok$' 1 bash -c 'as_rank 0 2 "$0" "$PROBE" --pause 5000 & zero=$!
        sleep 1; UTOFU_RANK=1 UTOFU_SIZE=2 UTOFU_ROOT=$0 "$PROBE" --delay 0 --pause 60000 & one=$!
        until [ -e "$0/utofu.1" ]; do sleep 0.1; done
        kill -9 $one; wait $one 2>/dev/null; wait $zero' "$folder"
    ! compgen -G "$folder/*utofu*" >/dev/null || fail 'files of killed processes are removed at exit'
    folder_of_a_step
    check alone 0 '^solo rank 0/1 node 0/1 local 0/1 .*: ok$' 1 "$PROBE" --layout
    check one_by_hand 0 '^hand rank 0/1 .*: ok$' 1 env UTOFU_RANK=0 UTOFU_SIZE=1 "$PROBE"
    check slurm_variables 0 '^hand rank 0/1 .*: ok$' 1 env SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 \
        SLURM_NODEID=0 SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE=1 UTOFU_ROOT="$folder" "$PROBE"
}

# A rank that is started again alone learns what is known of the others.
group_restarted() {
    local job="$folder/job" again='rank 0 had joined in UTOFU_ROOT=.*/job, as process [0-9]+ of host .+, and has ended; no process'
    mkdir "$job"
    check restarted 1 "$again" 1 bash -c 'folder=$0
        for rank in 0 1; do
            UTOFU_RANK=$rank UTOFU_SIZE=2 UTOFU_ROOT=$folder "$PROBE" --delay 0 --pause 60000 & pids[rank]=$!
        done
        until [ -e "$folder/utofu.0" ] && [ -e "$folder/utofu.1" ]; do sleep 0.1; done
        echo "rank 0 was ${pids[0]}"
        kill -9 ${pids[*]}; wait ${pids[*]} 2>/dev/null
        UTOFU_JOB_TIMEOUT=4 as_rank 1 2 "$folder" "$MEET" 1' "$job"
    logged restarted "as process $(sed -n 's/^rank 0 was //p' "$folder/out") of host $(hostname | cut -c1-35)," 1
    logged restarted 'has not called the library yet' 0
    check never_started 1 'rank 0 has no file in UTOFU_ROOT=.*/job: it has not called the library yet, or it has' 1 \
        env UTOFU_JOB_TIMEOUT=4 "${ranked[@]}" 1 2 "$job" "$MEET" 1
    for root in "127.0.0.1:$(free_port)" "unix:@utofu.none.$$"; do
        check "nobody_at_$root" 1 "rank 0 cannot be looked up, because no process serves UTOFU_ROOT=$root: rank 0, which should, has not" 1 \
            env UTOFU_JOB_TIMEOUT=4 "${ranked[@]}" 1 2 "$root" "$MEET" 1
        logged "nobody_at_$root" 'has not called the library yet' 0
    done
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
    check nobody_serves 1 'no process serves this job there .*tried for 1 seconds' 1 \
        env UTOFU_JOB_TIMEOUT=1 UTOFU_RANK=1 UTOFU_SIZE=2 UTOFU_ROOT="127.0.0.1:$(free_port)" "$PROBE"
    check nobody_serves_unix 1 'no process serves this job there' 1 \
        env UTOFU_JOB_TIMEOUT=1 UTOFU_RANK=1 UTOFU_SIZE=2 UTOFU_ROOT=unix:@utofu.none.$$ "$PROBE"
    check same_rank_twice 4 'another process claims to be rank 1' 1 "$UTOFURUN" -n 2 sh -c \
        '[ $UTOFU_RANK = 0 ] && sleep 0.5; UTOFU_RANK=1 exec "$PROBE" --delay 0 --stay 2000 --wait 30000'
    check same_rank_twice_in_a_folder 4 'another process claims to be rank 0' 1 bash -c '
        as_rank 0 2 "$0" "$PROBE" --delay 0 --stay 1500 --wait 30000 >/dev/null & first=$!; sleep 0.7
        as_rank 0 2 "$0" "$PROBE"; status=$?; kill $first; exit $status' "$folder"
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
            printf "UTJ2\001\000\377\377" >/dev/tcp/127.0.0.1/$0
            printf "UTJ2\002\000\001\000x" >/dev/tcp/127.0.0.1/$0
            printf "GET / HTTP/1.0\r\n\r\n" >/dev/tcp/127.0.0.1/$0
        done 2>/dev/null
        exec 5<>/dev/tcp/127.0.0.1/$0; printf UTJ >&5
        as_rank 1 2 $root "$PROBE"; wait $!' "$port"
}

# A server without the key: it reports success, repeats the messages of a true server, or is of
# another version. forged_server PORT WHAT [PORT of the true one]
write_forged_server() {
    cat >"$folder/forged_server.py" <<'END'
import os, socket, sys, time
port, what = int(sys.argv[1]), sys.argv[2]
ours = socket.create_server(("127.0.0.1", port))
print("listening", flush=True)
def message(kind, data, tag=bytes(16), magic=b"UTJ2"):
    return magic + bytes([kind, 0]) + len(data).to_bytes(2, "little") + data + tag
recorded = []
if what == "recorded": # between a true process and its server
    client, server = ours.accept()[0], socket.create_connection(("127.0.0.1", int(sys.argv[3])))
    for size in (40, 24): # challenge and answer to the hello
        recorded.append(server.recv(size, socket.MSG_WAITALL))
        client.sendall(recorded[-1])
        server.sendall(client.recv(4096))
    client.close()
    server.close()
client = ours.accept()[0]
if what == "version":
    client.sendall(message(4, os.urandom(16), magic=b"UTJ3"))
elif what == "recorded":
    client.sendall(recorded[0])
    client.recv(4096)
    client.sendall(recorded[1])
else:
    client.sendall(message(4, os.urandom(16)))
    client.recv(4096)
    client.sendall(message(1, b"", os.urandom(16)))
time.sleep(2)
END
}

# forged WHAT: rank 1 of a job connects to such a server
forged() {
    local port true
    port=$(free_port)
    rm -f "$folder/server"
    if [ "$1" = recorded ]; then
        true=$(free_port)
        as_rank 0 2 "127.0.0.1:$true" "$PROBE" --delay 0 --wait 3000 >/dev/null 2>&1 &
        until (exec 3<>"/dev/tcp/127.0.0.1/$true") 2>/dev/null; do sleep 0.05; done
    fi
    python3 "$folder/forged_server.py" "$port" "$1" "$true" >"$folder/server" &
    while ! [ -s "$folder/server" ]; do sleep 0.02; done
    [ "$1" != recorded ] || as_rank 1 2 "127.0.0.1:$port" "$PROBE" --delay 0 --wait 100 >/dev/null 2>&1
    ! as_rank 1 2 "127.0.0.1:$port" "$PROBE" --delay 0
}

stranger=54322

as_stranger() { # command...
    setpriv --reuid $stranger --regid $stranger --clear-groups "$@"
}

has_second_user() {
    [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null && as_stranger true 2>/dev/null
}

# with_another KIND: rank 0 waits; rank 1 connects with another key, then with the true one
with_another() {
    local root rc
    root=127.0.0.1:$(free_port)
    as_rank 0 2 "$root" "$PROBE" --delay 0 &
    sleep 0.3
    (
        case $1 in
        none) unset UTOFU_JOB_KEY ;;
        *) UTOFU_JOB_KEY=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') ;;
        esac
        cd / && as_rank 1 "$2" "$root" "${@:3}" --delay 0 --wait 1000 && exit 9
        as_rank 0 "$2" "$root" "${@:3}" --delay 0 --wait 1000
    )
    as_rank 1 2 "$root" "$PROBE" --delay 0 && wait $!
}

# in_folder KEY0 KEY1: rank 1 publishes with one key, rank 0 looks up with another; "-" is none
in_folder() {
    local at rc i
    at=$(mktemp -d "$folder/job.XXXX")
    key_of() { [ "$1" = - ] && unset UTOFU_JOB_KEY || export UTOFU_JOB_KEY=$1; }
    (key_of "$2" && UTOFU_RANK=1 UTOFU_SIZE=2 UTOFU_ROOT=$at exec "$PROBE" --delay 0 --wait 1 --stay 60000) >/dev/null 2>&1 &
    for ((i = 0; i < 2500; i++)); do [ -s "$at/utofu.1" ] && break; sleep 0.02; done
    [ -z "$3" ] || python3 "$folder/damage.py" "$at/utofu.1" "$3"
    (key_of "$1" && as_rank 0 2 "$at" "$PROBE" --delay 0 --wait 30000)
    rc=$?
    kill $!
    wait $! 2>/dev/null
    return $rc
}

# Changes a file of a living process in place. damage FILE WHAT
write_damage() {
    cat >"$folder/damage.py" <<'END'
import os, sys
name, what = sys.argv[1:]
fd = os.open(name, os.O_RDWR)
text = bytearray(os.read(fd, 1000))
if what == "cut":
    text = text[:-1]
elif what == "short":
    text = text[:20]
elif what == "longer":
    text += b"x"
elif what == "other_version":
    text[3] += 1
elif what == "sizes":
    text[6:8] = bytes([255, 255])
elif what == "noise":
    text = os.urandom(len(text))
else:
    text[int(what)] ^= 1
os.ftruncate(fd, 0)
os.pwrite(fd, text, 0)
END
}

group_key() {
    local zeros=00000000000000000000000000000000 at=$folder/keys kind what
    mkdir "$at"
    printf '%s\n' "$UTOFU_JOB_KEY" >"$at/good"
    chmod 600 "$at/good"
    export -f forged with_another in_folder as_stranger
    export folder stranger
    write_forged_server
    write_damage

    check no_key 3 'UTOFU_ROOT=127.* needs a key, the same for all .* UTOFU_JOB_KEY_FILE to a file made by .umask 077; od .*>FILE.' 1 \
        env -u UTOFU_JOB_KEY "${ranked[@]}" 0 2 127.0.0.1:9 "$PROBE"
    check alone_needs_none 0 ': ok$' 1 env -u UTOFU_JOB_KEY UTOFU_RANK=0 UTOFU_SIZE=1 UTOFU_ROOT=127.0.0.1:9 "$PROBE"
    check unix_needs_none 0 ': ok$' 2 env -u UTOFU_JOB_KEY bash -c 'by_hand 2 unix:@utofu.test.$$'
    for kind in 0123 ${zeros}0 ${zeros}xy $zeros$zeros$zeros$zeros${zeros}; do
        check "key $kind" 3 'UTOFU_JOB_KEY: not allowed; it takes 32 to 128 hexadecimal digits' 1 \
            env UTOFU_JOB_KEY=$kind "${ranked[@]}" 0 2 127.0.0.1:9 "$PROBE"
        logged "key $kind is not shown" "$kind" 0
    done
    check upper_case 0 ': ok$' 2 bash -c 'root=127.0.0.1:$(free_port)
        as_rank 0 2 $root "$PROBE" & UTOFU_JOB_KEY=${UTOFU_JOB_KEY^^} as_rank 1 2 $root "$PROBE"; wait $!'
    check utofurun_makes_one 0 '^[0-9a-f]{32}$' 1 "$UTOFURUN" -n 1 sh -c 'echo $UTOFU_JOB_KEY'
    check utofurun_makes_another 0 "$UTOFU_JOB_KEY" 0 "$UTOFURUN" -n 1 sh -c 'echo $UTOFU_JOB_KEY'
    # it is refused when it publishes, or, if that took longer than its wait, when it looks up a
    # record
    check utofurun_asks_for_it 4 'has another key than this one' 1 \
        "$UTOFURUN" -n 2 sh -c '[ $UTOFU_RANK = 0 ] && exec sleep 2; unset UTOFU_JOB_KEY
            "$PROBE" --delay 0; case $? in 1 | 4) exit 4 ;; esac'

    check file 0 ': ok$' 2 env -u UTOFU_JOB_KEY UTOFU_JOB_KEY_FILE="$at/good" \
        bash -c 'by_hand 2 127.0.0.1:$(free_port)'
    check file_and_variable 0 ': ok$' 2 bash -c 'root=127.0.0.1:$(free_port)
        as_rank 0 2 $root "$PROBE" & unset UTOFU_JOB_KEY; UTOFU_JOB_KEY_FILE=$0 as_rank 1 2 $root "$PROBE"; wait $!' "$at/good"
    install -m 644 "$at/good" "$at/open"
    install -m 620 "$at/good" "$at/group"
    install -m 600 /dev/null "$at/empty"
    printf '%s' "no key, but a secret all the same" >"$at/text"
    chmod 600 "$at/text"
    ln -s good "$at/link"
    mkfifo -m 600 "$at/fifo"
    for kind in 'open may be read or written by others .mode 0644.' 'group may be read or written by others .mode 0620.' \
        'empty does not hold 32 to 128 hex' 'text does not hold 32 to 128 hex' 'link is a symbolic link' \
        'fifo is a FIFO' '. is a folder' 'missing cannot be read: No such file'; do
        check "file $kind" 3 "UTOFU_JOB_KEY_FILE=.*/${kind%% *} ${kind#* }.*; make one: .umask 077; od " 1 \
            env -u UTOFU_JOB_KEY UTOFU_JOB_KEY_FILE="$at/${kind%% *}" "${ranked[@]}" 0 2 127.0.0.1:9 "$PROBE"
        logged "file $kind is not shown" 'a secret' 0
    done

    # the other process learns nothing, and the job continues; no size and no rank reveals more
    for what in 'other 2' 'other 3' 'other 1000'; do
        check "another key: $what" 0 'has another key than this one; give all processes of the job one UTOFU_JOB_KEY' 1+ \
            bash -c 'with_another "$@"' bash $what "$PROBE"
        logged "another key: $what" ': ok$' 2
        logged "another key: $what" 'does not belong to the job|claims to be rank' 0
    done
    check two_jobs_at_one_port 0 ': ok$' 2 bash -c 'root=127.0.0.1:$(free_port)
        as_rank 0 2 $root "$PROBE" --delay 0 & sleep 0.3
        ! UTOFU_JOB_KEY='$zeros' as_rank 0 2 $root "$PROBE" --delay 0 || exit 1
        ! UTOFU_JOB_KEY='$zeros' as_rank 1 2 $root "$PROBE" --delay 0 --wait 1000 || exit 1
        as_rank 1 2 $root "$PROBE"; wait $!'
    logged two_jobs_at_one_port 'cannot listen there: Address already in use' 1
    logged two_jobs_at_one_port 'has another key than this one; .* every job a port of its own' 1
    if command -v python3 >/dev/null; then
        check forged_server 0 'does not know the key of the job and is not trusted' 1 bash -c 'forged forged'
        check recorded_server 0 'does not know the key of the job and is not trusted' 1 bash -c 'forged recorded'
        check server_of_another_version 0 'runs another version of this library; use one' 1 bash -c 'forged version'
    fi

    check folder 0 ': ok$' 1 bash -c 'in_folder "$@"' bash $zeros $zeros
    check folder_without 0 ': ok$' 1 bash -c 'in_folder "$@"' bash - -
    check folder_other 1 'utofu.1 is not made with the key of this job, and is not used' 1+ \
        bash -c 'in_folder "$@"' bash $zeros "$UTOFU_JOB_KEY"
    check folder_not_sealed 1 'utofu.1 is not made with the key of this job, and is not used' 1+ \
        bash -c 'in_folder "$@"' bash $zeros -
    check folder_sealed 1 'utofu.1 is made with the key of a job, and this process has none' 1+ \
        bash -c 'in_folder "$@"' bash - $zeros
    if command -v python3 >/dev/null; then
        for kind in cut short longer other_version sizes noise; do
            for what in - $zeros; do
                check "folder_$kind" 1 'utofu.1 is damaged, or written by another version .* remove it, and run' 1+ \
                    bash -c 'in_folder "$@"' bash $what $what $kind
            done
        done
        for kind in 8 12 20 60 100 300; do # rank, size, host, name, record
            check "folder_changed_at_$kind" 1 'utofu.1 is not made with the key of this job, and is not used' 1+ \
                bash -c 'in_folder "$@"' bash $zeros $zeros $kind
        done
    fi

    has_second_user || return 0
    chmod 755 "$folder" "$at"
    install -m 755 "$PROBE" "$folder/probe"
    install -o $stranger -m 600 "$at/good" "$at/theirs"
    check file_of_another_user 3 "theirs belongs to user $stranger, not to user 0; make one" 1 \
        env -u UTOFU_JOB_KEY UTOFU_JOB_KEY_FILE="$at/theirs" "${ranked[@]}" 0 2 127.0.0.1:9 "$PROBE"
    check file_of_root 3 'good cannot be read: Permission denied' 1 env -u UTOFU_JOB_KEY UTOFU_JOB_KEY_FILE="$at/good" \
        "${ranked[@]}" 0 2 127.0.0.1:9 setpriv --reuid $stranger --clear-groups "$folder/probe"
    for what in 'none 2' 'other 2' 'other 3'; do
        check "stranger: $what" 0 'has another key than this one|needs a key' 1+ bash -c 'with_another "$@"' bash $what \
            setpriv --reuid $stranger --regid $stranger --clear-groups "$folder/probe"
        logged "stranger: $what" ': ok$' 2
        logged "stranger: $what" 'does not belong to the job|claims to be rank' 0
    done
    # the kernel gives the owner of a unix socket: another user is refused even with the key
    # both sides say so at once, and the second one does not wait
    check unix_socket_of_another_user 4 "rejected a connection from uid 0 \(pid [0-9]+\): this process, .* as uid $stranger" 1 \
        bash -c 'root=unix:@utofu.test.$$
        as_rank 0 2 $root as_stranger "$folder/probe" --delay 0 --wait 3600000 2>&1 &
        for ((i = 0; i < 2500; i++)); do grep -q "${root#unix:}" /proc/net/unix && break; sleep 0.02; done
        UTOFU_JOB_TIMEOUT=3600 as_rank 1 2 $root "$PROBE" --delay 0 --wait 30000; rc=$?
        pkill -P $!; wait $!; exit $rc'
    logged unix_socket_of_another_user "\(rank 0\) began as uid $stranger and this process runs as uid 0" 1
    check utofurun_of_another_user 4 "rejected a connection from uid $stranger .* utofurun runs as uid 0 \(start all" 1 \
        env UTOFU_JOB_TIMEOUT=3600 "$UTOFURUN" -n 2 \
        setpriv --reuid $stranger --regid $stranger --clear-groups "$folder/probe" --delay 0
}

# A rank that publishes an invalid address record: a process that puts to it gets an error with its
# rank, and continues. bad_records NAME command... as in: command... KIND FLAG
bad_records() {
    local kind name=$1 text
    shift
    for kind in $("$BAD_RECORD"); do
        [ "$kind" = "${left_out-}" ] && continue
        case $kind in
        newer | older) text='rank 1 runs another version of this library \(wire format [0-9]+, here [0-9]+\); use one' ;;
        other_armw) text='rank 1 executes ARMW by device, this process by CPU; set UTOFU_ARMW to one value' ;;
        garbled_address) text='rank 1 published an address that is not an address of this library; start it with' ;;
        *) text='rank 1 published [0-9]+ bytes that are not an address record of this library; start it with' ;;
        esac
        check "$name $kind" 0 "error: \\[rank 0, (process|link)\\] $text .*; it cannot be reached" 1+ "$@" "$kind" "$folder/flag"
        logged "$name $kind" '^-[0-9]+ -[0-9]+, UTOFU_ERR_MRQ_PEER .* its process has no valid address record' 1
        rm -f "$folder/flag"
    done
}

group_bad_record() {
    export UTOFU_PROVIDER=shm
    by_hand_twice() {
        as_rank 1 2 "$1" "$BAD_RECORD" "$2" "$3" &
        as_rank 0 2 "$1" "$BAD_RECORD" "$2" "$3" && wait $!
    }
    export -f by_hand_twice
    export BAD_RECORD
    bad_records folder bash -c 'by_hand_twice "$@"' by_hand "$folder"
    bad_records host:port bash -c 'by_hand_twice "$@"' by_hand "127.0.0.1:$(free_port)"
    bad_records utofurun "$UTOFURUN" -n 2 "$BAD_RECORD"
}

group_bad_record_mpich() {
    local run="${MPIEXEC_MPICH:-$(command -v mpiexec.mpich || command -v mpiexec.hydra)}"
    [ -n "$run" ] || skip 'no mpiexec of MPICH'
    export UTOFU_PROVIDER=shm
    local left_out=
    # the mpiexec of Hydra 4.2 cannot parse an empty value, and ends the job
    [[ $($run --version) =~ Version:\ +4\.[2-9] ]] && left_out=nothing
    bad_records mpich $run -n 2 "$BAD_RECORD"
}

group_bad_record_openmpi() {
    local run=$here/../harness/openmpi
    "$run" --version >/dev/null || skip 'no mpirun of Open MPI'
    $run -n 1 "$PROBE" 2>&1 | grep -q 'built without PMIx' && skip 'built without PMIx'
    export UTOFU_PROVIDER=shm
    bad_records openmpi $run -n 2 "$BAD_RECORD"
}

group_openmpi() {
    local run=$here/../harness/openmpi mpi
    "$run" --version >/dev/null || skip 'no mpirun of Open MPI'
    $run -n 1 "$PROBE" 2>&1 | grep -q 'built without PMIx' && skip 'built without PMIx'
    check without_mpi 0 '^pmix rank .* node 0/1 .*: ok$' 4 $run -n 4 "$PROBE" --layout
    check one 0 '^pmix rank 0/1 .*: ok$' 1 $run -n 1 "$PROBE" --layout
    check threads 0 '^pmix .*: ok$' 4 $run -n 4 "$PROBE" --layout --threads 8
    check other_nodes 0 '^pmix rank .* node [01]/.* local 0/1 .*: ok$' 2 $run -n 2 sh -c \
        'UTOFU_NODE=$PMIX_RANK UTOFU_LOCAL_RANK=0 UTOFU_LOCAL_SIZE=1 exec "$PROBE"'
    check utofurun_inside 0 '^utofurun rank .*: ok$' 2 $run -n 1 "$UTOFURUN" -n 2 "$PROBE"
    check stale_pmi_fd 0 '^pmix rank .*: ok$' 2 $run -n 2 env PMI_FD=77 PMI_RANK=0 PMI_SIZE=1 "$PROBE"
    $run -n 1 env | grep ^PMIX_ >"$folder/pmix_env"
    # shellcheck disable=SC2046 # words
    check launcher_is_gone 0 'job of one|^solo rank 0/1 .*: ok$' 2 env \
        $(grep -vE '[ "]' "$folder/pmix_env") "$PROBE"
    [ -n "$PROBE_OPENMPI" ] || skip 'no Open MPI to build with'
    for mpi in none before; do
        check mpi_$mpi 0 '^pmix rank .*: ok$' 4 $run -n 4 "$PROBE_OPENMPI" --layout --mpi $mpi
    done
    if [[ $("$run" --version 2>&1) != *'(Open MPI) 5'* ]]; then
        check mpi_after 0 '^pmix rank .*: ok$' 4 $run -n 4 "$PROBE_OPENMPI" --layout --mpi after
        check mpi_over 3 'MPI_Finalize has ended PMIx' 1+ $run -n 2 "$PROBE_OPENMPI" --mpi over
    else # its MPI_Init fails once PMIx is in use, and PMIx 5 can be used after MPI_Finalize
        check mpi_warned 0 'warning: .*: call MPI_Init.. before the first utofu call' 1 \
            $run -n 4 "$PROBE_OPENMPI" --layout --mpi none
        check mpi_after 14 'local rank|An error occurred in MPI_Init' 1+ $run -n 4 "$PROBE_OPENMPI" --layout --mpi after
        check mpi_over 0 '^pmix rank .*: ok$' 2 $run -n 2 "$PROBE_OPENMPI" --mpi over
    fi
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
    check utofurun_inside 0 '^utofurun rank .*: ok$' 2 $run -n 1 "$UTOFURUN" -n 2 "$PROBE"
    check launcher_that_lies 3 'PMI_RANK=5 is not below PMI_SIZE=1' 1 $run -n 1 env PMI_RANK=5 "$PROBE"
    [ -n "$PROBE_MPICH" ] || skip 'no MPICH to build with'
    for mpi in none before after; do
        check mpi_$mpi 0 '^pmi1 rank .*: ok$' 4 $run -n 4 "$PROBE_MPICH" --layout --mpi $mpi
    done
    check mpi_over 3 'MPI_Finalize has closed' 1+ $run -n 2 "$PROBE_MPICH" --mpi over
    # Slurm's pmi2 plugin is recognized by its variables
    check slurm_before_mpi 3 'must call MPI_Init before utofu' 1+ \
        $run -n 2 env -u MPI_LOCALRANKID PMI_JOBID=1 "$PROBE_MPICH" --mpi after
    check slurm_after_mpi 0 '^pmi1 rank .*: ok$' 2 \
        $run -n 2 env -u MPI_LOCALRANKID PMI_JOBID=1 "$PROBE_MPICH" --mpi before
}

# knock COMMAND...: two processes by hand, the second one below the command, put to each other
knock() {
    local root
    root=$(mktemp -d "$folder/root.XXXX")
    as_rank 0 2 "$root" "$KNOCKER" 2000 &
    as_rank 1 2 "$root" "$@" "$KNOCKER" 2000
    wait $!
}

# Namespaces of their own, as in containers: an error for every put, a line for every cause.
group_containers() {
    local namespaces
    [ -n "$KNOCKER" ] || skip 'no program'
    export -f knock
    export KNOCKER folder UTOFU_PROVIDER=shm
    check together 0 '^2000 good, 0 UTOFU_ERR_MRQ_PEER, 0 others$' 2 bash -c 'knock env'
    logged together '^utofu: ' 0
    unshare --pid --fork --net true 2>/dev/null || skip 'no namespaces can be made'
    for namespaces in PID network 'PID and network'; do
        case $namespaces in
        PID) unshare='--pid --fork' ;;
        network) unshare=--net ;;
        *) unshare='--pid --fork --net' ;;
        esac
        check "$namespaces" 0 '^0 good, 2000 UTOFU_ERR_MRQ_PEER, 0 others$' 2 \
            bash -c "knock unshare $unshare"
        # the first time, and the 10th, 100th and 1000th
        logged "$namespaces" "another container \\(another $namespaces namespace" 10
        logged "$namespaces" '\(1000 times\)$' 2
        logged "$namespaces" 'log. 2000 times in all: rank [01] is on this machine' 2
    done
}

# most FIELD: its maximum in the counters of the last checked command
most() {
    sed -n "s/^utofu: stats: .* job .* $1=\\([0-9]*\\).*/\\1/p" "$folder/out" | sort -n | tail -n 1
}

# asked NAME COUNT command...: all of 16 processes put to all others; the maximum number of
# questions of a process is COUNT; and the memory for the other processes is small.
asked() {
    local name=$1 count=$2 bytes
    shift 2
    check "$name" 0 '^rank [0-9]+ met 15$' 16 "$@" "$MEET" 15 0 "$(mktemp -d "$folder/meet.XXXX")"
    logged "$name" 'stats: .* job size=16 .* looked_up=15 questions=[0-9]+ ' 16
    bytes=$(most peer_bytes_per_rank)
    checks=$((checks + 2))
    [ "$(most questions)" = "$count" ] || fail "$name: $(most questions) questions, not $count"
    [ "${bytes:-99}" -le 56 ] || # 49 was seen: records are kept as differences, of process ids, too
        fail "$name: $bytes bytes for each process of the job"
}

all_by_hand() {
    local rank
    for rank in {1..15}; do as_rank $rank 16 "$folder/root" "$@" & done
    as_rank 0 16 "$folder/root" "$@"
    wait
}

is_openmpi_5() { # LAUNCHER
    "$1" --version | grep -q 'Open MPI) 5'
}

# two_nodes MOST COMMAND...: two nodes with four processes each, which look up all others. No
# process asks more than MOST times; or, with MOST 0, a process asks for each process of the other
# node. The records of a whole node are published a moment after the single ones, and mpirun does
# not always reach two daemons on one host: several tries.
two_nodes() {
    local most=$1 asked=
    shift
    checks=$((checks + 1))
    for _ in {1..8}; do
        timeout 60 "$@" --mca plm_rsh_agent "$here/fake_ssh.sh" -H a:4,b:4 -n 8 "$PROBE" --delay 1 --layout \
            --pause 300 --wait 5000 --meet "$(mktemp -d "$folder/meet.XXXX")" >"$folder/out" 2>&1 </dev/null
        [ "$(grep -c ': ok$' "$folder/out")" = 8 ] || continue
        if grep -q 'node 0/1 ' "$folder/out" && is_openmpi_5 "$1"; then
            echo "not tried: two nodes, as Open MPI 5 takes both names for this host"
            return
        fi
        asked=$(sed -n 's/^asked \([0-9]*\) times$/\1/p' "$folder/out" | sort -n | tail -n 1)
        [ "$most" = 0 ] && { [ "$asked" -ge 4 ] || fail "two nodes: $asked questions, not 4 or more"; return; }
        [ "$asked" -le "$most" ] && return
    done
    [ -z "$asked" ] || fail "two nodes: $asked questions, not $most at most"
}

# Processes of a node with shared memory do not ask for one another; the twins have none.
group_questions() {
    local run=$here/../harness/openmpi
    [ -n "$MEET" ] || skip 'no program'
    export UTOFU_PROVIDER=shm UTOFU_STATS=1
    asked utofurun 0 "$UTOFURUN" -n 16
    mkdir "$folder/root"
    export -f all_by_hand
    export folder
    asked folder 15 bash -c 'all_by_hand "$@"' all_by_hand
    "$run" --version >/dev/null || skip 'no mpirun of Open MPI'
    $run -n 1 "$PROBE" 2>&1 | grep -q 'built without PMIx' && skip 'built without PMIx'
    # Measured with PMIx 5.0 of Debian 13: what processes publish is not in the memory that they share
    asked openmpi "$(is_openmpi_5 "$run" && echo 15 || echo 0)" "$run" -n 16
    asked openmpi_without_shared_memory 15 env PMIX_MCA_gds=hash "$run" -n 16
    # one for the first process of the other node, one for all
    two_nodes 2 "$run"
    PMIX_MCA_gds="hash" two_nodes 0 "$run"
}

# Communications that continue without another call: see deferred.c. deferred WHERE command...
deferred() {
    local kind where wheres=$1
    shift
    for kind in session joined gate reconnect late late-delay late-posted late-armw late-session; do
        for where in $wheres; do
            check "$kind $where" 0 "^$kind $where: rank [0-2] ok$" 3 "$@" "$kind" "$where" \
                "$folder/flag"
            rm -f "$folder/flag"
        done
    done
}

group_deferred() {
    local run="${MPIEXEC_MPICH:-$(command -v mpiexec.mpich || command -v mpiexec.hydra)}"
    [ -n "$run" ] && [ -n "$DEFERRED_MPICH" ] || skip 'no MPICH'
    deferred "barrier sleep" $run -n 3 "$DEFERRED_MPICH"
    check finalize 0 'rank [0-2] ok$' 3 $run -n 3 "$DEFERRED_MPICH" session finalize "$folder/flag"
    rm -f "$folder/flag"
    # Slurm's pmi2 plugin is recognized by its variables; the one of the real Slurm is in group slurm
    deferred barrier $run -n 3 env -u MPI_LOCALRANKID PMI_JOBID=1 "$DEFERRED_MPICH"
    check mpi_uses_the_launcher 0 'rank [0-2] ok$' 3 $run -n 3 "$DEFERRED_MPICH" launcher barrier \
        "$folder/flag"
    rm -f "$folder/flag"
    export UTOFU_JOB_TIMEOUT=2
    for kind in never unshared; do
        # on one node rank 2 is found without the socket
        [ $kind = never ] || run+=" -launcher ssh -launcher-exec $here/fake_ssh.sh -hosts a:2,b:1"
        # shm: libfabric makes pairs of sockets, too
        check "$kind" 0 'rank [0-2] ok$' 3 $run -n 3 env UTOFU_PROVIDER=shm "$DEFERRED_MPICH" $kind barrier "$folder/flag"
        case $kind in
        never) logged never 'rank 1, link. rank 2 has not called the library yet; .*after 2 s' 1 ;;
        *)
            logged unshared 'launcher.s socket cannot be shared with MPI' 3
            logged unshared 'rank 1, link. rank 2 cannot be looked up while the program is in MPI' 1
            ;;
        esac
        rm -f "$folder/flag"
    done
    unset UTOFU_JOB_TIMEOUT
    run=${run%% -launcher*}
    check abort 3 'before the end$' 1+ $run -n 3 "$DEFERRED_MPICH" abort barrier "$folder/flag"
}

group_deferred_openmpi() {
    local run=$here/../harness/openmpi
    "$run" --version >/dev/null && [ -n "$DEFERRED_OPENMPI" ] || skip 'no Open MPI'
    $run -n 1 "$PROBE" 2>&1 | grep -q 'built without PMIx' && skip 'built without PMIx'
    deferred "barrier sleep" $run -n 3 "$DEFERRED_OPENMPI"
}

group_slurm() {
    local at="$folder/slurm"
    has_slurm >"$folder/slurm_lacks" || skip "$(cat "$folder/slurm_lacks")"
    [ -n "$DEFERRED_MPICH" ] || skip 'no MPICH'
    mkdir "$at"
    trap 'stop_slurm; rm -rf "$folder"' EXIT
    start_slurm "$at" || skip "Slurm does not start here: $(tail -n 2 "$at"/*.log | tr '\n' ' ')"
    run='srun --mpi=pmi2 --overcommit'
    check without_mpi 0 '^pmi1 rank .* node 0/1 .*: ok$' 3 $run -n 3 "$PROBE" --layout
    check before 0 '^pmi1 rank .*: ok$' 3 $run -n 3 "$PROBE_MPICH" --mpi before
    deferred "barrier sleep finalize" $run -n 3 "$DEFERRED_MPICH"
    [ -n "$ACP_RELAY" ] || return 0
    check acp_relay 0 'went through 3 processes and is right$' 1 $run -n 3 "$ACP_RELAY"
    check acp_counter 0 '^the counter is 150, ' 1 $run -n 3 "$ACP_COUNTER"
    check acp_without_pmi 1 'acp: .* uTofu does not see the 3 processes' 1+ \
        env UTOFU_JOB_TIMEOUT=1 srun --mpi=none --overcommit -n 3 "$ACP_RELAY"
}

run_group "$1"
