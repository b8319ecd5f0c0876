#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Jobs of a real Slurm with two hosts, which scripts/slurm-hosts starts; this runs on the first.
# Usage: run_slurm_tests.sh start SLURM-HOSTS BUILD-FOLDER [CASE]...
#        run_slurm_tests.sh BUILD-FOLDER [CASE]...      on the first host
# UT_SLURM_OPTIONS has options for slurm-hosts, such as --suite trixie.
set -u
if [ "$1" = start ]; then
    hosts=$2 build=$3
    shift 3 # a tree without git, too, such as a release's or scripts/mutate's
    # shellcheck disable=SC2086 # several, or none
    "$hosts" ${UT_SLURM_OPTIONS-} --share "$(dirname "$0")/../.." --share "$build" --timeout 0 -- "$0" "$build" "$@" 2>&1
    rc=$?
    [ $rc != 77 ] || echo "skipped: no Slurm of two hosts can be started here"
    exit $rc
fi
build=$1
shift
log=$(mktemp)
failures=0 passed=0
shared=$SLURM_HOSTS_SHARED
export UTOFU_JOB_TIMEOUT=${UTOFU_JOB_TIMEOUT:-60} UTOFU_LOG_LEVEL=warning

fail() { # TEXT
    echo "FAILED: $case: $1"
    tail -n 12 "$log" | sed 's/^/    /'
    failures=$((failures + 1))
    return 1
}

# Runs a command whose output the next lines look at; an exit status of 124: it did not end.
try() { # SECONDS COMMAND [ARGUMENT]...
    local seconds=$1
    shift
    timeout -k 5 "$((seconds * ${UT_TEST_TIMEOUT_SCALE:-1}))" "$@" >"$log" 2>&1 </dev/null
}

expect() { # PATTERN [COUNT]: lines with it
    local found
    found=$(grep -Ec -- "$1" "$log")
    if [ -n "${2:-}" ]; then
        [ "$found" = "$2" ] || fail "$found lines, not $2, have: $1"
    else
        [ "$found" -gt 0 ] || fail "no line has: $1"
    fi
}

expect_not() { # PATTERN
    ! grep -Eq -- "$1" "$log" || fail "a line has: $1"
}

# After each test: no job, no process and no file on either host. The job's last step may still be ending.
# shellcheck disable=SC2016 # for the shells on the hosts
left_behind='
for ((i = 0; i < 50; i++)); do
    left=$(ps -eo args | grep -F "$0/" | grep -v -e run_slurm_tests -e grep -e "bash -c"; ls -A /dev/shm)
    [ -z "$left" ] && exit 0
    sleep 0.1
done
echo "$(hostname) has left: $left"
exit 1'
end_jobs() {
    local job
    for job in $(squeue -h -o %i); do scancel -s KILL "$job"; done
}

expect_nothing_left() {
    local i
    for ((i = 0; i < 100; i++)); do
        [ -z "$(squeue -h)" ] && break
        sleep 0.1
    done
    squeue -h >"$log"
    [ ! -s "$log" ] || fail "jobs are left"
    end_jobs
    try 30 srun --mpi=none -N 2 -n 2 bash -c "$left_behind" "$build" || fail "something is left behind"
}

# Sums over a circuit of N processes, started by srun with the options.
sums() { # N SRUN-OPTION...
    local n=$1
    shift
    try 60 srun -n "$n" "$@" "$build/examples/barrier_sum" butterfly || fail "exit status $?"
    expect "sums over a butterfly of $n processes"
}

# Rounds between two processes, by a command that starts them.
rounds() { # COMMAND...
    try 60 "$@" || fail "exit status $?"
    expect 'rank [01]: 1000 rounds' 2
}

## Launchers ----------------------------------------------------------------------------------

pmix() {
    sums 4 --mpi=pmix -N 2
    rounds srun --mpi=pmix -N 2 -n 2 "$build/examples/pingpong_notice"
}

