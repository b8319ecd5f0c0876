#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of two processes that close descriptors: standard ones before their start (standard), or all
from 3 on while the library uses them (closed). See descriptors.c."""

import argparse
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("what", choices=["standard", "closed"])
parser.add_argument("--utofurun", required=True)
parser.add_argument("--program", required=True, help="tests/faults/descriptors")
parser.add_argument("--limit", type=float, default=30, help="seconds that a job may take")
args = parser.parse_args()
limit = args.limit * float(os.environ.get("UT_TEST_TIMEOUT_SCALE", "1"))
LOSS = "the program has closed descriptors of this library"
wrong = 0


def run_job(name, mode, shell=""):
    """Exit status (None: too late), lines of the job, the processes' results, and damaged files."""
    with tempfile.TemporaryDirectory() as folder:
        command = [args.utofurun, "-n", "2", "sh", "-c", f'exec "$0" "$@" {shell}', args.program, mode, folder]
        # leaves its processes to utofurun, which ends them when it is terminated
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace") as job:
            try:
                text, _ = job.communicate(timeout=limit)
                status = job.returncode
            except subprocess.TimeoutExpired:
                job.terminate()
                text, _ = job.communicate()
                status = None
        # a process may be ended by utofurun while it makes its files
        left = [p.read_bytes() for p in pathlib.Path(folder).iterdir() if not p.name.endswith(".result")]
        damaged = sum(b"content\n"[:len(t)] != t for t in left)
        results = [p.read_text() if p.exists() else "" for p in (pathlib.Path(folder, f"{r}.result") for r in (0, 1))]
    return status, text, results, damaged


def judge(name, good, status, text, results):
    global wrong
    print(f"{name}: {'ok' if good else 'WRONG'}, status {status}, results {results}", flush=True)
    if not good:
        wrong += 1
        print(text, flush=True)


if args.what == "standard":
    for closed in itertools.product([False, True], repeat=3):
        shell = " ".join(text for text, is_closed in zip(("<&-", ">&-", "2>&-"), closed) if is_closed)
        status, text, results, _ = run_job(shell, "standard", shell)
        expected = f"prints {'some' if any(closed) else 'none'} taken 0 other errors 0 opened 0\ndone\n"
        judge(shell or "none", status == 0 and results == [expected] * 2, status, text, results)
else:
    for mode in ("after", "before"):
        status, text, results, damaged = run_job(mode, mode)
        # a process that cannot go on ends with a line, and utofurun then ends the other one; what the program
        # has opened is neither written nor closed
        good = status is not None and 0 <= status < 100 and LOSS in text and damaged == 0
        files = re.findall("files damaged .*", "".join(results))
        good = good and files and set(files) == {"files damaged 0 closed 0"}
        judge(mode, good and (status == 0 or "UTOFU_ERR_" in text + "".join(results)), status, text, results)
sys.exit(wrong > 0)
