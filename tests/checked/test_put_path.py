#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The functions that a put calls are those that docs/design/architecture.md lists, in this order.

usage: test_put_path.py UTOFURUN PUT_PATH ARCHITECTURE.MD
The library in PUT_PATH is not optimized, so that no call is missing; functions that are always inlined are found in
the debugging information.
"""
import os
import re
import subprocess
import sys


def documented(path, size):
    """Rows "| `function` | `file` | ..." after the line with the size, outermost first."""
    with open(path) as f:
        text = f.read()
    part = text.split(f"<!-- put_path {size} -->", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `(\w+)` \| `([\w/.]+)` \|", part, re.M)


def called(utofurun, program, size):
    done = subprocess.run([utofurun, "-n", "2", program, str(size)], stdout=subprocess.PIPE, text=True,
                          timeout=120, check=True, env={**os.environ, "UTOFU_SHM_MAP": "eager"})
    lines = subprocess.run(["addr2line", "-f", "-i", "-e", program, *done.stdout.split()],
                           stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    pairs = [(name, re.sub(r"^.*?((src|provider)/[\w/.]+):.*$", r"\1", where))
             for name, where in zip(lines[::2], lines[1::2])]
    return [pair for pair in pairs if pair[1].startswith(("src/", "provider/"))][::-1]


def main():
    utofurun, program, document = sys.argv[1:]
    failed = 0
    for size in (8, 128):
        got, listed = called(utofurun, program, size), documented(document, size)
        good = got == listed and len(got) > 3
        print(f"{'ok' if good else 'FAILED'}: a put of {size} bytes calls what is listed")
        if not good:
            print(" called:  ", got, "\n listed:  ", listed)
        failed += not good
    got = called(utofurun, program, 8)
    if got[1:] == documented(document, 8):
        print("FAILED: a list with a function left out is good, too")
        failed += 1
    return failed != 0


if not os.path.exists("/usr/bin/addr2line") and not any(
        os.access(os.path.join(d, "addr2line"), os.X_OK) for d in os.environ["PATH"].split(":")):
    print("skipped: addr2line is not installed")
    sys.exit(77)
sys.exit(main())
