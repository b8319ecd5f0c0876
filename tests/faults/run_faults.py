#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program with every call of the library failing once that allocates or opens something.

For each rank in turn: counts the calls of that rank (fail_nth.c), then runs the job once for each
of them, with that call failing. Each process must end by itself, not by a signal and in time; one
that fails must say why. Prints what failed where something was wrong.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import threading

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--preload", required=True, help="fail_nth.so")
parser.add_argument("--processes", type=int, default=2)
parser.add_argument("--ranks", type=int, nargs="*", help="whose calls fail (default: all)")
parser.add_argument("--every", type=int, default=1,
                    help="only each EVERY-th call; UT_FAULTS_EVERY goes first")
parser.add_argument("--only", type=int, nargs="*", help="only these calls")
parser.add_argument("--jobs", type=int, default=2, help="jobs at a time")
parser.add_argument("--limit", type=float, default=60, help="seconds that a job may take")
parser.add_argument("--verbose", action="store_true", help="say what happened for each call")
parser.add_argument("command", nargs=argparse.REMAINDER)
args = parser.parse_args()
command = args.command[1:] if args.command[:1] == ["--"] else args.command
args.every = int(os.environ.get("UT_FAULTS_EVERY") or args.every)
# the factor for all times: most jobs wait for the end of a time limit, so it should be small
scale = float(os.environ.get("UT_FAULTS_SCALE") or os.environ.get("UT_TEST_TIMEOUT_SCALE", "1"))
number = 0
number_lock = threading.Lock()


def run(rank, fail_at, log, folder):
    """One job; (exit status, standard error) of each process, None for one that did not end."""
    global number
    with number_lock:
        number += 1
        root = f"unix:@utofu-faults-{os.getpid()}-{number}"
    processes = []
    meeting = tempfile.mkdtemp(dir=folder)
    for r in range(args.processes):
        env = dict(os.environ, UTOFU_RANK=str(r), UTOFU_SIZE=str(args.processes), UTOFU_ROOT=root,
                   UTOFU_JOB_TIMEOUT=str(round((4 if fail_at else 60) * scale)),
                   UTOFU_PEER_TIMEOUT=str(round((2 if fail_at else 60) * scale)), UTOFU_LOG_LEVEL="warning",
                   TWO_ENDS_TIME_LIMIT=str(20 * scale), FAIL_RANK=str(rank), FAIL_AT=str(fail_at), FAIL_LOG=log,
                   LD_PRELOAD=" ".join([args.preload] + os.environ.get("LD_PRELOAD", "").split()))
        processes.append(subprocess.Popen(command + [meeting], env=env, stdin=subprocess.DEVNULL,
                                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                          text=True, errors="replace"))
    outcome = []
    for p in processes:
        try:
            _, err = p.communicate(timeout=args.limit * scale)
            outcome.append((p.returncode, err))
        except subprocess.TimeoutExpired:
            p.kill()
            _, err = p.communicate()
            outcome.append((None, err))
    return outcome


def judge(outcome):
    """The errors of the outcome, or an empty list."""
    wrong = []
    for r, (status, err) in enumerate(outcome):
        if status is None:
            wrong.append(f"rank {r} did not end")
        elif status in (4, 5):
            wrong.append(f"rank {r} waited for what never came")
        elif status < 0:
            wrong.append(f"rank {r} was ended by signal {-status}")
        elif status != 0 and not err.strip():
            wrong.append(f"rank {r} failed with {status} and said nothing")
        elif re.search(r"Sanitizer|Assertion|stack smashing|corrupted|double free", err):
            wrong.append(f"rank {r}: a report of memory errors")
    return wrong


def try_call(folder, rank, n):
    log = os.path.join(folder, f"{rank}.{n}")
    outcome = run(rank, n, log, folder)
    wrong = judge(outcome)
    what = open(log, encoding="ascii").read().split("\n")[0] if os.path.exists(log) else None
    return n, what, outcome, wrong


bad = ended_well = ended_with_error = unreached = 0
with tempfile.TemporaryDirectory() as folder, \
        concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
    for rank in args.ranks if args.ranks is not None else range(args.processes):
        log = os.path.join(folder, f"{rank}.count")
        outcome = run(rank, 0, log, folder)
        if any(status != 0 for status, _ in outcome):
            sys.exit(f"the program fails by itself: {outcome}")
        names = [line.split()[1] for line in open(log, encoding="ascii")]
        if not names:
            sys.exit("no call was counted: is the library linked statically?")
        numbers = args.only or range(1, len(names) + 1, args.every)
        print(f"rank {rank}: {len(names)} calls ({', '.join(sorted(set(names)))})", flush=True)
        for n, what, outcome, wrong in pool.map(lambda n: try_call(folder, rank, n), numbers):
            if what is None:
                unreached += 1
            elif any(status for status, _ in outcome):
                ended_with_error += 1
            else:
                ended_well += 1
            if wrong:
                bad += 1
            if wrong or args.verbose:
                print(f"rank {rank}, call {what or n}: {'; '.join(wrong) or 'as it should be'}")
                for r, (status, err) in enumerate(outcome):
                    print(f"    rank {r}: status {status}" +
                          "".join("\n        " + line for line in err.splitlines()[:12]), flush=True)

print(f"{ended_well} jobs did their work, {ended_with_error} ended with a message, {unreached} did "
      f"not come to the call, {bad} went wrong")
sys.exit(1 if bad else 0)
