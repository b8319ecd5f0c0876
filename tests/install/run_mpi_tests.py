#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of tier full in which an MPI library has a part: those of the suites prdma and bootstrap, and those
that are named after Open MPI or MPICH. With fewer than fifty of them for a library something is missing.

usage: run_mpi_tests.py BUILD-FOLDER
"""
import json
import os
import subprocess
import sys


def run(build, names, at_once):
    status = subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "-t", "3", "--print-errorlogs",
                             "--num-processes", str(at_once), "--logbase", "testlog-mpi-%d" % at_once, *names],
                            check=False).returncode
    return 1 if status != 0 else 0


def main():
    build = sys.argv[1]
    with open(os.path.join(build, "meson-info", "intro-tests.json"), encoding="utf-8") as file:
        tests = json.load(file)
    names = []
    for test in tests:
        suites = {suite.split(":")[-1] for suite in test["suite"]}
        if suites & {"quick", "full"} and (suites & {"prdma", "bootstrap"} or "openmpi" in test["name"] or
                                           "mpich" in test["name"]):
            names.append(test["name"])
    for mpi in ("openmpi", "mpich"):
        print("%d tests of %s" % (sum(mpi in name for name in names), mpi))
    if min(sum(mpi in name for name in names) for mpi in ("openmpi", "mpich")) < 50:
        sys.exit("run_mpi_tests: an MPI library is missing")
    # Jobs of Open MPI 5 with more processes than cores, several at once, were seen to drive the load of a machine with
    # two cores to 300. The suite bootstrap starts both libraries.
    alone = [name for name in names if "mpich" not in name]
    others = [name for name in names if "mpich" in name]
    sys.exit(run(build, alone, 1) + run(build, others, os.cpu_count()))


main()
