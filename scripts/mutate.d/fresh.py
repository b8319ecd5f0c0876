# SPDX-License-Identifier: Apache-2.0
"""scripts/mutate --fresh: mutations that nobody listed, drawn from the sources of a module or the lines of a change.

All are drawn first, and a copy of the tree is built with all of them (one_build.py). Probes tell which tests come to
which place: all tests run once without a mutation, for this, for their times, and because some fail
anyway. Then for each mutation the tests that execute it run until one fails, beginning with those that the table has
for its function. The few in declarations are built one by one. What survives is compiled with and without the mutation:
the same code is equivalent."""

import concurrent.futures
import contextlib
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import one_build
import operators

ROOTS = ("src", "provider", "layers", "tools/model")
HEAD = "| module | drawn | not compiled | equivalent | harmless | caught | survived | unfinished | score |"
UNCAUGHT = ("survived", "unfinished")
SLOW = 60  # seconds, times UT_TEST_TIMEOUT_SCALE; a test that takes longer without a mutation is left out
PROBE = r"""/* made by scripts/mutate --fresh */
#ifndef UT_FRESH_PROBE
#define UT_FRESH_PROBE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static __attribute__((unused, noinline)) void ut_fresh_reached(unsigned int n)
{
    static unsigned char none[SIZE], *map;
    if (!map) {
        int error = errno;
        const char *name = getenv("UT_FRESH_REACHED");
        int fd = open(name ? name : "UNKNOWN", O_RDWR | O_CLOEXEC);
        void *at = fd >= 0 ? mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
        map = at == MAP_FAILED ? none : at;
        if (fd >= 0)
            close(fd);
        errno = error;
    }
    map[n] = 1;
}
#endif
"""


@dataclass
class Test:
    name: str
    words: list
    env: dict
    targets: list
    suites: set
    seconds: float = 0
    reached: set = field(default_factory=set)


def module_of(path):
    parts = Path(path).parts
    return "/".join(parts[:2] if len(parts) > 2 else parts[:1])


