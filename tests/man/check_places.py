#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What docs/ says about places in the sources is so: a function "`name` (`file.c`)" is one of that file, and the
versions in docs/reference/versions.md are those of the code. Links of installed pages lead to installed pages, and
docs/README.md leads to each page. Pages that are wrong in one place are noticed.

usage: check_places.py SOURCES
"""
import re
import sys
from pathlib import Path

INSTALLED = ("README.md", "SECURITY.md", "docs", "examples")  # what an installed page may lead to
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
PLACE = re.compile(r"`(\w+)(?:\(\))?`\s+(?:\(|in\s+)`([\w/.-]+\.[ch])`")
VERSIONS = {"shm": ("provider/shm/layout.h", "SP_VERSION"),
            "verbs": ("provider/verbs/ports/address.c", "ADDRESS_VERSION"),
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


def wrong_links(tree, page, text):
    for link in LINK.findall(text):
        target = (page.parent / link).resolve()
        if "://" not in link and not (target.exists() and target.is_relative_to(tree) and
                                      target.relative_to(tree).parts[0] in INSTALLED):
            yield f"{link} is not there, or not installed"


def missing_in_map(tree, text):
    named = {(tree / "docs" / link).resolve() for link in LINK.findall(text)}
    yield from (f"{page} is missing" for page in sorted((tree / "docs").glob("*/*.md")) if page not in named)


def main():
    tree = Path(sys.argv[1]).resolve()
    architecture, versions = (tree / "docs" / f"{name}.md" for name in ("design/architecture", "reference/versions"))
    wrong = [f"{page.name}: {what}" for page in sorted((tree / "docs").rglob("*.md"))
             for what in wrong_places(tree, page.read_text())]
    installed = [tree / "README.md", tree / "SECURITY.md", *sorted((tree / "docs").rglob("*.md"))]
    wrong += [f"{page.name}: {what}" for page in installed for what in wrong_links(tree, page, page.read_text())]
    overview = tree / "docs" / "README.md"
    wrong += [f"docs/README.md: {what}" for what in missing_in_map(tree, overview.read_text())]
    wrong += [f"versions.md: {what}" for what in wrong_versions(tree, versions.read_text())]
    text = architecture.read_text()
    twins = (("a function in another file", list(wrong_places(tree, text.replace("`on_packet` (`barrier/net.c`)",
                                                                                 "`on_packet` (`barrier/gate.c`)")))),
             ("a file that is not there", list(wrong_places(tree, text.replace("(`shm/xfer.c`)", "(`shm/xfers.c`)")))),
             ("an old version", list(wrong_versions(tree, versions.read_text().replace("ofi ", "ofi 1")))),
             ("a page that is not in the map",
              list(missing_in_map(tree, overview.read_text().replace("acp.md", "a.md")))),
             ("a link to nowhere", list(wrong_links(tree, overview, "[acp](acp.md)"))),
             ("a link to what is not installed", list(wrong_links(tree, overview, "[C](../CONTRIBUTING.md)"))))
    wrong += [f"{what} is not noticed" for what, found in twins if not found]
    if len(PLACE.findall(text)) < 30:
        wrong.append("architecture.md has hardly any places")
    for line in wrong:
        print("FAIL:", line)
    return 1 if wrong else 0


sys.exit(main())
