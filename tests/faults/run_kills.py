#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills one process of a job at a random moment, repeatedly, and checks that the others are
notified, continue to communicate and end; or kills utofurun, and checks that no process is left."""

import argparse
import concurrent.futures
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--ranks", type=int, default=20, metavar="N", help="jobs with a rank that is killed")
parser.add_argument("--launchers", type=int, default=10, metavar="N", help="jobs whose utofurun is killed")
parser.add_argument("--utofurun", required=True)
parser.add_argument("--program", required=True, help="tests/faults/under_fire")
parser.add_argument("--processes", type=int, default=4, help="of a job")
parser.add_argument("--jobs", type=int, default=2, help="at a time")
parser.add_argument("--within", type=float, default=0.2,
                    help="seconds after the start in which the kill falls, most often early")
parser.add_argument("--limit", type=float, default=60, help="seconds that a job may take")
parser.add_argument("--minutes", type=float, help="begin no job after this time")
parser.add_argument("--seed", type=int, default=None)
args = parser.parse_args()
args.ranks = int(os.environ.get("UT_KILLS_RANKS") or args.ranks)
args.launchers = int(os.environ.get("UT_KILLS_LAUNCHERS") or args.launchers)
scale = float(os.environ.get("UT_TEST_TIMEOUT_SCALE", "1"))
args.within *= scale  # slow programs start slowly, too
timeout = os.environ.get("UT_KILLS_TIMEOUT") or str(round(15 * scale))  # the library's, in seconds
seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
MARK = "UNDER_FIRE_CAMPAIGN"
mark = f"{os.getpid()}-{time.time_ns()}"
wrong = []
told = []
before_its_call = 0
end = time.monotonic() + args.minutes * 60 if args.minutes else float("inf")
lock = threading.Lock()


def processes_left(value):
    """All processes with this value of MARK, whoever their parent is."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if f"{MARK}={value}".encode() in f.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            pass
    return found


def environment(job, folder, **more):
    return dict(os.environ, **{MARK: f"{mark}-{job}", "TMPDIR": folder, "UTOFU_JOB_TIMEOUT": timeout,
                               "UTOFU_PEER_TIMEOUT": timeout, "UTOFU_LOG_LEVEL": "error"}, **more)


def report(job, folder, errors, what):
    """Processes left after a job are an error, too."""
    for pid in processes_left(f"{mark}-{job}"):
        with open(f"/proc/{pid}/comm", encoding="ascii") as f:
            errors.append(f"{f.read().strip()} is left")
        os.kill(pid, signal.SIGKILL)
    # ThreadSanitizer has a file there while a program starts
    files = sorted(name for name in os.listdir(folder) if not name.startswith("tsan."))
    if files:
        errors.append(f"files are left: {' '.join(files)}")
    shutil.rmtree(folder)
    if errors:
        with lock:
            wrong.append(job)
            print(f"job {job}, {what}: {'; '.join(errors)}", flush=True)


def kill_a_rank(job):
    global before_its_call
    rng = random.Random(f"{seed}-{job}")
    cards, folder = tempfile.mkdtemp(), tempfile.mkdtemp()
    victim, delay = rng.randrange(args.processes), rng.random() ** 2 * args.within
    errors = []
    running = [subprocess.Popen([args.program, cards], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True,
                                env=environment(job, folder, UTOFU_RANK=str(r), UTOFU_ROOT=folder,
                                                UTOFU_SIZE=str(args.processes)))
               for r in range(args.processes)]
    time.sleep(delay)
    early = not os.path.exists(os.path.join(folder, f"utofu.{victim}"))
    running[victim].kill()
    running[victim].wait()
    card = os.path.join(cards, "killed.0")
    with open(card + ".new", "wb") as f:
        f.write(struct.pack("dq", time.monotonic(), victim))
    os.rename(card + ".new", card)
    deadline = time.monotonic() + args.limit * scale
    for r, p in enumerate(running):
        try:
            out, err = p.communicate(timeout=max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            errors.append(f"rank {r} did not end")
        if r == victim:
            continue
        if p.returncode not in (0, -signal.SIGKILL):
            errors.append(f"rank {r} ended with {p.returncode}: {' | '.join(err.split(chr(10))[-4:])}")
        with lock:
            told.extend((early, float(line.split()[1])) for line in out.splitlines() if line.startswith("told "))
    shutil.rmtree(cards)
    with lock:
        before_its_call += early
    report(job, folder, errors, f"rank {victim} killed after {delay * 1000:.0f} ms")


def kill_the_launcher(job):
    rng = random.Random(f"{seed}-{job}")
    cards, folder = tempfile.mkdtemp(), tempfile.mkdtemp()
    delay = rng.random() ** 2 * args.within
    errors = []
    # every second time with a shell in between
    command = [args.program, cards] if job % 2 else ["sh", "-c", f"{args.program} {cards}; true"]
    p = subprocess.Popen([args.utofurun, "-n", str(args.processes), *command], stdin=subprocess.DEVNULL,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(job, folder))
    time.sleep(delay)
    p.kill()
    p.wait()
    deadline = time.monotonic() + args.limit * scale
    while processes_left(f"{mark}-{job}") and time.monotonic() < deadline:
        time.sleep(0.01)
    shutil.rmtree(cards)
    report(job, folder, errors, f"utofurun killed after {delay * 1000:.0f} ms")


def in_shared_memory():
    return {n for n in os.listdir("/dev/shm") if "utofu" in n}


def summary(values):
    values = sorted(values)
    return (f"{len(values)} survivors: median {values[len(values) // 2]:.1f}, "
            f"99% {values[len(values) * 99 // 100]:.1f}, most {values[-1]:.1f} ms") if values else "none"


def run_all(pool, body, first, count):
    def one(job):
        if time.monotonic() >= end:
            return 0
        body(job)
        return 1
    return sum(pool.map(one, range(first, first + count)))


shared_before = in_shared_memory()
with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
    launchers = run_all(pool, kill_the_launcher, 0, args.launchers)
    ranks = run_all(pool, kill_a_rank, args.launchers, args.ranks)
left = in_shared_memory() - shared_before
if left:
    wrong.append("/dev/shm")
    print(f"left in /dev/shm: {' '.join(sorted(left))}")
print(f"{ranks} ranks killed, {before_its_call} of them before they had published an address; "
      f"{launchers} launchers; {len(wrong)} jobs went wrong; seed {seed}")
print(f"notified after the kill: {summary([ms for early, ms in told if not early])}")
print(f"notified of one that had published nothing: {summary([ms for early, ms in told if early])}")
if len(told) != ranks * (args.processes - 1) and not wrong:
    wrong.append("told")
    print(f"only {len(told)} survivors were notified")
sys.exit(1 if wrong else 0)
