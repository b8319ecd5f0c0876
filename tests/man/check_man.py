#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every exported function has a manual page with its comment, and the pages are clean.

usage: check_man.py MAN-DIR VERSION-SCRIPT HEADER ENV-TABLE CODE-TABLE

Checks the formatted pages, as a reader sees them: for the sections, every parameter and return
code of the declaration in HEADER, every line of its types and constants, every variable of
ENV-TABLE, every code of CODE-TABLE with its number, meaning and remedy. man and mandoc report
errors in the source; one that is not installed is skipped with a message.
"""

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

FUNCTION = ["NAME", "LIBRARY", "SYNOPSIS", "DESCRIPTION", "RETURN VALUE", "THREAD SAFETY",
            "STANDARDS", "NOTES", "SEE ALSO"]
TOOL = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO"]
OVERVIEW = ["NAME", "SYNOPSIS", "DESCRIPTION", "ENVIRONMENT", "DIAGNOSTICS", "STANDARDS",
            "SEE ALSO"]
HEADER = ["NAME", "LIBRARY", "SYNOPSIS", "DESCRIPTION", "FUNCTIONS", "RETURN CODES",
          "TYPES AND CONSTANTS", "STANDARDS", "SEE ALSO"]
MANUAL = ["uTofu User's Guide", "J2UL-2567-01Z0(03)"]  # which one it is
UNITS = {  # parameters whose page must name a unit or a range
    "length": r"bytes", "size": r"bytes", "stride": r"bytes", "edata": r"bytes", "num_vbgs": r"\d",
}

MAN = ["man", "--warnings", "-E", "UTF-8", "-l"]  # formats a page, and reports groff's warnings

failed = []


def bad(page, what):
    failed.append("%s: %s" % (page, what))


def run(command):
    """Exit status, output and errors of a command on a page; kept in the folder CHECK_MAN_CACHE by the page's text."""
    cache = os.environ.get("CHECK_MAN_CACHE")
    if not cache or not os.path.isfile(command[-1]):
        return run_now(command)
    with open(command[-1], "rb") as f:
        key = hashlib.sha256(f.read() + repr(command).encode()).hexdigest()
    kept = os.path.join(cache, key)
    if not os.path.exists(kept):
        with open(kept, "w", encoding="utf-8") as f:
            json.dump(run_now(command), f)
    with open(kept, encoding="utf-8") as f:
        return json.load(f)


def run_now(command):
    env = dict(os.environ, LC_ALL="C.UTF-8", MANWIDTH="100", MANROFFSEQ="", MAN_KEEP_FORMATTING="")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, encoding="utf-8",
                          check=False)
    return done.returncode, done.stdout, done.stderr


@functools.lru_cache(maxsize=None)
def has(tool):
    """man may be a stub that reports missing manual pages."""
    if tool == "man":
        return bool(shutil.which(tool)) and run([tool, "--version"])[1].startswith("man ")
    return bool(shutil.which(tool))


@functools.lru_cache(maxsize=None)
def formatted(path):
    for command in (MAN + [path], ["mandoc", "-Tutf8", path]):
        if has(command[0]):
            text = run(command)[1]
            return re.sub(".\b", "", re.sub("\x1b\\[[0-9;]*m", "", text))
    print("skipped: neither man nor mandoc is installed")
    sys.exit(77)


