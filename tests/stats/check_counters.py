#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every counter of src/stats/totals.h has its row in docs/guide/tracing.md, and a test that names it.

usage: check_counters.py [--fix] SOURCE-FOLDER

The rows are made from the table: --fix writes them. A test names a counter as "name", as '
name=' or as the last word of a line, in tests/stats/ or in one of the files below. The check is
then tested with a counter that has neither.
"""
import os
import re
import sys

TABLE, DOCUMENT = "src/stats/totals.h", "docs/guide/tracing.md"
MORE_TESTS = ("tests/adapter/crowd.sh", "tests/adapter/rails.sh", "tests/rxe/turns.sh")
HEAD = "| counter | of | in the summary of a job | meaning |\n| --- | --- | --- | --- |\n"
HOLDERS = {"VCQ": "VCQ", "PEER": "peer", "BOTH": "VCQ, peer", "GATE": "gate", "JOB": ""}


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def read_counters(text):
    """(name in a line, holders, name in a summary, meaning) of each; a name may be None."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = []
    for entry in re.findall(r"^COUNTER\((.*?)\)$", text, re.M | re.S):
        words = [('"' + "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', word)) if '"' in word else word.strip())
                 for word in re.split(r',(?=(?:[^"]*"[^"]*")*[^"]*$)', entry)]
        if len(words) != 6 or not words[5].startswith('"') or len(words[5]) < 8 or words[1] not in HOLDERS:
            sys.exit("FAIL: %s: %s is no counter with holders and meaning" % (TABLE, words[0]))
        line, total = (None if word == "NULL" else word[1:] for word in words[3:5])
        found.append((line, words[1], total, words[5][1:]))
    return found


def make_rows(counters):
    def quote(name):
        return "`%s`" % name if name else ""
    return HEAD + "".join("| %s | %s | %s | %s |\n" % (quote(line), HOLDERS[of], quote(total),
                                                       re.sub(r"\b(UTOFU_[A-Z_]+(?:=\w+)?)", r"`\1`", meaning))
                          for line, of, total, meaning in counters)


def read_tests(folder):
    own = [os.path.join("tests/stats", name) for name in os.listdir(os.path.join(folder, "tests/stats"))
           if name.endswith((".py", ".sh")) and name != os.path.basename(__file__)]
    return "\n".join(read(os.path.join(folder, path)) for path in own + list(MORE_TESTS))


def find_gaps(counters, document, tests):
    if make_rows(counters) not in document:
        yield "%s lacks rows of %s, or has others: tests/stats/check_counters.py --fix . writes them" % (
            DOCUMENT, TABLE)
    for name in sorted({name for line, _, total, _ in counters for name in (line, total) if name}):
        if not re.search(r"\"%s\"| %s=| %s$" % (name, name, name), tests, re.M):
            yield "no test names %s" % name


def main():
    folder = sys.argv[-1]
    table, path = read(os.path.join(folder, TABLE)), os.path.join(folder, DOCUMENT)
    counters = read_counters(table)
    if "--fix" in sys.argv:
        text = re.sub(re.escape(HEAD) + r"(\|.*\n)*", lambda m: make_rows(counters), read(path))
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    document, tests = read(path), read_tests(folder)
    failed = list(find_gaps(counters, document, tests))
    twin = read_counters(table + '\nCOUNTER(TWIN, VCQ, SUM, "twin_of_none", NULL, "a counter that nobody documents")\n')
    if len(twin) != len(counters) + 1 or len(list(find_gaps(twin, document, tests))) != len(failed) + 2:
        failed.append("a counter without documentation and test passes")
    for line in failed:
        print("FAIL:", line)
    print("ok: %d counters" % len(counters) if not failed else "%d failed" % len(failed))
    return bool(failed)


sys.exit(main())