def load_script(path):
    loader = importlib.machinery.SourceFileLoader(path.name.replace("-", "_"), str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def as_words(text):
    return " ".join(text.split())


#
# Drawing
#

def changed_lines(tree, revision):
    """path -> numbers of the lines that differ from the revision."""
    done = subprocess.run(["git", "diff", "-U0", "--no-color", revision], cwd=tree, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise ValueError(f"git diff {revision}: {done.stderr.strip()}")
    lines, path = defaultdict(set), None
    for line in done.stdout.splitlines():
        if line.startswith("+++ "):
            path = Path(line.removeprefix("+++ b/"))
        elif found := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(found.group(1)), int(found.group(2) or 1)
            lines[path].update(range(first, first + count))
    return lines


class Draw:
    """Draws places without parsing files that no draw needs."""

    def __init__(self, bench, args, sources, known):
        self.bench, self.sources, self.known = bench, sources, known
        self.random = random.Random(f"{args.seed}")
        self.lines = changed_lines(bench.origin, args.change) if args.change else None
        self.sites = {}
        self.command = one_build.Commands(bench.build, bench.tree).of
        self.modules = defaultdict(list)
        for path in sorted(sources):
            if self.is_chosen(path, args.module) and path.suffix in (".c", ".h") and self.command(path):
                self.modules[module_of(path)].append(path)

    def is_chosen(self, path, modules):
        if self.lines is not None and path not in self.lines:
            return False
        return any(f"{path}/".startswith(f"{root.rstrip('/')}/") for root in modules or ROOTS)

    def sites_of(self, path):
        if path not in self.sites:
            text = self.sources[path]
            found = operators.sites(self.bench.origin, path, text, self.command(path), self.bench.build)
            if self.lines is not None:
                found = [s for s in found if self.lines[path] & set(
                    range(text.count("\n", 0, s.begin) + 1, text.count("\n", 0, s.end) + 2))]
            self.sites[path] = found
        return self.sites[path]

    def one(self, module, drawn):
        """A site of the module: a file by its length, then a kind, then one of the kind."""
        files = list(self.modules[module])
        while files:
            path = self.random.choices(files, [len(self.sources[p]) for p in files])[0]
            by_kind = defaultdict(list)
            for site in self.sites_of(path):
                if site not in drawn:
                    by_kind[site.kind].append(site)
            if by_kind:
                site = self.random.choice(by_kind[self.random.choice(sorted(by_kind))])
                if (path, as_words(site.apply(self.sources[path]))) not in self.known:
                    return site
                self.sites[path].remove(site)
            else:
                files.remove(path)
        return None

    def again(self, results):
        """The sites of results that survived, where the text is as it was."""
        wanted = {(r["path"], r["before"], r["after"]) for r in results if r["result"] in UNCAUGHT}
        paths = sorted({Path(path) for path, _, _ in wanted} & set(self.sources))
        return [s for p in paths for s in self.sites_of(p) if (str(p), *context(s, self.sources[p])) in wanted]

    def draw(self, count):
        """One of each module, then by the square root of the modules' lengths: a large one is no ten small ones."""
        weights = {m: sum(len(self.sources[p]) for p in paths) ** 0.5 for m, paths in sorted(self.modules.items())}
        drawn, first = [], self.random.sample(sorted(weights), len(weights))
        while weights and len(drawn) < count:
            module = first.pop() if first else self.random.choices([*weights], [*weights.values()])[0]
            site = self.one(module, set(drawn))
            if site:
                drawn.append(site)
            else:
                del weights[module]
        return drawn


#
# Trying
#

class FreshBench(one_build.OneBuild):
    """A copy of the tree, with the means of mutate's Bench, in a folder that can be kept."""

    def __init__(self, mutate, folder, args):
        super().__init__(mutate, mutate.Bench(folder, args.jobs, 1), folder)
        self.args, self.origin, self.jobs = args, mutate.TREE, args.jobs
        self.unknown = folder / "unknown"
        self.headers, self.has_probes = [folder / "reached.h", *self.headers], True
        self.codes = {}
        self.suites = None
        folder.chmod(0o755)  # some tests become another user

    def prepare(self):
        if not (self.build / "build.ninja").exists():
            self.base.prepare()
            return
        names = subprocess.run(["scripts/source-files"], cwd=self.origin, capture_output=True, check=True).stdout
        for name in names.decode().split("\0"):
            new, old = self.origin / name, self.tree / name
            if name and new.is_file() and not (old.is_file() and old.read_bytes() == new.read_bytes()):
                old.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(new, old)
        self.base.ninja("build.ninja")  # new tests

    def suites_of(self, module):
        if not self.suites:
            script = self.origin / "scripts" / "changed-tests"
            changed = load_script(script) if script.exists() else None
            table = changed.SUITES if changed else {}
            self.suites = lambda m: set(table.get(changed.longest(m, table), []) if changed else ())
        return self.suites(module.removeprefix("src/"))

    def prepare_tests(self, modules, commands):
        """The tests of tier quick, with --full also the modules' tests of tier full, and commands of the table."""
        self.base.read_tests()
        own = set().union(*map(self.suites_of, modules))
        tests = {}
        for fact in json.loads((self.build / "meson-info" / "intro-tests.json").read_text()):
            suites = {s.split(":")[-1] for s in fact["suite"]}
            in_table = f"meson {fact['name']}" in commands
            wanted = "quick" in suites and "fuzz" not in suites or self.args.full and "full" in suites and suites & own
            if fact["is_parallel"] and (in_table or wanted):
                tests[f"meson {fact['name']}"] = Test(
                    fact["name"], fact["cmd"], {"MALLOC_PERTURB_": "165", **fact["env"]},
                    self.base.tests[fact["name"]], suites)
        for command in commands:
            if not command.startswith("meson "):
                settings, words = self.mutate.split(command)
                tests[command] = Test(command, [str(self.build / words[0]), *words[1:]], dict(settings),
                                      self.base.targets(command), set())
        return tests

    def run_test(self, test, slot, limit, more=()):
        """Exit status, or None at the time limit; seconds."""
        temporary = self.folder / "tmp" / slot
        temporary.mkdir(exist_ok=True)
        env = self.base.environment | {"UT_TEST_TIMEOUT_SCALE": "3", "TMPDIR": str(temporary)} | dict(more) | test.env
        begun, rc = time.monotonic(), None
        try:
            child = subprocess.Popen(test.words, cwd=self.build, env=env, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        except OSError:
            return 127, 0
        while time.monotonic() < begun + limit and not self.mutate.STOP.is_set():
            with contextlib.suppress(subprocess.TimeoutExpired):
                rc = child.wait(0.1)
                break
        self.mutate.sweep(temporary)
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        shutil.rmtree(temporary, ignore_errors=True)
        return rc, time.monotonic() - begun

    # probes

    def measure(self, tests, sites, sources):
        """Builds with probes, and runs all tests once: those that pass, with times and the places they execute."""
        self.sources = sources
        self.choose_places(sites)
        size = (len(self.sites) + 4095) // 4096 * 4096
        self.write(self.folder / "reached.h", PROBE.replace("SIZE", str(size)).replace("UNKNOWN", str(self.unknown)))
        self.write_all()
        key = hashlib.sha256(repr([(s.path, s.begin, s.new) for s in sites]).encode()).hexdigest()
        kept = self.folder / "reached.json"
        facts = json.loads(kept.read_text()) if kept.exists() else {"key": "", "tried": []}
        if facts["key"] == key and set(tests) <= set(facts["tried"]):
            print("mutate: times and places as measured before", flush=True)
        else:
            facts = {"key": key, "tried": sorted(tests)} | self.measure_now(tests)
            kept.write_text(json.dumps(facts))
        passed = {name: tests[name] for name in facts["tests"] if name in tests}
        for name, test in passed.items():
            test.seconds, test.reached = facts["tests"][name][0], set(facts["tests"][name][1])
        self.build_all(sorted({t for test in passed.values() for t in test.targets}))
        return passed, set(facts["unknown"]) | {n for p in self.lost for n in self.places[p]}

    def measure_now(self, tests):
        size = (len(self.sites) + 4095) // 4096 * 4096
        self.build_all(sorted({t for test in tests.values() for t in test.targets}))
        return self.run_all(tests, size)

    def run_all(self, tests, size):
        self.unknown.write_bytes(bytes(size))
        self.unknown.chmod(0o666)
        facts = {}

        def run_one(numbered):
            number, (name, test) = numbered
            reached = self.folder / f"reached.{number}"
            reached.write_bytes(bytes(size))
            reached.chmod(0o666)
            rc, seconds = self.run_test(test, str(number), SLOW * self.base.scale, {"UT_FRESH_REACHED": str(reached)})
            if rc == 0:
                facts[name] = (seconds, [i for i, byte in enumerate(reached.read_bytes()) if byte])
            elif rc != self.mutate.SKIPPED:
                print(f"mutate: left out: {name}: " + ("too slow" if rc is None else f"fails ({rc})"), flush=True)
            reached.unlink()

        with concurrent.futures.ThreadPoolExecutor(self.jobs * 2) as workers:
            list(workers.map(run_one, enumerate(tests.items())))
        if self.mutate.STOP.is_set():
            raise KeyboardInterrupt
        return {"tests": facts, "unknown": [i for i, byte in enumerate(self.unknown.read_bytes()) if byte]}

    # equivalence

    def commands_of(self, path):
        """The commands that compile a file, or of a header those that include it."""
        entries = json.loads((self.build / "compile_commands.json").read_text())
        name = os.path.relpath(self.tree.resolve() / path, self.build.resolve())
        if path.suffix == ".h":
            deps = subprocess.run(["ninja", "-C", self.build, "-t", "deps"], capture_output=True, text=True, check=True)
            users = {block.split(":")[0] for block in deps.stdout.split("\n\n") if f"    {name}\n" in block + "\n"}
            return [e["command"] for e in entries if e["output"] in users]
        return [e["command"] for e in entries if e["file"] == name]

    def code_of(self, command):
        """The hash of the object code, or None if it does not compile."""
        output = self.folder / "tmp" / "code.o"
        words = [w for w in shlex.split(command) if w != "-MD"]
        for option in ("-o", "-MQ", "-MF"):
            if option in words:
                at = words.index(option)
                del words[at:at + 2]
        rc, _, _ = self.base.run([*words, "-O2", "-g0", "-w", "-o", str(output)], self.build, 300)
        if rc != 0:
            return None
        subprocess.run(["objcopy", "--strip-debug", output], check=True)
        return hashlib.sha256(output.read_bytes()).hexdigest()

    def is_other_code(self, site):
        """True if the mutation changes what is compiled, False if not, None if it does not compile."""
        original = self.sources[site.path]
        try:
            for command in self.commands_of(site.path):
                if (site.path, command) not in self.codes:
                    self.write(site.path, original)
                    self.codes[site.path, command] = self.code_of(command)
                self.write(site.path, site.apply(original))
                code = self.code_of(command)
                if code is None or code != self.codes[site.path, command]:
                    return None if code is None else True
            return False
        finally:
            self.write(site.path, self.text(site.path))

    # tests

    def try_tests(self, site, number, chosen):
        """What became of it, and a word about the tests."""
        if number in self.built:
            return self.run_tests(chosen, number, {self.VARIABLE: str(number + 1)})
        try:
            self.write(site.path, self.text(site.path, site))
            return self.run_tests(chosen, number, {}, 12)
        finally:
            self.write(site.path, self.text(site.path))

    def run_tests(self, chosen, number, env, builds=0):
        """One after the other until one fails, and fails again; builds so many at a time before."""
        begun, flaky = time.monotonic(), 0
        for ran, test in enumerate(chosen):
            if time.monotonic() > begun + self.args.limit:
                return "unfinished", f"{ran} tests in {self.args.limit:g} s; {len(chosen) - ran} others not run"
            if builds and ran % builds == 0:
                rc, said = self.base.ninja(*sorted({t for test in chosen[ran:ran + builds] for t in test.targets}))
                if rc != 0:
                    return "not compiled", said[-200:]
            limit = self.mutate.LEAST_LIMIT + 10 * test.seconds
            rc, _ = self.run_test(test, str(number), limit, env)
            if self.mutate.STOP.is_set():
                raise KeyboardInterrupt
            if rc in (0, self.mutate.SKIPPED):
                continue
            if rc is None or self.run_test(test, str(number), limit, env)[0] not in (0, self.mutate.SKIPPED):
                return "caught", test.name + ", which hangs" * (rc is None)
            flaky += 1
        return "survived", f"{len(chosen)} tests" + f", of which {flaky} failed once" * bool(flaky)


def likely(tests, number, site, own_suites, tests_of, is_unknown):
    """The tests that execute the place, the likeliest and fastest first: those that the table has for its function,
    those for its file, those of its module."""
    by_file = {c for m in tests_of[site.path] for c in m.caught_by}
    by_function = {c for m in tests_of[site.path] if m.function == site.function for c in m.caught_by}

    def executes(name, test):
        if site.probe < 0 or is_unknown:
            return number in test.reached or name in by_file or test.suites & own_suites
        return number in test.reached

    def rank(item):
        name, test = item
        return (0 if name in by_function else 1 if name in by_file else 2 if test.suites & own_suites else 3,
                test.seconds)
    return [test for _, test in sorted(((n, t) for n, t in tests.items() if executes(n, t)), key=rank)]


#
# Results
#

class Known:
    """The changes that tests/mutations.toml and tests/harmless.toml have."""

    def __init__(self, mutate, sources):
        self.sources = sources
        self.caught, self.harmless = {}, {}
        for table, found in ((mutate.load(), self.caught), (mutate.load_harmless(), self.harmless)):
            for m in table.values():
                for path, begin, end in m.places(sources):
                    text = sources[path]
                    (self.harmless if m.reason else found)[path, as_words(text[:begin] + m.new + text[end:])] = m

    def now(self, result):
        """What a result counts as today, and why."""
        if result["result"] not in UNCAUGHT:
            return result["result"], ""
        path = Path(result["path"])
        text = self.sources.get(path, "")
        at = text.find(result["before"])
        if at >= 0 and text.find(result["before"], at + 1) < 0:
            key = path, as_words(text[:at] + result["after"] + text[at + len(result["before"]):])
            for what, table in (("harmless", self.harmless), ("caught", self.caught)):
                if key in table:
                    return what, table[key].name
        return result["result"], ""


def context(site, text):
    """The changed lines with some before them, so that they occur once; and the same after the change."""
    first, last = text.rfind("\n", 0, site.begin) + 1, text.find("\n", site.end)
    while text.count(text[first:last]) > 1 and first > 0:
        first = text.rfind("\n", 0, first - 1) + 1
    return text[first:last], text[first:site.begin] + site.new + text[site.end:last]


def read_results(paths):
    """Of several results for one mutation the last."""
    results = [json.loads(line) for path in paths for line in Path(path).read_text().splitlines()]
    return [*{(r["path"], r["before"], r["after"]): r for r in results}.values()]


def score_lines(results, known):
    """The table of what became of the results when they were drawn, but for those that are harmless."""
    counts = defaultdict(Counter)
    for r in results:
        is_harmless = known.now(r)[0] == "harmless"
        counts[module_of(r["path"])]["harmless" if is_harmless else r["result"]] += 1
    total = Counter()
    for count in counts.values():
        total += count
    rows = [HEAD, re.sub(r"[^|]+", " --- ", HEAD)]
    for module, c in [*sorted(counts.items()), ("all", total)]:
        judged = c["caught"] + c["survived"] + c["unfinished"]
        name = module if module == "all" else f"`{module}`"
        rows.append(f"| {name} | {sum(c.values())} | {c['not compiled']} | {c['equivalent']} | {c['harmless']} | "
                    f"{c['caught']} | {c['survived']} | {c['unfinished']} | " +
                    (f"{100 * c['caught'] // judged} % |" if judged else "- |"))
    return rows


def write_score(mutate, paths):
    """Replaces the table of docs/reference/tests.md by that of the results."""
    results = read_results(paths)
    rows = score_lines(results, Known(mutate, mutate.read_sources(mutate.TREE)))
    seeds = sorted({f"`{r['seed']}`" for r in results})
    date = max(r["date"] for r in results)
    said = f"Scores of {date}: N = {len(results)}, seed {', '.join(seeds)}."
    page = mutate.TREE / "docs" / "reference" / "tests.md"
    old = page.read_text()
    table = re.compile(r"^Scores of .*\n\n" + re.escape(HEAD) + r"\n(?:\|.*\n)+", re.M)
    new, count = table.subn("\n".join([said, "", *rows, ""]), old)
    if count != 1:
        raise mutate.Trouble(f"{page} has no table of scores")
    page.write_text(new)
    print("\n".join([said, *rows]))
    return 0


class FreshRun:
    def __init__(self, mutate, args, bench):
        self.mutate, self.args, self.bench = mutate, args, bench
        self.lock = threading.Lock()
        self.done = read_results([args.results]) if args.results and Path(args.results).exists() else []

    def keep(self, site, text, what, detail):
        before, after = context(site, text)
        result = {"path": str(site.path), "line": text.count("\n", 0, site.begin) + 1, "function": site.function,
                  "kind": site.kind, "old": text[site.begin:site.end], "new": site.new,
                  "before": before, "after": after,
                  "result": what, "detail": detail, "seed": self.args.seed, "date": time.strftime("%Y-%m-%d")}
        self.done.append(result)
        if self.args.results:
            with open(self.args.results, "a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
        return result

    def all(self):
        mutate, args, bench = self.mutate, self.args, self.bench
        bench.prepare()
        sources = mutate.read_sources(bench.origin)
        known = Known(mutate, sources)
        draw = Draw(bench, args, sources, known.caught)
        sites = draw.again(read_results([args.again])) if args.again else draw.draw(args.fresh)
        modules = {module_of(s.path) for s in sites}
        print(f"seed {args.seed}: {len(sites)} mutations of {len(modules)} modules", flush=True)
        if not sites:
            return 0
        table = mutate.load()
        tests_of = defaultdict(list)
        for m in table.values():
            if not m.in_guest and not m.reason:
                for path in {p for p, _, _ in m.places(sources)}:
                    tests_of[path].append(m)
        wanted = {c for s in sites for m in tests_of[s.path] for c in m.caught_by}
        tests, unknown = bench.measure(bench.prepare_tests(modules, wanted), sites, sources)
        print(f"{len(tests)} tests; {len(bench.built)} mutations in one build", flush=True)

        def attempt(number):
            self.try_one(number, sites[number], sources, tests, tests_of, unknown, len(sites), known)

        left = [n for n, s in enumerate(sites) if not self.is_done(s, sources[s.path])]
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as workers:
            list(workers.map(attempt, [n for n in left if n in bench.built]))
        for number in left:
            if number not in bench.built:
                attempt(number)
        print("\n".join(score_lines(self.done, known)))
        return 0

    def is_done(self, site, text):
        return any(r["path"] == str(site.path) and (r["before"], r["after"]) == context(site, text) for r in self.done)

    def try_one(self, number, site, sources, tests, tests_of, unknown, count, known):
        begun, text = time.monotonic(), sources[site.path]
        own = self.bench.suites_of(module_of(site.path))
        what, detail = "survived", "no test executes it"
        if chosen := likely(tests, number, site, own, tests_of, number in unknown):
            what, detail = self.bench.try_tests(site, number, chosen)
        if what in UNCAUGHT:
            with self.lock:
                other = self.bench.is_other_code(site)
            what = what if other else "equivalent" if other is False else "not compiled"
        result = self.keep(site, text, what, detail)
        now, why = known.now(result)
        label = now + f" ({why})" * bool(why)
        old, new = as_words(text[site.begin:site.end])[:60], as_words(site.new)[:60]
        print(f"[{number + 1:3}/{count}] {label:12} {site.path}:{result['line']} {site.function} "
              f"{site.kind}: {old!r} -> {new!r}: {detail} ({time.monotonic() - begun:.0f} s)", flush=True)


@contextlib.contextmanager
def locked(mutate, folder):
    """One run at a time in a folder that is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise mutate.Trouble(f"another run is in {folder}") from None
        yield


def main(mutate, args):
    if args.work:
        folder = Path(args.work).absolute()
        with locked(mutate, folder):
            return FreshRun(mutate, args, FreshBench(mutate, folder, args)).all()
    folder = Path(tempfile.mkdtemp(prefix="mutate."))
    try:
        return FreshRun(mutate, args, FreshBench(mutate, folder, args)).all()
    finally:
        mutate.sweep(folder / "tmp")
        shutil.rmtree(folder, ignore_errors=True)
