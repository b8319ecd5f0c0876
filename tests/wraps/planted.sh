#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The bad twin of scripts/wraps: counters that the table lacks are noticed, and rows that are wrong. Usage: planted.sh PYTHON
# SCRIPT
set -u
python=$1 script=$2 failed=0
root=$(cd "$(dirname "$script")/.." && pwd)
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
tree=$tmp/tree

start() {
    rm -rf "$tree"
    mkdir -p "$tree/tests"
    cp -r "$root/src" "$root/provider" "$root/layers" "$tree" || exit 2
    cp -r "$root/tests/wraps" "$root/tests/prdma" "$root/tests/provider" "$tree/tests" || exit 2
}

# run: the tree does not pass
run() {
    if "$python" "$script" --root "$tree" >"$tmp/out" 2>&1; then
        echo "FAIL: $1: nothing was noticed"
        failed=1
    fi
}

# says TEXT
says() {
    grep -qF -- "$1" "$tmp/out" || { echo "FAIL: not reported: $1; but:"; cat "$tmp/out"; failed=1; }
}

start
cat >"$tree/src/link/planted.c" <<'END'
#include "link/link.h"
struct planted {
    struct ut_link *link;
    uint32_t plain;
    uint16_t by_two;
    unsigned int atomic;
    uint8_t stored;
    uint16_t copy;
    uint32_t computed;
    uint64_t wide;
    uint32_t level;
};
void ut_planted(struct planted *p);
void ut_planted(struct planted *p)
{
    ++p->plain;
    p->by_two += 2;
    __atomic_fetch_add(&p->atomic, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&p->stored, p->stored + 1, __ATOMIC_RELAXED);
    p->copy = p->link->serial;
    p->computed = p->computed ? p->computed + 1 : 1;
    p->wide++;
    p->level++;
    p->level--;
}
END
run 'planted counters'
for counter in 'plain has 32' 'by_two has 16' 'atomic has 32' 'stored has 8' 'copy has 16' 'computed has 32'; do
    says "planted.$counter bits, grows at src/link/planted.c:"
done
[ "$(grep -c . "$tmp/out")" = 6 ] || { echo 'FAIL: something else is reported:'; cat "$tmp/out"; failed=1; }

start
sed -i -e "s|meson.build: 'shm_circuits'|meson.build: 'no_such_test'|" \
    -e 's|tests/prdma/counters.c: toq_tail|tests/prdma/none.c: toq_tail|' -e 's|^bits = 16|bits = 17|' \
    -e 's|"ut_gate.serial"|"ut_gate.no_serial"|' -e '/wraps_lapi_/d' "$tree/tests/wraps/counters.toml"
run 'wrong rows'
says "tests/wraps/meson.build has no \"'no_such_test'\""
says 'there is no tests/prdma/none.c'
says 'has 16 bits, not 17'
says 'ut_gate.no_serial: src/barrier/inner.h has no such field'
says 'ut_gate.serial has 32 bits'
says 'la_peer.fence: no test goes over the wrap'
exit $failed
