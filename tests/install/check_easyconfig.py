#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The EasyBuild recipe has what EasyBuild asks for, takes options of this project, and its sanity check looks for files
that are installed. A recipe that is wrong in one place is noticed.

usage: check_easyconfig.py RECIPE MESON-OPTIONS
"""
import re
import sys

MANDATORY = {"name", "version", "homepage", "description", "toolchain", "sources", "moduleclass"}
KNOWN = MANDATORY | {"easyblock", "builddependencies", "dependencies", "osdependencies", "configopts",
                     "sanity_check_paths", "sanity_check_commands", "modextrapaths"}
CLASSES = {"base", "devel", "lib", "mpi", "perf", "system", "tools"}
INSTALLED = {"bin/utofurun", "bin/utofu-info", "bin/utofu-perf", "bin/utofu-trace", "bin/utofu-test", "include/utofu.h",
             "lib/pkgconfig/utofu.pc", "lib/libtofucom.so"}


def complaints(text, options):
    """Yields what is wrong."""
    values = {}
    exec(compile(text, "recipe", "exec"), {"SHLIB_EXT": "so"}, values)  # pylint: disable=exec-used
    yield from ("no %s" % name for name in sorted(MANDATORY - set(values)))
    yield from ("unknown: %s" % name for name in sorted(set(values) - KNOWN))
    known = dict(re.findall(r"^option\('(\w+)', type: '(\w+)'", options, re.M))
    for name, value in re.findall(r"-D(\w+)=(\S+)", values.get("configopts", "")):
        if name not in known and not name.startswith("b_"):
            yield "there is no option %s" % name
        if known.get(name) == "feature" and value not in ("enabled", "disabled", "auto"):
            yield "%s does not take %s" % (name, value)
    for kind in ("builddependencies", "dependencies"):
        for entry in values.get(kind, []):
            if not (isinstance(entry, tuple) and len(entry) >= 2 and all(isinstance(e, str) for e in entry)):
                yield "%s: %r is no name and version" % (kind, entry)
    paths = values.get("sanity_check_paths", {})
    if set(paths) != {"files", "dirs"}:
        yield "sanity_check_paths has files and dirs"
    for entry in paths.get("files", []):
        names = entry if isinstance(entry, tuple) else (entry,)
        if not set(names) & INSTALLED:
            yield "%s is not installed" % ", ".join(names)
    if set(values.get("toolchain", {})) != {"name", "version"} or values.get("moduleclass") not in CLASSES:
        yield "toolchain or moduleclass"


def main():
    recipe, options = (open(path, encoding="utf-8").read() for path in sys.argv[1:])
    bad = list(complaints(recipe, options))
    twins = [("moduleclass = 'mpi'", "moduleclass = 'fun'"), ("-Dofi=enabled", "-Dofi=on"), ("-Dtests=", "-Dtest="),
             ("bin/utofu-test", "bin/utofu-tests"), ("homepage = ", "homepages = ")]
    for old, new in twins:
        if old not in recipe or not list(complaints(recipe.replace(old, new), options)):
            bad.append("%s instead of %s is not noticed" % (new, old))
    print("\n".join(bad) or "ok")
    sys.exit(1 if bad else 0)


main()