pmi2() {
    sums 4 --mpi=pmi2 -N 2
    rounds srun --mpi=pmi2 -N 2 -n 2 "$build/examples/pingpong_notice"
}

none_with_root() {
    UTOFU_JOB_KEY=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    export UTOFU_JOB_KEY
    UTOFU_ROOT=host0:20711 rounds srun --mpi=none -N 2 -n 2 "$build/examples/pingpong_notice"
    mkdir "$shared/root"
    UTOFU_ROOT=$shared/root sums 4 --mpi=none -N 2
    rm -rf "$shared/root"
    unset UTOFU_JOB_KEY
}

## Distributions ------------------------------------------------------------------------------

cyclic() {
    sums 4 --mpi=pmix -N 2 -m cyclic
    sums 4 --mpi=pmi2 -N 2 -m cyclic
}

# Rank 0 is on the second host.
arbitrary() {
    printf 'host1\nhost0\nhost1\n' >"$shared/hostfile"
    export SLURM_HOSTFILE=$shared/hostfile
    sums 3 --mpi=pmix -m arbitrary
    sums 3 --mpi=pmi2 -m arbitrary
    unset SLURM_HOSTFILE
}

overcommit() {
    sums 12 --mpi=pmix -N 2 -O
}

# shellcheck disable=SC2016 # for the shell of the batch job
side_by_side() {
    try 90 salloc -N 2 -n 4 bash -c '
        for k in 1 2; do srun --exact --mpi=pmix -N 2 -n 2 "$0/examples/pingpong_notice" & pids+=($!); done
        for pid in "${pids[@]}"; do wait "$pid" || exit; done' "$build" || fail "exit status $?"
    expect 'rank [01]: 1000 rounds' 4
}

## MPI libraries ------------------------------------------------------------------------------

batch() { # LINE
    printf '#!/bin/bash\n#SBATCH -N 2 -n 2\n%s\n' "$1" >"$shared/script"
    rm -f "$shared/out"
    try 90 sbatch --wait -o "$shared/out" "$shared/script" || fail "sbatch: exit status $?"
    cp "$shared/out" "$log"
    expect 'rank [01]: 1000 rounds' 2
}

openmpi() {
    batch "mpirun.openmpi $build/examples/pingpong_mpi.openmpi"
    rounds srun --mpi=pmix -N 2 -n 2 "$build/examples/pingpong_mpi.openmpi"
}

# MPICH 4.0 over UCX may wait for itself in MPI_Finalize: a process in the barrier of PMI does not answer another one's
# ucp_disconnect_nb() (mpich pull request 6596 removes that barrier). Three jobs do not all meet that.
mpich() {
    local attempt
    for attempt in 1 2 3; do
        try 30 sbatch --wait -N 2 -n 2 -o "$shared/out" --wrap "mpiexec.mpich $build/examples/pingpong_mpi.mpich" && break
        end_jobs
        [ $attempt -lt 3 ] || fail "sbatch: exit status not 0, three times"
    done
    cp "$shared/out" "$log"
    expect 'rank [01]: 1000 rounds' 2
    rounds srun --mpi=pmi2 -N 2 -n 2 "$build/examples/pingpong_mpi.mpich"
}

## Ends ---------------------------------------------------------------------------------------

# Starts four processes on two hosts that wait for each other without end; true once they do.
start_waiting() {
    local i
    rm -rf "$shared/waiting"
    mkdir "$shared/waiting"
    srun --mpi=pmix -N 2 --ntasks-per-node=2 -l "$build/tests/slurm/waiting" "$shared/waiting" >"$log" 2>&1 </dev/null &
    srun=$!
    for ((i = 0; i < 600; i++)); do
        (($(find "$shared/waiting" -size +0 -type f | wc -l) == 4)) && return
        kill -0 "$srun" 2>/dev/null || break
        sleep 0.1
    done
    fail "the processes do not wait for each other"
}

