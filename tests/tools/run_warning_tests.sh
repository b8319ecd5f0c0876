#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run_warning_tests.sh GROUP: the library's messages on standard error at the default log level.
# INFO, UTOFURUN and PERF name the programs, EXAMPLES the folder of the built examples, PROFILE the
# seccomp profile, for with_seccomp.py, which stands for a container.

: "${INFO:?names utofu-info}" "${UTOFURUN:?names utofurun}" "${PERF:?names utofu-perf}"
: "${EXAMPLES:?names the folder of the examples}"
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
failures=0
checks=0
trap 'rm -rf "$folder"' EXIT
unset "${!UTOFU_@}" # an outer job's variables must not count
# MPI libraries leak memory at exit
export ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}

# shellcheck source=tests/harness/checks.sh
. "$(dirname "$0")/../harness/checks.sh"

# lines NAME PATTERN COUNT command...: it succeeds; COUNT of its lines match
lines() {
    local name=$1 pattern=$2 count=$3
    shift 3
    check "$name" 0 "$pattern" "$count" "$@"
}

# Sets `launchers` to the launchers of jobs found on this machine.
find_launchers() {
    launchers=("$UTOFURUN")
    if command -v mpirun.openmpi >/dev/null; then launchers+=("$here/../harness/openmpi"); fi
    if command -v mpiexec.mpich >/dev/null; then launchers+=(mpiexec.mpich); fi
}

# On a kernel or in a container without userfaultfd the warning is right.
mapping_works() {
    UTOFU_PROVIDER=shm "$INFO" | grep -q 'shared memory, mapped'
}

group_silence() {
    local launch name
    mapping_works || export UTOFU_SHM_MAP=0
    find_launchers
    for launch in "${launchers[@]}"; do
        # shellcheck disable=SC2086 # the launcher's options are words
        lines "${launch%% *} utofu-info" '^utofu: ' 0 $launch -n 4 "$INFO"
        # shellcheck disable=SC2086
        lines "${launch%% *} utofu-perf" '^utofu: ' 0 $launch -n 2 "$PERF" --quiet -s 8 -n 100 put-lat armw-lat
    done
    for name in pingpong_notice:2 pingpong_memory:2 progress_by_get:3 reserved_stag:4 halo_exchange:4; do
        lines "${name%:*}" '^utofu: ' 0 "$UTOFURUN" -n "${name#*:}" "$EXAMPLES/${name%:*}"
    done
    lines barrier_sum '^utofu: ' 0 "$UTOFURUN" -n 5 "$EXAMPLES/barrier_sum" tree
    lines two_nodes '^utofu: ' 0 "$UTOFURUN" -n 4 --nodes 2 "$EXAMPLES/halo_exchange"
    if [ -x "$EXAMPLES/pingpong_mpi.openmpi" ]; then
        # shellcheck disable=SC2086
        lines mpi_openmpi '^utofu: ' 0 ${launchers[1]} -n 2 "$EXAMPLES/pingpong_mpi.openmpi"
    fi
    if [ -x "$EXAMPLES/pingpong_mpi.mpich" ]; then
        lines mpi_mpich '^utofu: ' 0 mpiexec.mpich -n 2 "$EXAMPLES/pingpong_mpi.mpich"
    fi
    # a message of the default level is printed
    lines not_deaf '^utofu: warning: \[rank ., bootstrap\] srun started 2 tasks' 1 \
        env SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 "$INFO"
    lines not_twice '^utofu: ' 0 env SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 "$INFO"
}

group_unknown() {
    local launch
    mapping_works || export UTOFU_SHM_MAP=0
    find_launchers
    for launch in "${launchers[@]}"; do
        # shellcheck disable=SC2086
        lines "once_a_job ${launch%% *}" \
            '^utofu: warning: .*UTOFU_LOGLEVEL \(did you mean UTOFU_LOG_LEVEL\?\)' 1 \
            env UTOFU_LOGLEVEL=info $launch -n 3 "$INFO"
    done
    lines alone '^utofu: warning: .*UTOFU_PROVDER \(did you mean UTOFU_PROVIDER\?\)' 1 \
        env UTOFU_PROVDER=shm "$INFO"
    lines all_in_one_line '^utofu: .* name: UTOFU_SIZES \(did.*\), UTOFU_PROVDER \(did' 1 \
        env -i UTOFU_SIZES=1 UTOFU_PROVDER=shm "$INFO"
    # shellcheck disable=SC2046 # words
    lines many '^utofu: ' 1 env $(printf 'UTOFU_PROVIDER%s=1 ' {1..99}) "$INFO"
    # variables of the program
    lines programs_own '^utofu: ' 0 env UTOFU_PROBE_DIR=/x UTOFU_MYAPP_LEVEL=1 "$INFO"
    lines programs_own_in_the_list 'UTOFU_PROBE_DIR' 0 env UTOFU_PROBE_DIR=/x "$INFO" -e
    lines known '^utofu: ' 0 env UTOFU_LOG_LEVEL=warning UTOFU_PROVIDER=shm "$INFO"
    lines of_others '^utofu: ' 0 env UTOFU_DIR=/opt UTOFU_VERBS_ROOT=/opt UTOFUX=1 "$INFO"
    lines silenced '^utofu: ' 0 env UTOFU_PROVDER=shm UTOFU_LOG_LEVEL=error "$INFO"
    lines in_the_list '^UTOFU_PROVDER=shm +\(unknown; did you mean UTOFU_PROVIDER\?\)$' 1 \
        env UTOFU_PROVDER=shm "$INFO" -e
    lines not_in_the_list 'unknown' 0 env UTOFU_PROVIDER=shm "$INFO" -e
    # a misspelt variable of the job: there is no job, and each process reports the variable
    UTOFU_RNK=1 UTOFU_SIZE=2 "$INFO" >"$folder/out" 2>&1
    grep -q 'did you mean UTOFU_RANK?' "$folder/out" || fail 'no job: the misspelt name is reported'
}

