#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many instructions and stores operations take, counted by callgrind, beside those of other operations.

usage: instructions.py words UTOFURUN INSTR     gets of a word beside puts of a word (bench/instr)
       instructions.py hops UTOFURUN PERF       a put that session mode starts; one with an SPS
       instructions.py sums SUM                 the values of a sum of doubles (tests/perf/sum.c)
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FEW, MANY, TIMES = 100, 300, 3
COUNTED = 'out=$1; shift; [ "$UTOFU_RANK" = "$COUNTED_RANK" ] || exec "$@"; exec valgrind -q --tool=callgrind ' \
    '--cache-sim=yes --collect-atstart=no --toggle-collect="$COUNTED" --toggle-collect=ut_lock_slow ' \
    '--callgrind-out-file="$out" "$@"'


def count_once(launcher, function, command, rank):
    """Instructions and stores of a function and what it calls, of one rank."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind"
        command = [*launcher, "sh", "-c", COUNTED, "sh", str(out), *command]
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              env={"UTOFU_RANK": "0", **os.environ, "UTOFU_SHM_MAP": "eager", "UTOFU_PROVIDER": "shm",
                                   "COUNTED": function, "COUNTED_RANK": str(rank)})
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        text = out.read_text()
        names = re.search(r"^events: (.*)", text, re.M).group(1).split()
        totals = re.search(r"^(?:summary|totals): (.*)", text, re.M).group(1).split()
        counts = {**dict.fromkeys(names, 0), **dict(zip(names, map(int, totals)))}
        return counts["Ir"], counts["Dw"]


def count(launcher, function, command, rank=0):
    """Of one more operation: what all of them have in common is left. NUMBER in the command is how many they are.
    The least of three times, without the waits for the background thread to leave the VCQ."""
    def least(number):
        words = [str(number) if word == "NUMBER" else word for word in command]
        return map(min, zip(*(count_once(launcher, function, words, rank) for _ in range(TIMES))))
    each = tuple((b - a) / (MANY - FEW) for a, b in zip(least(FEW), least(MANY)))
    print(f"{function}: {each[0]} instructions, {each[1]} stores")
    return each


def check(good, what):
    print(f"{'ok' if good else 'FAILED'}: {what}")
    return not good


def check_words(utofurun, instr):
    two = [utofurun, "-n", "2"]
    put = count(two, "put_counted", [instr, "NUMBER"])
    get = count(two, "get_tcq_counted", [instr, "NUMBER", "get-tcq"])
    noticed = count(two, "get_counted", [instr, "NUMBER", "get"])
    failed = check(put[0] > 50 and put[1] > 5, "what is counted is a put and a poll")
    failed += check(get[0] < put[0] + 8 and get[1] < put[1] + 2, "a get of a word takes no more than a put of a word")
    # an entry of the MRQ is written and read in pairs of words
    failed += check(noticed[1] < put[1] + 15, "a local notice is few stores")
    failed += check(put[1] < 28, "a word is moved without encoding a descriptor")
    return failed


def check_hops(utofurun, perf):
    each = count([utofurun, "-n", "2"], "on_notify", [perf, "--quiet", "session-chain", "-n", "NUMBER"], rank=1)
    failed = check(300 < each[0] < 590, "session mode starts a put by the direct path")
    first = count([utofurun, "-n", "2"], "utofu_put", [perf, "--quiet", "session-chain", "-n", "NUMBER"])
    return failed + check(200 < first[0] < 530, "a put with an SPS takes the direct path")


def check_sums(program):
    each = count([], "count_sums", [program, "NUMBER"])
    return check(50 < each[0] < 450, "the values of a sum of doubles take few instructions")


def main():
    if subprocess.run(["valgrind", "--version"], capture_output=True, check=False).returncode != 0:
        print("skipped: valgrind does not run here")
        return 77
    what, *rest = sys.argv[1:]
    return {"words": check_words, "hops": check_hops, "sums": check_sums}[what](*rest) != 0


if __name__ == "__main__":
    sys.exit(main())
