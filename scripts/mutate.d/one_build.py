# SPDX-License-Identifier: Apache-2.0
"""One build of a tree with many mutations, for scripts/mutate: each statement of a block with a mutation stands there
once as it is and once for each mutation, and a variable of the environment says which is executed. --fresh also has a
probe before it, which tells which tests come there."""

import dataclasses
import json
import os
import re
from collections import defaultdict
from pathlib import Path

import operators

CHOICE = r"""/* made by scripts/mutate */
#ifndef UT_FRESH_CHOICE
#define UT_FRESH_CHOICE
#include <stdlib.h>
static int ut_fresh_active = -1;
/* Before the program changes its environment. */
static __attribute__((unused, constructor)) void ut_fresh_read(void)
{
    const char *number = getenv("UT_FRESH_MUTATION");
    ut_fresh_active = number ? atoi(number) : 0;
}
static __attribute__((unused, noinline)) int ut_fresh_is(int n)
{
    if (ut_fresh_active < 0)
        ut_fresh_read();
    return ut_fresh_active == n;
}
#endif
"""


class Commands:
    """The command that compiles a file, or for a header one that compiles a file beside it."""

    def __init__(self, build, tree):
        self.commands = defaultdict(list)
        for entry in json.loads((build / "compile_commands.json").read_text()):
            path = Path(os.path.relpath(build.resolve() / entry["file"], tree.resolve()))
            self.commands[path].append(entry["command"])

    def of(self, path):
        if path in self.commands:
            return self.commands[path][0]
        beside = (c for p, c in sorted(self.commands.items()) if path.suffix == ".h" and p.parent == path.parent)
        return next((c[0] for c in beside), None)


class OneBuild:
    """The sources of a tree with mutations; `base` is mutate's Bench with a copy of the tree."""

    VARIABLE = "UT_FRESH_MUTATION"  # as in CHOICE

    def __init__(self, mutate, base, folder):
        self.mutate, self.base, self.folder = mutate, base, folder
        self.tree = base.tree = base.tree.resolve()  # Meson has such paths
        self.build = base.build = self.tree / "build"
        self.sources, self.places = {}, defaultdict(list)  # texts as they are; path -> numbers of sites
        self.sites, self.built, self.lost = [], set(), set()  # built: those that can be chosen at run time
        self.headers = [folder / "choice.h"]
        self.has_probes = False

    def text(self, path, site=None):
        """A file with its probes and with all of its mutations that can be chosen at run time, or with one mutation."""
        text = self.sources[path]
        if site or path in self.lost:
            return site.apply(text) if site else text
        places = defaultdict(list)
        for number in self.places.get(path, []):
            if number in self.built or self.has_probes:
                places[self.sites[number].probe, self.sites[number].probe_end].append(number)
        text = self.render(text, 0, len(text), sorted(places.items(), key=lambda p: (p[0][0], -p[0][1])))
        headers = "".join(f'#include "{header}"\n' for header in self.headers)
        return f"{headers}#line 1\n{text}" if places else text

    def render(self, text, begin, end, places):
        """The text from begin to end; of places one behind the other or inside each other."""
        out = ""
        while places:
            (first, last), numbers = places.pop(0)
            out += text[begin:first]
            out += "".join(f"ut_fresh_reached({n}); " for n in numbers if self.has_probes)
            begin = first
            if last >= 0:
                inner = []
                while places and places[0][0][0] < last:
                    inner.append(places.pop(0))
                for n in numbers:
                    s = self.sites[n]
                    out += f"if (ut_fresh_is({n + 1})) {{ {text[first:s.begin]}{s.new}{text[s.end:last]} }} else "
                out += "{ " + self.render(text, first, last, inner) + " }"
                begin = last
        return out + text[begin:end]

    def choose_places(self, sites):
        """Which mutations can be chosen at run time: no two of them are in statements that overlap in part."""
        self.sites = sites
        for number, site in enumerate(sites):
            if site.probe < 0:
                continue
            text = self.sources[site.path][site.probe:site.probe_end]
            ranges = [(self.sites[n].probe, self.sites[n].probe_end) for n in self.places[site.path]]
            apart = all(site.probe_end <= b or e <= site.probe or b <= site.probe and site.probe_end <= e or
                        site.probe <= b and e <= site.probe_end for b, e in ranges)
            has_label = re.search(r"^\s*\w+:\s*$", text, re.M) and "switch" not in text
            if site.probe_end < 0 or not apart or has_label:
                self.sites = [*self.sites]
                self.sites[number] = dataclasses.replace(site, probe_end=-1)
            else:
                self.built.add(number)
            self.places[site.path].append(number)

    def write(self, path, text):
        file = self.tree / path
        if not file.exists() or file.read_text() != text:
            file.write_text(text)

    def write_all(self):
        self.write(self.folder / "choice.h", CHOICE)
        for path in self.sources:
            self.write(path, self.text(path))

    def build_all(self, targets):
        """Builds the targets; a file that its mutations break is built without them."""
        for _ in range(6):
            rc, said = self.base.ninja("-k0", *targets)
            if rc == 0:
                return
            broken = {p for p in self.places if p not in self.lost and
                      re.search(rf"{re.escape(str(p))}:\d+:\d+: error", said)}
            for path in broken:
                error = re.search(rf"{re.escape(str(path))}.*error.*", said).group()
                self.leave_out(path, error)
            if not broken:
                break
        raise self.mutate.Trouble(f"the copy of the tree does not build:\n{said[-3000:]}")

    def leave_out(self, path, error):
        """A file of which the compiler has said an error stays as it is."""
        print(f"mutate: no probes in {path}: {error}", flush=True)
        self.lost.add(path)
        self.built -= set(self.places[path])
        self.write(path, self.sources[path])


