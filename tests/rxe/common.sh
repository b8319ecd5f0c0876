# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# What the scripts of this folder share.

need_qemu() {
    command -v qemu-system-x86_64 >/dev/null && return
    echo "skipped: qemu-system-x86_64 is not installed (scripts/install-deps installs it)"
    exit 77
}

# An emulated machine is slow: longer deadlines, and fewer rounds where tests count.
patience='--env UT_TEST_TIMEOUT_SCALE=10'
for count in FUZZ_OPS=2000 ARMW_OPS=1000 ARMW_LOCK_ROUNDS=20 ORDER_EPOCHS=6 SESSION_GRAPHS=10 \
    SESSION_ROUNDS=20 RING_LAPS=50 THREADS_OPS=300 GATE_ROUNDS=10 GATE_CIRCUITS=5 REREGISTRATIONS=30 \
    LEAVING_ROUNDS=30 STRESS_NOTICES=1000000; do
    name=UT_${count%=*}
    eval "value=\${$name:-${count#*=}}"
    patience="$patience --env $name=$value"
done
[ -z "${UT_ARMW_MODE:-}" ] || patience="$patience --env UT_ARMW_MODE=$UT_ARMW_MODE"
