#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each member of `la` that is a struct of this layer is written by the file with its name, or by an inline function of
the header that names that file; the others by start.c and env.c, but for `dispatching`, which each that runs handlers
sets.

owners.py FOLDER       of LAPI's sources
"""
import pathlib
import re
import sys

PATH = r"\bla\.(\w+)(?:\.\w+|\[[^\]]*\])*"
WRITES = [rf"(?:\+\+|--){PATH}(?!->)", rf"{PATH}\s*(?:\+\+|--)", rf"{PATH}\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)",
          rf"(?<!__atomic_load_n)[(,]\s*&{PATH}(?![\w.\[]|->)"]


def read_code(path):
    return re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), path.read_text(), flags=re.S)


def may_write(path, member, structs):
    if member not in structs:
        return member == "dispatching" or path.name in ("start.c", "env.c")
    return path.stem == member or (path.suffix == ".h" and f"{member}.c" in path.read_text())


def main(folder):
    context = re.search(r"extern struct la \{(.*?)\n\} la;", (folder / "context.h").read_text(), re.S)[1]
    structs = set(re.findall(r"^    struct la_\w+ (\w+);", context, re.M))
    seen, bad = set(), []
    for path in sorted([*folder.glob("*.c"), *folder.glob("*.h")]):
        code = read_code(path)
        for m in (m for pattern in WRITES for m in re.finditer(pattern, code)):
            seen.add(m[1])
            if not may_write(path, m[1], structs):
                bad.append(f"{path.name}:{code.count(chr(10), 0, m.start()) + 1} writes la.{m[1]}: {m[0].strip()}")
    bad += [f"no file writes la.{member}" for member in sorted(structs - seen)]
    for line in bad:
        print(f"owners: {line}", file=sys.stderr)
    return 1 if bad else 0


sys.exit(main(pathlib.Path(sys.argv[1])))
