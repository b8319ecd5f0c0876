#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Extracts the programs in the EXAMPLES of the manual pages, as a reader would, and runs them.

usage: run_examples.py MAN-DIR INCLUDE-DIR LIBRARY CC...

A program is compiled as described in its page, with CC in place of cc, and with each installed
mpicc in place of mpicc; the latter run as two processes. A page without a program fails.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

PAGES = ["utofu_create_vcq", "utofu_reg_mem", "utofu_put", "utofu_poll_mrq", "utofu_barrier"]
OPENMPI = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../harness/openmpi")
MPIS = {"openmpi": [OPENMPI],
        "mpich": ["mpiexec.mpich"]}


def formatted(path):
    env = dict(os.environ, LC_ALL="C.UTF-8", MANWIDTH="120", MANROFFSEQ="", MAN_KEEP_FORMATTING="")
    for command in (["man", "-l", path], ["mandoc", "-Tutf8", path]):
        if shutil.which(command[0]):
            done = subprocess.run(command, stdout=subprocess.PIPE, env=env, encoding="utf-8",
                                  check=False)
            if done.returncode == 0 and "NAME" in done.stdout:
                return re.sub(".\b", "", re.sub("\x1b\\[[0-9;]*m", "", done.stdout))
    print("skipped: neither man nor mandoc is installed")
    sys.exit(77)


def examples_of(path):
    """The section's text, without its margin."""
    found = re.search(r"^EXAMPLES\n(.*?)^[A-Z]", formatted(path), re.M | re.S)
    if not found:
        return ""
    lines = found.group(1).rstrip().split("\n")
    margin = min(len(line) - len(line.lstrip()) for line in lines if line)
    return "\n".join(line[margin:] for line in lines) + "\n"


def run(what, command, env):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                          encoding="utf-8", timeout=100, check=False)
    if done.returncode:
        print("FAIL: %s: status %d of %s\n%s" % (what, done.returncode, " ".join(command),
                                                 done.stdout))
        return False
    return True


def try_page(folder, page, flags, compilers, env):
    text = examples_of(os.path.join(folder, page + ".3"))
    program = re.search(r"^ *#include.*", text, re.M | re.S)
    says = re.search(r"^ *(cc|mpicc) -o (\w+) \2\.c \$\(pkg-config --cflags --libs utofu\)$", text, re.M)
    if not program or not says:
        print("FAIL: %s has no program, or no line that compiles it" % page)
        return False
    if says.group(1) == "mpicc" and not re.search(r"^ *mpirun -n 2 \./%s$" % says.group(2), text, re.M):
        print("FAIL: %s does not say how to start it" % page)
        return False
    good = True
    with tempfile.TemporaryDirectory() as work:
        source, binary = os.path.join(work, "a.c"), os.path.join(work, "a.out")
        with open(source, "w", encoding="utf-8") as f:
            f.write(program.group(0))
        for compiler, start in compilers[says.group(1)]:
            good &= (run(page, compiler + ["-Wall", "-Wextra", "-Werror", "-o", binary, source] + flags,
                         env) and run(page, start + [binary], env))
    return good


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    folder, include, library = sys.argv[1:4]
    flags = ["-I" + include, library, "-Wl,-rpath," + os.path.dirname(os.path.abspath(library))]
    with_mpi = [([shutil.which("mpicc." + mpi)], start + ["-n", "2"]) for mpi, start in MPIS.items()
                if shutil.which("mpicc." + mpi) and shutil.which(start[0])]
    if any("-fsanitize" in word for word in sys.argv[4:]):
        with_mpi = []  # mpicc does not support a sanitizer
    if not with_mpi:
        print("not tried: the examples with MPI, for which no MPI is installed")
    env = {k: v for k, v in os.environ.items() if not k.startswith("UTOFU_")}
    env.update(OMPI_MCA_rmaps_base_oversubscribe="1", UTOFU_PROVIDER="shm")
    good = [try_page(folder, page, flags, {"cc": [(sys.argv[4:], [])], "mpicc": with_mpi}, env)
            for page in PAGES]
    if not all(good):
        sys.exit(1)
    print("ok: %d pages" % len(good))


main()
