#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: check_limits.py SOURCE-FOLDER [--ignore-list]

A failing test ends by itself: each C program of tests/ includes tests/harness/limit.h, runs its processes by the
harness, which has a deadline, or sets an alarm. The programs that have none are listed here: the list only shrinks.
--ignore-list shows that the check notices them.
"""
import re
import sys
from pathlib import Path

LIMITS = ("harness.h", "limit.h", "ends.h", "peers.h", "criterion/criterion.h")

# Programs that wait for nothing.
ENDS = """abi/abi_c99.c abi/abi_layout.c abi/load_late.c abi/self_contained.c acp/table.c acp/upper.c api/job.c
    bindings/put/main.c compat/profiler.c core/print_fsm.c jtofu/loader.c order/counts.c order/lock.c order/ring.c
    order/table.c order/wait.c
    perf/sum.c prdma/late.c
    tools/late.c""".split()

# The script that starts them has a time limit, and some have to last until it ends them.
BY_SCRIPT = """adapter/daemon.c api/waits.c bootstrap/bad_record.c bootstrap/deferred.c bootstrap/job_probe.c
    bootstrap/knocker.c bootstrap/meet.c bootstrap/other_job.c bootstrap/spawn.c compat/mpi.c dump/hang.c
    fabric/with_fabric.c faults/storm.c faults/two_ends.c faults/under_fire.c rxe/silence.c rxe/survivors.c rxe/turns.c
    lives/peers.c slurm/leaving.c slurm/waiting.c soak/soak.c""".split()
# walk/walk.c has it for them.
WALKS = ["walk/walk_ofi.c", "walk/walk_shm.c", "walk/walk_udcm.c", "walk/walk_verbs.c"]
WITHOUT = [*ENDS, *BY_SCRIPT, *WALKS]


def headers_with_limits(tests):
    """Names of headers that include one that has a limit, directly or not."""
    texts = {path: path.read_text() for path in tests.rglob("*.h")}
    good, before = set(LIMITS), 0
    while len(good) != before:
        before = len(good)
        good |= {path.relative_to(tests).as_posix() for path, text in texts.items()
                 if has_limit(text, path, tests, good)}
    return good


def has_limit(text, path, tests, good):
    if re.search(r"\balarm\(", text):
        return True
    for name in re.findall(r'^#include ["<]([^">]+)[">]', text, re.M):
        beside = (path.parent / name).resolve()
        if name in LIMITS or name.rsplit("/", 1)[-1] in LIMITS:
            return True
        if beside.is_file() and beside.is_relative_to(tests) and beside.relative_to(tests).as_posix() in good:
            return True
    return False


def main():
    tests = Path(sys.argv[1]).resolve() / "tests"
    good = headers_with_limits(tests)
    without = set()
    for path in sorted(tests.rglob("*.c")):
        text = path.read_text()
        if re.search(r"^(static )?int main\(", text, re.M) and not has_limit(text, path, tests, good):
            without.add(path.relative_to(tests).as_posix())
    listed = set() if "--ignore-list" in sys.argv else set(WITHOUT)
    for name in sorted(without - listed):
        print(f"tests/{name} can wait for ever: include harness/limit.h")
    for name in sorted(listed - without):
        print(f"tests/{name} has a limit now: remove it from the list of tests/tools/check_limits.py")
    return without != listed


if __name__ == "__main__":
    sys.exit(main())