# Waits for the end of srun, at most SECONDS; returns its exit status.
wait_for_srun() { # SECONDS
    local i
    for ((i = 0; i < 10 * $1 * ${UT_TEST_TIMEOUT_SCALE:-1}; i++)); do
        kill -0 "$srun" 2>/dev/null || break
        sleep 0.1
    done
    if kill -0 "$srun" 2>/dev/null; then
        fail "the job has not ended after $1 s"
        end_jobs
        kill -KILL "$srun"
    fi
    wait "$srun"
}

# PMIx of Slurm ends the others, or they say who has ended.
killed_rank() {
    start_waiting || return
    srun --mpi=none --overlap --jobid "$(squeue -h -o %i)" -w host1 -n 1 kill -KILL "$(cat "$shared/waiting/3")"
    wait_for_srun 40 && fail "exit status 0"
    expect 'host1: task 3: Killed'
    expect 'Job step aborted|^0: rank 0: rank 3 has ended or cannot be reached'
}

scancelled() {
    start_waiting || return
    scancel "$(squeue -h -o %i)"
    wait_for_srun 40 && fail "exit status 0"
    expect 'CANCELLED'
}

# A process and its host's PMIx server end before another process asks for the first time, and before it has called the
# library.
left_early() {
    local mpi seconds
    for mpi in pmix pmi2; do
        for seconds in '0 1' '2 1'; do
            # shellcheck disable=SC2086 # two arguments
            try 60 srun "--mpi=$mpi" -N 2 -n 2 "$build/tests/slurm/leaving" $seconds || fail "$mpi $seconds: exit status $?"
            expect 'the put has returned -[0-9]+ after .*: its process has ended$' 1
        done
    done
    try 60 srun --mpi=pmix -N 2 --ntasks-per-node=4 -O "$build/tests/slurm/leaving" 1 1 || fail "exit status $?"
    expect 'the put has returned -[0-9]+ after .*: its process has ended$' 1
}

# The same without the launcher's help: with UTOFU_ROOT. A folder tells of the process however long before it has ended;
# the folder is empty in the end.
left_early_with_root() {
    local seconds
    UTOFU_JOB_KEY=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    export UTOFU_JOB_KEY
    for seconds in '0 1' '2 1'; do
        # shellcheck disable=SC2086 # two arguments
        UTOFU_ROOT=host0:20711 try 60 srun --mpi=none -N 2 -n 2 "$build/tests/slurm/leaving" $seconds || fail "$seconds: exit status $?"
        expect 'the put has returned -[0-9]+ after .*: its process has ended$' 1
    done
    for seconds in '0 2' '3 1'; do
        mkdir "$shared/root"
        # shellcheck disable=SC2086 # two arguments
        UTOFU_ROOT=$shared/root try 60 srun --mpi=none -N 2 -n 2 "$build/tests/slurm/leaving" $seconds || fail "folder $seconds: exit status $?"
        expect 'the put has returned -[0-9]+ after .*: its process has ended$' 1
        rmdir "$shared/root" || fail "folder $seconds: files are left"
        rm -rf "$shared/root"
    done
    unset UTOFU_JOB_KEY
}

# What nobody knows is told as such: a process that has ended more than 5 s before rank 0 called the library. Not one of
# all_cases, as Slurm's PMIx server stands still for half a minute.
left_unknown() {
    UTOFU_JOB_KEY=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    export UTOFU_JOB_KEY
    UTOFU_JOB_TIMEOUT=9 UTOFU_ROOT=host0:20711 try 60 srun --mpi=none -N 2 -n 2 -l "$build/tests/slurm/leaving" 8 1 && fail "exit status 0"
    expect '^1: .*the end of this process waits at most 2 s more for rank 0, which does not serve this job yet'
    expect '^0: .*rank 1 is still unknown after 3 s: that rank has not contacted rank 0, .*, or it had ended before rank 0 called'
    unset UTOFU_JOB_KEY
    UTOFU_JOB_TIMEOUT=4 try 90 srun --mpi=pmix -N 2 -n 2 -l "$build/tests/slurm/leaving" 8 1
    expect '^0: .*the PMIx server of this node has not answered for 3 s: Slurm.s does so .* all processes of another host'
}

