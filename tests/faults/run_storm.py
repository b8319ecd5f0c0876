#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""First contacts between all processes, in which some processes call the library late, some never,
and some are killed, one at each step: the others get the correct result for each, and continue.
See storm.c."""

import argparse
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--program", required=True, help="tests/faults/storm")
parser.add_argument("--processes", type=int, default=16)
parser.add_argument("--endings", default="ln01234567", metavar="ROLES",
                    help="what becomes of those that do not stay: see storm.c")
parser.add_argument("--times", type=int, default=1, metavar="N", help="of each of --endings")
parser.add_argument("--limit", type=float, default=120, help="seconds that it may take")
parser.add_argument("--job-timeout", type=float, default=8, help="UTOFU_JOB_TIMEOUT, in seconds")
parser.add_argument("--seed", type=int, default=None)
args = parser.parse_args()
args.processes = int(os.environ.get("UT_STORM_PROCESSES") or args.processes)
args.times = int(os.environ.get("UT_STORM_TIMES") or args.times)
scale = float(os.environ.get("UT_TEST_TIMEOUT_SCALE", "1"))
seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
roles = list((args.endings * args.times).ljust(args.processes, "s"))
if len(roles) != args.processes or roles.count("s") < 2:
    sys.exit(f"{args.processes} processes are too few for these endings")
random.Random(seed).shuffle(roles)
roles = "".join(roles)
cards, folder = tempfile.mkdtemp(), tempfile.mkdtemp()
errors = []


def environment(rank):
    return dict(os.environ, UTOFU_RANK=str(rank), UTOFU_SIZE=str(args.processes), UTOFU_ROOT=folder,
                TMPDIR=folder, UTOFU_JOB_TIMEOUT=str(round(args.job_timeout * scale)),
                UTOFU_PEER_TIMEOUT=str(round(30 * scale)),
                UTOFU_LOG_LEVEL=os.environ.get("UTOFU_LOG_LEVEL", "error"))


running = []
for r in range(args.processes):
    with open(os.path.join(cards, f"out.{r}"), "w", encoding="utf-8") as out:
        running.append(subprocess.Popen([args.program, cards, roles], env=environment(r), stdout=out,
                                        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL))
start = time.monotonic()
left = set(range(args.processes))
while left and time.monotonic() < start + args.limit * scale:
    for r in [r for r in left if running[r].poll() is not None]:
        left.remove(r)
        path = os.path.join(cards, f"dead.{r}")
        with open(path + ".new", "wb") as f:
            f.write(struct.pack("i", r))
        os.rename(path + ".new", path)
        # the others would wait for it until the limit
        if running[r].returncode != (-9 if roles[r].isdigit() else 0):
            errors.append(f"rank {r} ({roles[r]}) ended with {running[r].returncode}")
    if errors:
        break
    time.sleep(0.01)
if left and not errors:
    errors.append(f"these did not end: {' '.join(f'{r} ({roles[r]})' for r in sorted(left))}")
for r in left:
    running[r].kill()
    running[r].wait()


def counts(which, what):
    """Over all processes, of their lines "first: ..." or "second: ..."."""
    found = 0
    for r in range(args.processes):
        with open(os.path.join(cards, f"out.{r}"), encoding="utf-8") as f:
            for line in f:
                words = line.replace(",", " ").split()
                if words and words[0] == f"{which}:":
                    found += int(words[words.index(what) - 1])
                elif which == "first" and what == "failed" and not line.startswith("second"):
                    print(f"rank {r}: {line.rstrip()}")
    return found


failed = counts("first", "failed")
print(f"{args.processes} processes, roles {roles}, {time.monotonic() - start:.1f} s: "
      f"first {counts('first', 'succeeded')} puts succeeded, {failed} failed; "
      f"then {counts('second', 'succeeded')}, {counts('second', 'failed')}; seed {seed}")
if not errors:
    stay = sum(r in "sl" for r in roles)
    if counts("second", "succeeded") != stay * (stay - 1):
        errors.append("in the end not all who stay had reached each other")
    if counts("second", "failed") != stay * (args.processes - stay):
        errors.append("in the end not all were told of all that are gone")
shutil.rmtree(cards)
files = sorted(name for name in os.listdir(folder) if not name.startswith("tsan."))
if files:
    errors.append(f"files are left: {' '.join(files)}")
shutil.rmtree(folder)
for error in errors:
    print(error)
sys.exit(1 if errors else 0)