# "${confined[@]}" [--without CALL]... command...: as in a container with our profile, less these
# calls
confined=("$PYTHON" "$here/with_seccomp.py" --profile "$PROFILE")

needs_filters() {
    "${confined[@]}" true >"$folder/out" 2>&1 && return
    [ $? = 77 ] && { cat "$folder/out"; exit 77; }
    fail 'the profile cannot be used'
    exit 1
}

# One line reports the loss, its size and the remedy, unless the user chose the setting.
group_mapping() {
    local forbidden='^utofu: warning: \[rank 0, shm\] .* instead of 0.05.*userfaultfd is forbidden.*--security-opt seccomp=/.*/utofu-verbs/seccomp.json'
    needs_filters
    mapping_works || { echo 'skipped: no memory can be mapped here'; exit 77; }
    lines with_profile 'shared memory, mapped' 1 "${confined[@]}" "$INFO"
    lines with_profile_silent '^utofu: ' 0 "${confined[@]}" "$UTOFURUN" -n 3 "$INFO"
    lines default_profile 'shared memory, mapped' 0 "${confined[@]}" --without userfaultfd "$INFO"
    lines once_a_node "$forbidden" 1 "${confined[@]}" --without userfaultfd "$UTOFURUN" -n 3 "$INFO"
    lines nothing_else '^utofu: ' 1 "${confined[@]}" --without userfaultfd "$UTOFURUN" -n 3 "$INFO"
    lines wanted '^utofu: ' 0 \
        env UTOFU_SHM_MAP=0 "${confined[@]}" --without userfaultfd "$UTOFURUN" -n 3 "$INFO"
    lines job_of_one '^utofu: ' 0 "${confined[@]}" --without userfaultfd "$INFO"
    lines still_works '^utofu: ' 1 "${confined[@]}" --without userfaultfd "$UTOFURUN" -n 2 "$EXAMPLES/pingpong_notice"
    lines file_size '^utofu: warning: .*sparse memfd.*ulimit -f unlimited' 1 \
        bash -c 'ulimit -f 1000000; "$UTOFURUN" -n 2 "$INFO"'
    lines checked '^ok +mapped memory: works' 1 "${confined[@]}" "$INFO" --check
    lines checked_refused '^note +mapped memory: userfaultfd is forbidden \(Operation not' 1 \
        "${confined[@]}" --without userfaultfd "$INFO" --check
    lines checked_remedy 'seccomp=/.*/utofu-verbs/seccomp.json' 1 "${confined[@]}" --without userfaultfd "$INFO" --check
    lines checked_cost ' 0\.05,' 1 "${confined[@]}" --without userfaultfd "$INFO" --check
    lines checked_rings '^note +cross-memory attach: is forbidden' 1 \
        "${confined[@]}" --without process_vm_readv --without process_vm_writev "$INFO" --check
}

# The profile allows every call that the library makes; the defaults lack userfaultfd alone.
group_profile() {
    local trace=$folder/trace.
    needs_filters
    mapping_works || { echo 'skipped: no memory can be mapped here'; exit 77; }
    command -v strace >/dev/null || { echo 'skipped: there is no strace'; exit 77; }
    strace -f -qq -o "$folder/t" true 2>/dev/null && [ -s "$folder/t" ] ||
        { echo 'skipped: strace cannot trace here'; exit 77; }
    strace -f -qq -o "$trace"1 "$UTOFURUN" -n 2 "$EXAMPLES/pingpong_notice" >/dev/null 2>&1
    UTOFU_SHM_MAP=0 strace -f -qq -o "$trace"2 "$UTOFURUN" -n 2 "$PERF" --quiet -s 8,64K -n 100 put-lat >/dev/null 2>&1
    strace -f -qq -o "$trace"3 "$INFO" --check >/dev/null 2>&1
    cat "$trace"? >"$folder/trace"
    grep -q process_vm_writev "$folder/trace" || fail 'strace saw no process_vm_writev'
    lines allowed . 0 "${confined[@]}" --check "$folder/trace"
    lines default_lacks '^userfaultfd$' 1 "${confined[@]}" --without userfaultfd --check "$folder/trace"
    # a call that the profile does not allow is found, and so is a broken profile
    echo '1 kexec_load(1) = 0' >>"$folder/trace"
    "${confined[@]}" --check "$folder/trace" >"$folder/out" 2>&1
    grep -q 'not allowed, and made: kexec_load' "$folder/out" || fail 'kexec_load is not refused'
    sed 's/"userfaultfd"/"userfautfd"/' "$PROFILE" >"$folder/bad.json"
    "$PYTHON" "$here/with_seccomp.py" --profile "$folder/bad.json" true >"$folder/out" 2>&1
    grep -q 'there is no system call userfautfd' "$folder/out" || fail 'a name that is none'
    # userfaultfd for faults of user mode only
    case $(uname -m) in
    x86_64) userfaultfd=323 ;;
    *) userfaultfd=282 ;; # the numbers of all newer machines
    esac
    "${confined[@]}" "$PYTHON" -c 'import ctypes, sys
fd = ctypes.CDLL(None, use_errno=True).syscall(int(sys.argv[1]), 0)
sys.exit(0 if fd < 0 else 1)' "$userfaultfd" || fail 'userfaultfd of the kernel'"'"'s faults is allowed'
}

run_group "$1"
