#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every function, constant and type of the public headers is in all bindings.

usage: check_names.py FORTRAN.f90 CXX.hpp [PYTHON...] HEADER...           exit status 1 if one is missing
       check_names.py --gaps FORTRAN.f90 CXX.hpp [PYTHON...] HEADER...    each name in turn is taken out of the
           bindings, and has to be missed; so is a name that is new in the headers
"""
import re
import sys
from pathlib import Path

NOT_FOR_PROGRAMS = {"UTOFU_H", "UTOFU_EXT_H", "UTOFU_MUST_USE"}
ENUM_CLASSES = {"utofu_return_code", "utofu_mrq_notice_type"}  # of their own in C++: their values are checked
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


def names_of(headers):
    """name -> "function", "constant" or "type" """
    names = {}
    for text in headers:
        code = COMMENT.sub(" ", text)
        names.update(dict.fromkeys(re.findall(r"\b(utofu_\w+)\s*\([^()]*\)[^;{]*;", code), "function"))
        names.update(dict.fromkeys(re.findall(r"^\s*(UTOFU_\w+)\s*=", code, re.M), "constant"))
        names.update(dict.fromkeys(re.findall(r"^#\s*define\s+(UTOFU_\w+)", code, re.M), "constant"))
        names.update(dict.fromkeys(re.findall(r"^typedef\b[^;]*\b(utofu_\w+);", code, re.M), "type"))
        names.update(dict.fromkeys(re.findall(r"^(?:struct|enum) (utofu_\w+) \{", code, re.M), "type"))
    return {name: kind for name, kind in names.items() if name not in NOT_FOR_PROGRAMS}


def missing_in_fortran(names, text):
    """What the module makes public is there: the compiler sees to that."""
    public = {name.lower() for name in re.findall(r"^\s*public :: (\w+)", text, re.M)}
    called = set(re.findall(r'bind\(c, name="(\w+)"\)', re.sub(r"\s*&\n\s*", " ", text)))
    for name, kind in names.items():
        here = name.removesuffix("_t") + "_kind" if kind == "type" and name.lower() not in public else name
        if here.lower() not in public or (kind == "function" and name not in called):
            yield f"Fortran: {kind} {name}"


def missing_in_cxx(names, text):
    code = COMMENT.sub(" ", text)
    used = set(re.findall(r"\b(?:utofu|UTOFU)_\w+\b", code))
    called = set(re.findall(r"\b(utofu_\w+)\(", code))
    for name, kind in names.items():
        if name in ENUM_CLASSES:
            continue
        if name not in (called if kind == "function" else used):
            yield f"C++: {kind} {name}"


def missing_in_python(names, text):
    """Ids are numbers there: it has no types for them. Functions are called by cffi's lib, or by fast.c."""
    words = set(re.findall(r"\b(?:utofu|UTOFU)_\w+", text))
    called = set(re.findall(r"\blib\.(utofu_\w+)", text))
    called |= set(re.findall(r"\b(utofu_\w+)[(,]", text))
    called |= {"utofu_" + name for name in re.findall(r"\blib\.start_(\w+)", text)}
    for name, kind in names.items():
        if not name.endswith("_t") and name not in (called if kind == "function" else words):
            yield f"Python: {kind} {name}"


def missing(names, fortran, cxx, python):
    return [*missing_in_fortran(names, fortran), *missing_in_cxx(names, cxx),
            *(missing_in_python(names, python) if python else [])]


def without(name, text):
    return re.sub(rf"\b{name}\b", "taken_out", text)


def gaps_passed(names, fortran, cxx, python):
    """Names whose absence nobody notices."""
    for name, kind in names.items():
        if f"Fortran: {kind} {name}" not in missing(names, without(name.removesuffix("_t") + "_kind", without(
                name, fortran)), cxx, ""):
            yield f"Fortran without {name}"
        if f"C++: {kind} {name}" not in missing(names, fortran, without(name, cxx), "") and \
                name not in ENUM_CLASSES:
            yield f"C++ without {name}"
        short = without("start_" + name.removeprefix("utofu_"), without(name, python))
        if python and f"Python: {kind} {name}" not in missing_in_python(names, short) and not name.endswith("_t"):
            yield f"Python without {name}"
    for name, kind in (("utofu_new", "function"), ("UTOFU_NEW", "constant"), ("utofu_new_t", "type")):
        for language in ("Fortran", "C++") + (("Python",) if python and kind != "type" else ()):
            if f"{language}: {kind} {name}" not in missing({**names, name: kind}, fortran, cxx, python):
                yield f"{language}: the new {kind} {name}"


def main():
    gaps = sys.argv[1] == "--gaps"
    texts = {path: Path(path).read_text(encoding="utf-8") for path in sys.argv[1 + gaps:]}
    headers = [path for path in texts if Path(path).name in ("utofu.h", "utofu_ext.h")]
    fortran, cxx, *python = [text for path, text in texts.items() if path not in headers]
    python = "\n".join(line for text in python for line in COMMENT.sub(" ", text).splitlines()
                       if re.search("utofu_|UTOFU_|lib.start_", line))
    names = names_of(texts[path] for path in headers)
    for kind, least in (("function", 70), ("constant", 100), ("type", 15)):
        if list(names.values()).count(kind) < least:
            sys.exit(f"only {list(names.values()).count(kind)} names of kind {kind} were found in the headers")
    wrong = list(gaps_passed(names, fortran, cxx, python)) if gaps else missing(names, fortran, cxx, python)
    for line in wrong:
        print(("not noticed: " if gaps else "missing: ") + line)
    if wrong:
        sys.exit(1)
    print(f"ok: {len(names)} names" + ("" if python else "; Python is not built"))


if __name__ == "__main__":
    main()
