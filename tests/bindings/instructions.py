#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A put takes no more instructions through a binding than in C: callgrind counts them, the library's and the caller's.

usage: instructions.py C-PROGRAM PROGRAM...     the programs of tests/bindings/put, each a language
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PUTS, RUNS = 500, 3


def count(program, puts):
    """The least of some runs."""
    return min(count_once(program, puts) for _ in range(RUNS))


def count_once(program, puts):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind"
        command = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no",
                   "--toggle-collect=put_words", program, str(puts)]
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              env={**os.environ, "UTOFU_PROVIDER": "shm"})
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return int(re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.M).group(1))


def main():
    if subprocess.run(["valgrind", "--version"], capture_output=True, check=False).returncode != 0:
        print("skipped: valgrind does not run here")
        sys.exit(77)
    # what all puts have in common is left: the first ones, the call of put_words()
    per_put = {program: (count(program, 2 * PUTS) - count(program, PUTS)) / PUTS for program in sys.argv[1:]}
    for program, number in per_put.items():
        print(f"{Path(program).name}: {number} instructions for each put")
    in_c = per_put[sys.argv[1]]
    if in_c < 50:
        sys.exit("so few are no put and no poll")
    # less than one for each put is other work of the library, at a moment of its own
    wrong = [program for program, number in per_put.items() if number - in_c >= 0.5]
    if wrong:
        sys.exit(f"more than in C: {' '.join(wrong)}")


if __name__ == "__main__":
    main()