## What users get wrong ---------------------------------------------------------------------

# Without --mpi each process is a job of one. All say so, and none waits for the others.
without_mpi() {
    try 15 srun --mpi=none -N 2 -n 2 "$build/examples/pingpong_notice" && fail "exit status 0"
    expect '^rank [01]: the library sees 1 of the 2 processes .*--mpi=pmix or --mpi=pmi2' 2
}

# The second host has no libfabric: its processes say so at once, and rank 0, too, which waits for them.
# shellcheck disable=SC2016 # for the shells on the hosts
no_libfabric() {
    cat >"$shared/without" <<'END'
#!/bin/bash
[ "$(hostname)" = host1 ] || exec "$@"
exec unshare --mount bash -c 'for file in /usr/lib/*/libfabric.so.1; do mount --bind /dev/null "$file"; done; exec "$@"' without "$@"
END
    chmod +x "$shared/without"
    try 60 srun --mpi=pmix -N 2 --ntasks-per-node=2 -l "$shared/without" "$build/examples/barrier_sum" && fail "exit status 0"
    expect '^0: utofu: error: .*rank 2 is on another host \(node 1\) and has no fabric of libfabric.*package libfabric1'
    expect '^0: rank 0: rank 2 has ended or cannot be reached'
    local rank
    for rank in 2 3; do
        expect "^$rank: utofu: error: .*rank 0 is on another host \\(node 0\\), and this process \\(on host1\\) has no .*package libfabric1"
        expect "^$rank: rank $rank: put to rank 0: UTOFU_ERR_MRQ_PEER"
    done
    expect_not 'has not come in'
    [ "$(wc -l <"$log")" -lt 24 ] || fail "more than a few lines"
    rm "$shared/without"
}

# Shared memory alone on two hosts: both say so.
only_shm() {
    UTOFU_PROVIDER=shm try 60 srun --mpi=pmix -N 2 -n 2 -l "$build/examples/pingpong_notice" && fail "exit status 0"
    expect '^0: utofu: error: .*rank 1 is on another host \(node 1\), which UTOFU_PROVIDER=shm of this process does not reach'
    expect '^1: utofu: error: .*rank 0 is on another host \(node 0\), which UTOFU_PROVIDER=shm of this process does not reach'
    expect_not 'has not come in'
}

## The checks of utofu-info -------------------------------------------------------------------

# Each host has one process, and Slurm stops answering for a host whose processes have ended.
check() {
    local i
    for i in 1 2 3; do
        try 60 srun --mpi=pmix -N 2 -n 2 "$build/tools/utofu-info" --check || fail "pmix: exit status $?"
        expect_not 'FAIL'
    done
    try 60 srun --mpi=pmi2 -N 2 -n 2 "$build/tools/utofu-info" --check || fail "pmi2: exit status $?"
    expect_not 'FAIL'
}

# One summary has the counters of both hosts.
summary_of_job() {
    local mpi
    for mpi in pmix pmi2; do
        UTOFU_STATS=job try 60 srun "--mpi=$mpi" -N 2 -n 2 "$build/examples/barrier_sum" || fail "$mpi: exit status $?"
        expect 'stats: summary of 2 of 2 ranks' 1
        expect_not 'missing'
    done
}

all_cases=(pmix pmi2 none_with_root cyclic arbitrary overcommit side_by_side openmpi mpich killed_rank scancelled
    left_early left_early_with_root without_mpi no_libfabric only_shm check summary_of_job)

for case in "${@:-${all_cases[@]}}"; do
    before=$failures started=$EPOCHREALTIME
    "$case"
    expect_nothing_left
    if [ "$failures" = "$before" ]; then
        passed=$((passed + 1))
        echo "ok: $case ($(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $started }") s)"
    fi
done
echo "$passed passed, $failures failed"
[ "$failures" = 0 ]