def sections(text):
    """The sections of a page with their text."""
    parts = re.split(r"^([A-Z][A-Z_ ]+)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def flat(text):
    return re.sub(r"\s+", " ", text.replace("\u2010\n", "-"))


def check_source(path):
    name = os.path.basename(path)
    if has("man"):
        # man-db reports groff's warnings
        code, _, said = run(MAN + [path])
        warnings = [line for line in said.split("\n") if re.search(r"warning|error", line)]
        if code or warnings:
            bad(name, "man --warnings: %s" % "; ".join(warnings[:3]))
    if has("mandoc"):
        code, out, said = run(["mandoc", "-Tlint", "-Wwarning", path])
        if code or out or said:
            bad(name, "mandoc -Tlint: %s" % (out + said).strip())


def exported(script):
    with open(script, encoding="utf-8") as f:
        return re.findall(r"^ +(p?utofu_\w+);", f.read(), re.M)


def comments(header):
    """name -> its comment and declaration"""
    with open(header, encoding="utf-8") as f:
        text = f.read()
    found = {}
    for comment, decl, name in re.findall(
            r"/\*\*\n((?: \*.*\n)+?) \*/\n((?:int|void) +(utofu_\w+)\([^;]*;)", text):
        found[name] = (comment, re.sub(r"\s+UTOFU_MUST_USE;$", ";", decl))
    return found


def check_sections(name, got, want):
    for section in want:
        if not got.get(section, "").strip():
            bad(name, "no section %s" % section)


def check_function(folder, name, comment, decl):
    page = name + ".3"
    path = os.path.join(folder, page)
    if not os.path.exists(path):
        bad(page, "there is none")
        return
    got = sections(formatted(path))
    check_sections(page, got, FUNCTION)
    if not re.match(r"\s*%s - \S" % name, got.get("NAME", "")):
        bad(page, "NAME is not the function and its purpose")
    words = re.findall(r"\w+", decl)
    if re.findall(r"\w+", got.get("SYNOPSIS", ""))[-len(words):] != words:
        bad(page, "SYNOPSIS is not the declaration")
    for parameter in re.findall(r"@param (\w+)", comment):
        text = re.search(r"^ +%s \[(in|out|in,out)\]((\n.*)+?)(?=\n +\S+ \[|\Z)" % parameter,
                         got.get("PARAMETERS", ""), re.M)
        if not text:
            bad(page, "PARAMETERS lacks %s" % parameter)
        elif parameter in UNITS and not re.search(UNITS[parameter], text.group(2)):
            bad(page, "%s has no unit: %s" % (parameter, flat(text.group(2))))
    for code in re.findall(r"@return (UTOFU_\w+):", comment):
        if not re.search(r"^ +%s\b" % code, got.get("RETURN VALUE", ""), re.M):
            bad(page, "RETURN VALUE lacks %s" % code)
    if "@flags" in comment and "@flags none" not in comment and "FLAGS" not in got:
        bad(page, "no section FLAGS")


def check_twin(folder, name):
    page = name + ".3"
    twin = os.path.join(folder, "p" + page)
    if not os.path.exists(twin):
        bad("p" + page, "there is none")
    elif open(twin, encoding="utf-8").read() != ".so man3/%s\n" % page:
        bad("p" + page, "does not lead to %s" % page)


def packed(text):
    """Lines may be broken at any hyphen, and functions are followed by their section."""
    return re.sub(r"\s+", "", text).replace("\u2010", "-").replace("(3)", "()")


def declarations(header):
    """The lines that declare types and constants: all text after a comment that is no function."""
    with open(header, encoding="utf-8") as f:
        text = f.read()
    parts = re.split(r"^/\*\*\n(?: \*.*\n)+? \*/\n", text, flags=re.M)[2:]  # behind the file's own
    for part in parts:
        part = re.split(r"^(?:/\*\n|#pragma|#ifdef)", part, flags=re.M)[0]
        if not re.match(r"(?:int|void) ", part):
            yield from (line for line in part.split("\n") if line)


def check_header(path, header, table):
    """utofu.3 has every line of the declarations, and every return code."""
    got = sections(formatted(path))
    lines = {flat(line).strip() for line in got.get("TYPES AND CONSTANTS", "").split("\n")}
    wanted = list(declarations(header))
    for line in wanted:
        if flat(line).strip() not in lines:
            bad("utofu.3", "TYPES AND CONSTANTS lacks: %s" % line.strip())
    text = packed(got.get("RETURN CODES", ""))
    numbers = dict(re.findall(r"^ +(UTOFU_\w+) = (-?\d+)\b", "\n".join(wanted), re.M))
    with open(table, encoding="utf-8") as f:
        entries = re.findall(r"^X\((\w+),((?:[^\"]|\"[^\"]*\")*?)\)$", f.read(), re.M)
    for name, rest in entries:
        words = re.sub(r"\"\s*\"", "", rest)
        meaning, remedy = re.findall(r"\"([^\"]*)\"", words)
        want = "%s (%s) %s Remedy: %s" % (name, numbers.get(name, "?"), meaning, remedy)
        if packed(want) not in text:
            bad("utofu.3", "RETURN CODES lacks: %s" % want)
    for name in numbers:
        if name.startswith(("UTOFU_ERR_", "UTOFU_SUCCESS")) and name not in dict(entries):
            bad("utofu.3", "%s is not in %s" % (name, os.path.basename(table)))


def check_references(folder, pages):
    """The pages in SEE ALSO exist."""
    for page in pages:
        text = formatted(os.path.join(folder, page))
        for name, section in re.findall(r"\b((?:p?utofu)[\w-]*)\(([137])\)", text):
            if not os.path.exists(os.path.join(folder, "%s.%s" % (name, section))):
                bad(page, "refers to %s(%s), which is not there" % (name, section))


def check_manual(folder, pages):
    """A page that mentions the manual gives its title."""
    for page in pages:
        text = flat(formatted(os.path.join(folder, page)))
        for title in MANUAL:
            if re.search(r"\bmanual\b", text) and title not in text:
                bad(page, "speaks of the manual and does not name it: %s" % title)


def check_html(folder):
    """The HTML pages, if they are built, link to each other."""
    pages = [p for p in os.listdir(folder) if p.endswith(".html")]
    for page in pages:
        with open(os.path.join(folder, page), encoding="utf-8") as f:
            links = re.findall(r'href="([^"#:]+)"', f.read())
        if not links:
            bad(page, "leads nowhere")
        for link in links:
            if not os.path.exists(os.path.join(folder, link)):
                bad(page, "leads to %s, which is not there" % link)


def main():
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    folder, script, header, table, codes = sys.argv[1:]
    extensions = comments(os.path.join(os.path.dirname(header), "utofu_ext.h"))
    known = {**comments(header), **extensions}
    for name in exported(script):
        plain = name[1:] if name.startswith("p") else name
        if plain not in known:
            bad(name, "has no comment in the header")
        elif plain == name:
            check_function(folder, name, *known[name])
            if name not in extensions:
                check_twin(folder, name)
    others = {"utofu.3": HEADER, "utofu-verbs.7": OVERVIEW}
    others.update({f"utofu{t}.1": TOOL for t in ("run", "-perf", "-info", "-test", "-trace", "-model")})
    for page, want in others.items():
        if not os.path.exists(os.path.join(folder, page)):
            bad(page, "there is none")
            continue
        check_sections(page, sections(formatted(os.path.join(folder, page))), want)
    if os.path.exists(os.path.join(folder, "utofu.3")):
        check_header(os.path.join(folder, "utofu.3"), header, codes)
    overview = os.path.join(folder, "utofu-verbs.7")
    if os.path.exists(overview):
        text = formatted(overview)
        with open(table, encoding="utf-8") as f:
            entries = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
        for variable in re.findall(r'^X\(\w+, "(\w+)"', entries, re.M):
            is_shown = variable != "UTOFU_TEST"  # which is for tests
            if bool(re.search(r"^ +%s \(" % variable, text, re.M)) != is_shown:
                bad("utofu-verbs.7", "%s %s" % ("lacks" if is_shown else "shows", variable))
        for of, option, old in re.findall(r'^OPTION\(\s*\w+,\s*(\w+),\s*"(\w+)",\s*(?:"(\w+)"|NULL)', entries, re.M):
            for line in [r" +,%s= \(" % option] + ([r" +%s$" % old] if old else []):
                if bool(re.search("^" + line, text, re.M)) != (of != "TEST"):
                    bad("utofu-verbs.7", "%s the option %s, or its old name %s" %
                        ("shows" if of == "TEST" else "lacks", option, old))
    pages = sorted(p for p in os.listdir(folder) if re.fullmatch(r"utofu[\w-]*\.[137]", p))
    for page in pages:
        check_source(os.path.join(folder, page))
    check_references(folder, pages)
    check_manual(folder, pages)
    check_html(folder)
    for what in ("man", "mandoc"):
        if not has(what):
            print("not tried: %s is not installed" % what)
    for line in failed:
        print("FAIL", line)
    if not failed:
        print("ok: %d pages" % len(pages))
    sys.exit(1 if failed else 0)


main()
