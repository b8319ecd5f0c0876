#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the verifier's scenarios, and mutations of the code under test.

Each atomic access and fence gets the next weaker order, and each store comes behind the thread's
next access, one at a time. A scenario has to notice each of them, unless the table of
docs/reference/orders.md says why nothing depends on it.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ORDERS = {0: "relaxed", 1: "consume", 2: "acquire", 3: "release", 4: "acq_rel", 5: "seq_cst"}
TOKENS = {
    "load": "load",
    "store": "store",
    "exchange": "exchange",
    "cas": "compare_exchange",
    "add": "add",
    "sub": "sub",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "fence": "thread_fence",
}
# The lock-free code of each piece: files, and their functions (None: all).
PIECES = {
    "counts": {
        "layers/lapi/context.h": {"la_cntr_increment"},
        "src/check/table.c": {
            "add_counts", "pass_counts_on", "publish_table", "ut_table_count", "is_whole_job",
            "ut_table_has_one_active",
        },
        "src/stats/totals.c": {"ut_stats_keep", "ut_stats_totals"},
    },
    "lock": {"src/util/lock.h": None, "src/util/lock.c": None},
    "ring": {
        "provider/shm/ring.h": None,
        "provider/shm/ep.c": {
            "consume_slots", "poll_slow", "sp_ep_poll", "has_work", "sp_ep_arm", "check_peers",
        },
        "provider/shm/sock.c": {"sp_send_doorbell"},
        "provider/shm/wake.c": {"sp_request_peer_checks"},
        "provider/shm/prov.c": {"collect_rung_owners"},
    },
    "table": {
        "src/check/table.c": {
            "take_entry", "give_entry", "claim_reference", "write_words", "ut_table_enter", "ut_table_leave",
            "read_entry", "ut_table_find",
        },
    },
    "wait": {
        "src/vcq/wait.c": {"end_waiter", "ut_vcq_request_progress"},
        "src/vcq/wait.h": {"ut_waiter_has_ended"},
        "src/runtime/wait.c": {"take_eventfd", "give_eventfd", "wait_in"},
        "src/runtime/thread.c": {
            "ut_thread_wake", "visit_vcq", "ut_thread_begin_serving", "ut_thread_end_serving",
        },
    },
}
SLOW = "slow:"
Site = collections.namedtuple("Site", "pc kind order fail file function line")


class Source:
    """A source file: the text of its functions."""

    def __init__(self, root, name):
        self.name = name
        self.lines = (root / name).read_text().splitlines()
        self.functions = {}  # name: (first, last), lines from 1 on
        first = None
        for i, line in enumerate(self.lines, 1):
            if line == "{":
                first = i
            elif line == "}" and first:
                head = " ".join(self.lines[max(0, first - 6):first - 1])
                head = head[max(head.rfind(";"), head.rfind("}"), head.rfind("*/")) + 1:]
                found = re.findall(r"(\w+)\(", re.sub(r"__attribute__\(\(.*?\)\)+", "", head))
                if found:
                    self.functions[found[0]] = (first, i)
                first = None

    def function_at(self, line):
        for name, (first, last) in self.functions.items():
            if first <= line <= last:
                return name
        return None

    def atomics(self, function):
        """Its atomic operations: (line, token, argument)."""
        first, last = self.functions[function]
        text = "\n".join(self.lines[first:last])
        for m in re.finditer(r"__atomic_(\w+?)(?:_n)?\(\s*", text):
            name = m.group(1)
            if name == "signal_fence":
                continue
            arg = text[m.end():]
            depth, end = 0, 0
            for end, c in enumerate(arg):
                depth += (c == "(") - (c == ")")
                if depth < 0 or (c == "," and depth == 0):
                    break
            arg = "" if "fence" in name else re.sub(r"\s+", " ", arg[:end]).lstrip("&")
            yield first + 1 + text.count("\n", 0, m.start()), name, arg


def key_of(source, site):
    """The name of a site in the table."""
    if site.kind == "plain":
        return f"{site.function}: {source.lines[site.line - 1].strip()}"
    token = TOKENS.get(site.kind)
    best = None
    for n, (line, name, arg) in enumerate(source.atomics(site.function)):
        if token and token in name and (best is None or abs(line - site.line) < abs(best[0] - site.line)):
            best = (line, name, arg, n)
    if not best or abs(best[0] - site.line) > 6:
        return None
    same = [n for n, (_, name, arg) in enumerate(source.atomics(site.function))
            if (name, arg) == best[1:3]]
    number = f" #{same.index(best[3]) + 1}" if len(same) > 1 else ""
    return f"{site.function}: {best[1]} {best[2]}".rstrip() + number


def sites_of(program, root, output):
    """Sites that the program has met, with where they are."""
    raw = [line.split()[1:] for line in output.splitlines() if line.startswith("site ")]
    raw = [r for r in raw if r[1] != "plain" or r[5] == "1"]  # only what other threads access, too
    pcs = "\n".join(hex(int(r[0], 16) - 1) for r in raw)
    text = subprocess.run(["addr2line", "-a", "-i", "-f", "-e", program], input=pcs, text=True,
                          stdout=subprocess.PIPE, check=True).stdout.splitlines()
    places, i = [], 0
    while i < len(text):
        i += 1  # the address
        function, place = text[i], text[i + 1]
        i += 2
        places.append((function, place))
        while i < len(text) and not text[i].startswith("0x"):
            i += 2  # callers of an inlined function
    for r, (function, place) in zip(raw, places):
        name, _, line = place.partition(" ")[0].rpartition(":")
        if not line.isdigit():
            continue
        path = os.path.relpath(os.path.realpath(name), os.path.realpath(root))
        yield Site(r[0], r[1], int(r[2]), int(r[3]), path, function.partition(".")[0], int(line))


