#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The documents describe every variable, and no file uses the old name of an option.

usage: check_variables.py told|old SOURCE-FOLDER

told   docs/reference/variables.md contains every variable of src/util/env_table.h and, in the same line, of its
options, in its table of meanings and in those of when to set it; docs/reference/versions.md has a line
"| old name | new spelling |" for each option; docs/reference/tests.md, and it alone, has the options of
UTOFU_TEST. README.md names variables that exist. Each document is then tried without one of these, which must be
detected.
old    no file of the sources has the old name of an option, but for those that are about old names
"""
import os
import re
import sys

TABLE = "src/util/env_table.h"
ABOUT_OLD_NAMES = (TABLE, "tests/core/test_env.c", "tests/tools/old_names.sh", "tests/man/check_variables.py",
                   "tests/man/check_man_finds_gaps.sh", "docs/reference/versions.md", "CHANGELOG.md")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def read_names(folder):
    """The names of all variables, and (variable, option, old name or "") of all options."""
    text = re.sub(r"/\*.*?\*/", "", read(os.path.join(folder, TABLE)), flags=re.S)
    names = dict(re.findall(r'^X\((\w+), "(\w+)"', text, re.M))
    options = re.findall(r'^OPTION\(\s*\w+,\s*(\w+),\s*"(\w+)",\s*(?:"(\w+)"|NULL)', text, re.M)
    if len(names) < 30 or len(options) != len(re.findall(r"^OPTION\(", text, re.M)):
        sys.exit("FAIL: %s cannot be read" % TABLE)
    return list(names.values()), [(names[of], option, old) for of, option, old in options]


def tell(document, text, names, options):
    """Yields the entries that a document lacks."""
    lines = text.split("\n")
    if document == "docs/reference/versions.md":
        for variable, option, old in options:
            if old and not any(line.startswith("| `%s` |" % old) and "%s=" % variable in line and "%s=" % option in line
                       for line in lines):
                yield "has no line with %s, %s and its option %s" % (old, variable, option)
        return
    tests = document == "docs/reference/tests.md"
    for variable in names:
        if (variable == "UTOFU_TEST") == tests and not any("`%s`" % variable in line for line in lines):
            yield "does not speak of %s" % variable
        if variable == "UTOFU_TEST" and not tests and variable in text:
            yield "speaks of UTOFU_TEST"
    for variable, option, _ in options:
        if (variable == "UTOFU_TEST") == tests and not any(
                "`%s`" % variable in line and "`%s`" % option in line for line in lines):
            yield "does not speak of the option %s in a line with %s" % (option, variable)


def no_variables(text, names):
    """The first cells of a table of variables that are no variables."""
    return [name for name in re.findall(r"^\| `(UTOFU_\w+)` \|", text, re.M) if name not in names]


def check_told(folder):
    names, options = read_names(folder)
    failed = []
    variables = read(os.path.join(folder, "docs/reference/variables.md"))
    meanings, _, when = variables.partition("## The manual's")
    for document, one, text in (("docs/reference/variables.md, All", "`rd_atomic`", meanings),
                                ("docs/reference/variables.md, when to set", "`UTOFU_CQ_MAP`", when),
                                ("docs/reference/versions.md", "UTOFU_VERBS_SL", None),
                                ("docs/reference/tests.md", "`map_refuse`", None)):
        text = text or read(os.path.join(folder, document))
        failed += ["%s %s" % (document, gap) for gap in tell(document, text, names, options)]
        if not list(tell(document, text.replace(one, ""), names, options)):
            failed.append("%s without %s passes" % (document, one))
    readme = read(os.path.join(folder, "README.md"))
    failed += ["README.md has %s, which is no variable" % name for name in no_variables(readme, names)]
    if not no_variables(readme.replace("`UTOFU_CHECK`", "`UTOFU_CHECKS`"), names):
        failed.append("README.md with a variable that does not exist passes")
    return failed


def sources(folder):
    for at, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith((".git", "build")) and f != "__pycache__"]
        for name in files:
            path = os.path.relpath(os.path.join(at, name), folder)
            if path not in ABOUT_OLD_NAMES and not os.path.islink(os.path.join(folder, path)) \
                    and not path.startswith("shared" + os.sep):
                yield path


def check_old(folder):
    olds = [old for _, _, old in read_names(folder)[1] if old]
    pattern = re.compile(r"(?<!\w)(?:%s)(?!\w)" % "|".join(olds))
    failed, seen = [], 0
    for path in sources(folder):
        seen += 1
        for number, line in enumerate(read(os.path.join(folder, path)).split("\n"), 1):
            for old in pattern.findall(line):
                failed.append("%s:%d has the old name %s" % (path, number, old))
    if seen < 100 or not pattern.search("UTOFU_STATS_FILE=x"):
        failed.append("nothing was looked at")
    return failed


def main():
    failed = {"told": check_told, "old": check_old}[sys.argv[1]](sys.argv[2])
    for line in failed:
        print("FAIL:", line)
    print("ok" if not failed else "%d failed" % len(failed))
    return bool(failed)


sys.exit(main())
