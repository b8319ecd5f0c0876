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
    sys.exit(subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "-t", "3", "--print-errorlogs",
                             "--num-processes", str(2 * os.cpu_count()), "--logbase", "testlog-mpi", *names],
                            check=False).returncode)


main()