class Listed(OneBuild):
    """Mutations of the table: those that are within statements of one block."""

    def __init__(self, mutate, base, mutations):
        super().__init__(mutate, base, base.tree.resolve().parent)
        self.sources = mutate.read_sources(self.tree)
        commands, files, sites = Commands(self.build, self.tree), {}, []
        self.numbers = {}
        for m in mutations:
            found = [*m.places(self.sources)]
            path, begin, end = found[0] if len(found) == 1 else (None, 0, 0)  # else an error when it is tried alone
            command = path and path.suffix in (".c", ".h") and not m.in_guest and commands.of(path)
            if command:
                if path not in files:
                    files[path] = operators.parsed(self.tree, path, self.sources[path], command, self.build)
                self.numbers[m.name] = len(sites)
                sites.append(operators.Site(path, "listed", begin, end, m.new, m.function or "",
                                            *files[path].statements_with(begin, end)))
        self.choose_places(sites)
        self.write_all()

    def __contains__(self, m):
        return self.numbers.get(m.name) in self.built

    def number(self, m):
        """The value of the variable with which the mutation is executed."""
        return str(self.numbers[m.name] + 1)

    def make(self, targets):
        """Builds the targets; without the mutations that do not compile in this way."""
        while True:
            rc, said = self.base.ninja("-k0", *targets)
            broken = {self.number_at(*place) for place in re.findall(r"^(\S+?):(\d+):(\d+): error", said, re.M)}
            undefined = set(re.findall(r"undefined (?:reference to|symbol:) [`']?(\w+)", said))
            broken |= {n for n in self.built if undefined & set(re.findall(r"\w+", self.sites[n].new))}
            broken &= self.built
            if rc == 0 or not broken:
                return rc, said
            self.built -= broken
            for path in {self.sites[n].path for n in broken}:
                self.write(path, self.text(path))

    def number_at(self, name, line, column):
        """Which mutation an error is in: the last that begins before it."""
        path = Path(os.path.relpath(self.build / name, self.tree))
        if not self.built & set(self.places.get(path, [])):
            return None
        lines = self.text(path).split("#line 1\n", 1)[1].split("\n")
        before = "\n".join([*lines[:int(line) - 1], lines[int(line) - 1][:int(column)]])
        numbers = [int(n) - 1 for n in re.findall(r"ut_fresh_is\((\d+)\)", before)]
        return numbers[-1] if numbers else max(self.built & set(self.places[path]))

    def restore(self):
        """The sources as they are."""
        for path, text in self.sources.items():
            self.write(path, text)
