#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The end of scripts/run-tests: failed tests, omitted tests, and the slowest tests.

A PART is a log of meson test or scripts/rxe-vm tests (BUILD/meson-logs/testlog-PART.json), "lint"
or "mutations"; -PART:REASON stands for a part that could not be run. The last line says whether
the tier has passed. Full and nightly fail if anything was left out. Exit status 0 or 1.
"""
import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path

GOOD = ("OK", "EXPECTEDFAIL")
TIERS = ("quick", "full", "nightly")
SHOWN = 10  # slowest tests
LAST_LINES = 12  # of what a failed test said


def suite_of(test):
    """Meson's names are "project:suite+suite / test"."""
    suites, slash, _ = test["name"].rpartition(" / ")
    names = [name for name in suites.split(":")[-1].split("+") if name not in TIERS]
    return names[0] if slash and names else test["part"]


def end_of(said):
    """Its last lines, for readers who have only the end of a log."""
    lines = [line for line in said.splitlines() if line.strip()]
    return "".join(f"\n      {line[:200]}" for line in lines[-LAST_LINES:])


class Summary:
    def __init__(self, logs):
        self.logs = logs
        self.failed, self.left_out, self.tests = [], [], []

    def add(self, part):
        if part.startswith("-"):
            name, _, reason = part[1:].partition(":")
            self.left_out.append(f"{name}: {reason.replace('_', ' ')}")
        elif part == "lint":
            self.add_lint()
        elif part == "mutations":
            self.add_mutations()
        else:
            self.add_tests(part)

    def add_tests(self, part):
        try:
            lines = (self.logs / f"testlog-{part}.json").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        tests = [json.loads(line) for line in lines]
        if not tests:
            self.failed.append(f"{part}: no test ran")
            return
        for test in tests:
            test["part"] = part
            said = test.get("stdout", "") + "\n" + test.get("stderr", "")
            skipped = re.findall(r"^(?:\[host \d+\] )?skipped: (.*)$", said, re.M)
            if test["result"] == "SKIP" and not skipped:
                skipped = ["skipped"]
            if test["result"] not in GOOD + ("SKIP",):
                self.failed.append(f"{test['result']}: {test['name']} {test.get('reason', '')}".rstrip() + end_of(said))
            self.left_out += [f"{test['name']}: {line}" for line in sorted(set(skipped))]
        self.tests += tests
        count = Counter(test["result"] for test in tests)
        print(f"{part}: {len(tests)} tests, " + ", ".join(f"{n} {what}" for what, n in sorted(count.items())) +
              f" ({self.logs}/testlog-{part}.txt)")

    def add_lint(self):
        said = (self.logs / "lint.txt").read_text(errors="replace")
        skipped = re.findall(r"^lint: (\w+): skipped: (.*)", said, re.M)
        self.left_out += [f"scripts/lint {check}: {why}" for check, why in skipped]
        self.failed += [f"scripts/lint: {what}" for what in re.findall(r"^lint: failed: (.*)", said, re.M)]

    def add_mutations(self):
        said = (self.logs / "mutations.txt").read_text(errors="replace").splitlines()
        print(f"mutations: {said[-1] if said else 'nothing was said'}")
        self.failed += [line for line in said if line.startswith(("SURVIVED", "ERROR"))]
        self.left_out += [line for line in said if line.startswith("left out")]

    def show_times(self, steps, total):
        print("\nWhere the time went:")
        for line in steps:
            name, seconds = line.split()
            print(f"  {name:12} {int(seconds):5} s")
        print(f"  {'in all':12} {total:5} s")
        suites = Counter()
        for test in self.tests:
            suites[suite_of(test)] += test["duration"]
        print("Seconds of tests by suite: " +
              ", ".join(f"{name} {seconds:.0f}" for name, seconds in suites.most_common()))
        for path in sorted(self.logs.glob("testlog-*.starts")):
            part = path.stem.removeprefix("testlog-")
            if any(test["part"] == part for test in self.tests):
                print(f"Starts of the virtual machines ({part}): {path.read_text().strip()}")
        print(f"The {SHOWN} slowest tests:")
        for test in sorted(self.tests, key=lambda t: -t["duration"])[:SHOWN]:
            print(f"  {test['duration']:7.1f} s  {test['name']}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tier", required=True)
    p.add_argument("--build", type=Path, required=True)
    p.add_argument("--seconds", type=int, required=True)
    p.add_argument("--since", action="store_true", help="a part of the tests was asked for")
    p.add_argument("--failed", default="", help="parts whose command failed")
    p.add_argument("parts", nargs="*")
    args = p.parse_args()
    summary = Summary(args.build / "meson-logs")
    for part in args.parts:
        summary.add(part)
    summary.show_times((args.build / "meson-logs" / "steps").read_text().splitlines(), args.seconds)
    for line in summary.failed:
        print(f"  {line}")
    for line in summary.left_out:
        print(f"  left out: {line}")
    bad = summary.failed or args.failed.split()
    strict = args.tier != "quick" and not args.since
    what = "the tests that the change touches" if args.since else args.tier
    out = f"; {len(summary.left_out)} left out" + (", which is no pass" if strict else "") if summary.left_out else ""
    # the plain closing line that other tools read
    passed = sum(test["result"] in GOOD for test in summary.tests)
    print(f"\n{passed} passed, {sum(test['result'] not in GOOD + ('SKIP',) for test in summary.tests)} failed")
    if bad:
        print(f"== {what}: some tests failed{out}")
        return 1
    print(f"== {what}: all tests passed{out}" if not (strict and summary.left_out) else f"== {what}: not passed{out}")
    return 1 if strict and summary.left_out else 0


sys.exit(main())
