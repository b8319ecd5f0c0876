#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The bad twin of scripts/wraps: counters that the table lacks, and rows that are wrong, are noticed. Usage: planted.sh PYTHON
# SCRIPT
set -u
python=$1 script=$2 failed=0
root=$(cd "$(dirname "$script")/.." && pwd)
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT

start() {
    rm -rf "$tmp/tree"
    mkdir -p "$tmp/tree"
    (cd "$root" && find src provider layers tests/wraps tests/prdma/counters.c tests/provider -name '*.[ch]' -o -name '*.toml' -o \
        -path 'tests/wraps/*' -type f) | (cd "$root" && tar cf - -T -) | tar xf - -C "$tmp/tree"
}

# gap WHAT TEXT: the tree fails with TEXT
gap() {
    if "$python" "$script" --root "$tmp/tree" >"$tmp/out" 2>&1; then
        echo "FAIL: $1: was not noticed"
        failed=1
    elif ! grep -qF -- "$2" "$tmp/out"; then
        echo "FAIL: $1: not reported as \"$2\" but as:"
        cat "$tmp/out"
        failed=1
    fi
}

start
"$python" "$script" --root "$tmp/tree" >"$tmp/out" 2>&1 || { echo 'FAIL: the tree as it is does not pass:'; cat "$tmp/out"; failed=1; }

# counter NAME TYPE STATEMENT: a field of a structure of its own, and what makes it grow
counter() {
    start
    cat >"$tmp/tree/src/link/planted.c" <<END
#include "link/link.h"
struct planted {
    struct ut_link *link;
    $2 $1;
};
void ut_planted(struct planted *p);
void ut_planted(struct planted *p)
{
    $3
}
END
}

counter times uint32_t 'p->times++;'
gap 'a counter of 32 bits' 'src/link/planted.c:4: planted.times has 32 bits, grows at src/link/planted.c:9, and has no row'
counter times uint16_t 'p->times += 2;'
gap 'a counter of 16 bits' 'planted.times has 16 bits'
counter times 'unsigned int' '__atomic_fetch_add(&p->times, 1, __ATOMIC_RELAXED);'
gap 'an atomic counter' 'planted.times has 32 bits'
counter times 'uint8_t' '__atomic_store_n(&p->times, p->times + 1, __ATOMIC_RELAXED);'
gap 'a counter that is stored' 'planted.times has 8 bits'
counter last_serial uint16_t 'p->last_serial = p->link->serial;'
gap 'a copy of a counter' 'planted.last_serial has 16 bits'

counter times uint64_t 'p->times++;'
"$python" "$script" --root "$tmp/tree" >"$tmp/out" 2>&1 || { echo 'FAIL: a counter of 64 bits does not pass:'; cat "$tmp/out"; failed=1; }

# row FROM TO: of the table
row() {
    start
    sed -i "s|$1|$2|" "$tmp/tree/tests/wraps/counters.toml"
}

row "meson.build: 'shm_circuits'" "meson.build: 'no_such_test'"
gap 'a test that is not there' "tests/wraps/meson.build has no \"'no_such_test'\""
row 'tests/prdma/counters.c: toq_tail' 'tests/prdma/none.c: toq_tail'
gap 'a file that is not there' 'there is no tests/prdma/none.c'
row '^bits = 16' 'bits = 32'
gap 'another width' 'has 16 bits, not 32'
row 'ut_gate.serial' 'ut_gate.no_serial'
gap 'a field that is not there' 'has no such field'
row '^tests = .*' ''
gap 'a counter without a test' 'no test goes over the wrap'
exit $failed