def find_source(files, site):
    """Binutils name the including file for some functions of an included one."""
    if site.file in files:
        return files[site.file]
    for source, names in files.values():
        first, last = source.functions.get(site.function, (0, 0))
        if first <= site.line <= last:
            return source, names
    return None, None


def mutations_of(site, x86):
    if site.kind == "plain":
        return [("late", "late")]
    found = []
    # of x86's orders only that of a store with sequential consistency is an instruction of its own
    same = x86 and (site.order != 5 or site.kind not in ("store", "fence"))
    if site.order != 0 and not same:
        found.append(("weaken", "weaker" if site.order != 4 else "weaker: acquire"))
        if site.order == 4:
            found.append(("weaken-other", "weaker: release"))
    if site.kind == "fence":
        found.append(("weaken-other", "gone"))
    if site.kind == "cas" and site.fail != 0 and not x86:
        found.append(("weaken-fail", "weaker on failure"))
    if site.kind == "store":
        found.append(("late", "late"))
    return found


def read_table(path):
    """{(key, mutation): reason} of the harmless ones."""
    table = {}
    for line in path.read_text().splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split(" | ")]
        if len(cells) == 3 and cells[0].startswith("`"):
            for mutation in cells[1].split(", "):
                table[cells[0].strip("`"), mutation] = cells[2]
    return table


def run(program, *args):
    return subprocess.run([program, *args], text=True, stdout=subprocess.PIPE, check=False)


def mutate(job):
    ((key, name), parts), options = job
    for program, kind, pcs in parts:
        pc_list = ",".join(sorted(pcs))
        done = run(program, f"--mutate={kind}={pc_list}", *options)
        if done.returncode == 1 and "FAILED" in done.stdout:
            line = next(x for x in done.stdout.splitlines() if x.startswith("FAILED"))
            return key, name, f"{pathlib.Path(program).name}: {line[7:]}"
        if done.returncode != 0:
            return key, name, f"? {done.returncode} {done.stdout[-300:]}"
    return key, name, None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--table", type=pathlib.Path, required=True)
    parser.add_argument("--list", action="store_true", help="prints what notices each mutation")
    parser.add_argument("--without-mutations", action="store_true")
    parser.add_argument("--quick", action="store_true", help="without the slow scenarios")
    parser.add_argument("--only", default="", help="mutations of operations with this in their name")
    parser.add_argument("-j", type=int, default=2)
    parser.add_argument("piece")
    parser.add_argument("programs", nargs="+")
    args = parser.parse_args()
    files = {f: (Source(args.root, f), names) for f, names in PIECES[args.piece].items()}
    table = read_table(args.table)
    options = ["--quick"] if args.quick else []
    jobs, met, ok = collections.defaultdict(list), set(), True
    for program in args.programs:
        done = run(program, "--sites", *options)
        print(f"{pathlib.Path(program).name}:")
        print("".join(f"  {x}\n" for x in done.stdout.splitlines() if not x.startswith("site ")), end="")
        if done.returncode != 0:
            return 1
        grouped = collections.defaultdict(set)
        for site in sites_of(program, args.root, done.stdout):
            source, names = find_source(files, site)
            if not source or site.function not in source.functions:
                continue
            if names is not None and site.function not in names:
                continue
            key = key_of(source, site)
            if not key:
                print(f"  which operation is {site}?")
                ok = False
                continue
            met.add(key)
            if args.only not in key:
                continue
            for kind, name in mutations_of(site, program.endswith("x86")):
                grouped[key, name, kind].add(site.pc)
        for (key, name, kind), pcs in grouped.items():
            jobs[key, name].append((program, kind, pcs))
    for source, names in files.values():
        for function in source.functions if names is None else names:
            for site in source.atomics(function):
                key = f"{function}: {site[1]} {site[2]}".rstrip()
                if not any(m == key or m.startswith(key + " #") for m in met):
                    if (key, "not reached") not in table:
                        print(f"no scenario reaches {source.name}: {key}")
                        ok = False
    if args.without_mutations:
        return 0 if ok else 1
    harmless, caught, survived = table, 0, []
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        for key, name, how in pool.map(mutate, [(j, options) for j in sorted(jobs.items())]):
            listed = (key, name) in harmless
            if listed and harmless[key, name].startswith(SLOW):  # only a slow scenario notices it
                listed = args.quick and not how
            if how:
                caught += 1
                if args.list:
                    print(f"caught  {key} | {name} | {how}")
                if listed:
                    print(f"is noticed, though {args.table.name} says that nothing depends on it: {key} | {name}")
                    ok = False
            else:
                survived.append((key, name))
                if not listed:
                    print(f"SURVIVED  `{key}` | {name}", flush=True)
                    ok = False
                elif args.list:
                    print(f"harmless  {key} | {name} | {harmless[key, name]}")
    print(f"{args.piece}: {caught + len(survived)} mutations, {caught} noticed, {len(survived)} not")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
