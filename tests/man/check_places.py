#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""References of docs/ to the sources are right: a function "`name` (`file.c`)" is in that file, and
the versions in docs/versions.md are those of the code. Pages with one error are detected.

usage: check_places.py SOURCES
"""
import re
import sys
from pathlib import Path

PLACE = re.compile(r"`(\w+)(?:\(\))?`\s+(?:\(|in\s+)`([\w/.-]+\.[ch])`")
VERSIONS = {"shm": ("provider/shm/layout.h", "SP_VERSION"),
            "verbs": ("provider/verbs/address.c", "ADDRESS_VERSION"),
            "ofi": ("provider/ofi/types.h", "FP_VERSION")}


def files_of(tree, name):
    """A path from the top, or from src/ or provider/, or the end of a path."""
    exact = [tree / top / name for top in ("", "src", "provider", "include") if (tree / top / name).is_file()]
    return exact or [path for top in ("src", "provider") for path in sorted((tree / top).rglob("*"))
                     if path.as_posix().endswith("/" + name)]


def wrong_places(tree, text):
    for function, name in PLACE.findall(text):
        files = files_of(tree, name)
        # declarations, macros and constants of headers, too
        pattern = rf"^(?:[^\s#/*][^;\n]*\b)?{function}\(" if name.endswith(".c") else rf"\b{function}\b"
        if not any(re.search(pattern, path.read_text(), re.M) for path in files):
            yield f"{function} is not in {name}" if files else f"there is no {name}"


def wrong_versions(tree, text):
    listed = dict(re.findall(r"\b(shm|verbs|ofi) (\d+)\b", text))
    for provider, (path, constant) in VERSIONS.items():
        now = re.search(rf"\b{constant} = (\d+)", (tree / path).read_text()).group(1)
        if listed.get(provider) != now:
            yield f"{provider}'s own format is {now}, not {listed.get(provider)}"
    wire = re.search(r"UT_WIRE_VERSION = (\d+)", (tree / "src/wire/wire.h").read_text()).group(1)
    if f"| the wire format | {wire} |" not in text:
        yield f"the wire format is {wire}"


def main():
    tree = Path(sys.argv[1])
    architecture, versions = (tree / "docs" / f"{name}.md" for name in ("architecture", "versions"))
    wrong = [f"{page.name}: {what}" for page in sorted((tree / "docs").glob("*.md"))
             for what in wrong_places(tree, page.read_text())]
    wrong += [f"versions.md: {what}" for what in wrong_versions(tree, versions.read_text())]
    text = architecture.read_text()
    twins = (("a function in another file", list(wrong_places(tree, text.replace("`on_packet` (`barrier/net.c`)",
                                                                                 "`on_packet` (`barrier/gate.c`)")))),
             ("a file that is not there", list(wrong_places(tree, text.replace("(`shm/xfer.c`)", "(`shm/xfers.c`)")))),
             ("an old version", list(wrong_versions(tree, versions.read_text().replace("ofi ", "ofi 1")))))
    wrong += [f"{what} is not noticed" for what, found in twins if not found]
    if len(PLACE.findall(text)) < 30:
        wrong.append("architecture.md has hardly any places")
    for line in wrong:
        print("FAIL:", line)
    return 1 if wrong else 0


sys.exit(main())
