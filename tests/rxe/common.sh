# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# What the scripts of this folder share.

need_qemu() {
    # UT_TESTS_UNTIL: seconds since the epoch, of scripts/run-tests
    if [ -n "${UT_TESTS_UNTIL:-}" ] && [ "$(date +%s)" -ge "$UT_TESTS_UNTIL" ]; then
        echo "skipped: its time had run out: see run-tests --minutes"
        exit 77
    fi
    command -v qemu-system-x86_64 >/dev/null && return
    echo "skipped: qemu-system-x86_64 is not installed (scripts/install-deps installs it)"
    exit 77
}

# UT_TEST_RXE=no: the machines have no RDMA device
rxe=
# shellcheck disable=SC2034 # for the scripts
[ "${UT_TEST_RXE:-yes}" = yes ] || rxe=--no-rxe

# An emulated machine is slow: longer deadlines, and fewer rounds where tests count.
guest_options='--env UT_TEST_TIMEOUT_SCALE=10'
for count in FUZZ_OPS=2000 FUZZ_PROCS=6 ARMW_OPS=1000 ARMW_LOCK_ROUNDS=20 ORDER_EPOCHS=6 SESSION_GRAPHS=10 \
    SESSION_ROUNDS=20 RING_LAPS=50 THREADS_OPS=300 BARRIER_ROUNDS=10 BARRIER_CIRCUITS=5 REREGISTRATIONS=30 \
    LEAVING_ROUNDS=30 STRESS_NOTICES=1000000 FAULTS_EVERY=80 FAULTS_SCALE=2 \
    KILLS_RANKS=20 KILLS_LAUNCHERS=10 KILLS_TIMEOUT=40 STORM_PROCESSES=16 STORM_TIMES=1; do
    name=UT_${count%=*}
    eval "value=\${$name:-${count#*=}}"
    guest_options="$guest_options --env $name=$value"
done
for name in UT_ARMW_MODE UT_CHECK_SLOW UT_CHECK_ENV; do
    eval "value=\${$name:-}"
    [ -z "$value" ] || guest_options="$guest_options --env $name=$value"
done
