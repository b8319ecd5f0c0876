#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants thirty faults in the library, one at a time (planted.toml), and shows that utofu-conform finds them.

usage: planted.py [--build FOLDER] [--options OPTIONS] [--group-only] [NAME...]

Works on a copy of the tree, built in FOLDER/build (default: a new temporary folder). A fault is found
if a promise fails, a process is lost, or the job ends by a signal. Exit status: 0 if all but two are
found, and none without a fault.
"""
import argparse
import importlib.machinery
import importlib.util
import json
import os
from pathlib import Path
import shutil
import subprocess
import sys
import tempfile
import tomllib

TREE = Path(__file__).resolve().parents[2]
TARGETS = ("libtofucom.so.1.0.0", "tools/utofurun", "tools/conform/utofu-conform")
MISSED = 2  # so many may be missed
LIMIT = 500  # seconds of a job


def load_mutate():
    loader = importlib.machinery.SourceFileLoader("mutate", str(TREE / "scripts" / "mutate"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    loader.exec_module(module)
    return module


def faults(mutate):
    with open(Path(__file__).parent / "planted.toml", "rb") as f:
        table = tomllib.load(f)
    groups = table.pop("groups")
    known = mutate.load()
    found = {name: known[name] for name in table.pop("existing")}
    found.update({name: mutate.Mutation(name, {"caught_by": [], **entry}) for name, entry in table.items()})
    return found, groups


def build(folder):
    command = ["ninja", "-C", folder / "build", *TARGETS]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0


def ask(folder, options):
    """What utofu-conform says of the library: a line, or None if all promises hold."""
    out = folder / "answers.json"
    out.unlink(missing_ok=True)
    env = {**os.environ, "CONFORM_DIR": str(folder / "exchange"), "LD_LIBRARY_PATH": str(folder / "build")}
    shutil.rmtree(folder / "exchange", ignore_errors=True)
    command = [folder / "build/tools/utofurun", "-n", "3", folder / "build/tools/conform/utofu-conform",
               "--quick", "--output", out, *options]
    try:
        status = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT,
                                check=False).returncode
    except subprocess.TimeoutExpired:
        return "the job does not end"
    if status == 0:
        return None
    answers = json.loads(out.read_text()) if out.exists() else {"cases": []}
    failed = [case["case"] for case in answers["cases"] if case["outcome"] == "fails"]
    more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
    running = f"; ended in {answers['running']}" if "running" in answers else ""
    return f"status {status}: {', '.join(failed[:3])}{more}{running}"


def plant(folder, fault, sources):
    path, first, end = fault.place(sources)
    text = sources[path]
    (folder / path).write_text(text[:first] + fault.new + text[end:])
    return folder / path, text


def find(folder, group, options, all_groups):
    return ask(folder, [*options, "--group", group]) or (ask(folder, options) if all_groups else None)


def try_all(folder, chosen, groups, mutate, options, all_groups):
    sources = mutate.read_sources(folder)
    missed = []
    for name, fault in chosen.items():
        path, text = plant(folder, fault, sources)
        try:
            found = "does not compile"
            if build(folder):
                found = find(folder, groups[name], options, all_groups)
        finally:
            path.write_text(text)
        print(f"{name}: {found or 'NOT FOUND'}", flush=True)
        if found is None or found == "does not compile":
            missed.append(name)
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path)
    parser.add_argument("--options", default="", help="of utofu-conform, as --group and --timeout-scale")
    parser.add_argument("--group-only", action="store_true", help="only the group that planted.toml names")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    mutate = load_mutate()
    every, groups = faults(mutate)
    assert len(every) == 30, len(every)
    chosen = {name: every[name] for name in args.names} or every
    folder = args.build or Path(tempfile.mkdtemp())
    options = args.options.split()
    try:
        if not (folder / "build").exists():
            mutate.copy_tree(folder)
            subprocess.run(["meson", "setup", folder / "build", folder], stdout=subprocess.DEVNULL, check=True)
        if not build(folder):
            return 2
        alarm = None if args.names else ask(folder, options)
        if not args.names:
            print(f"without a fault: {alarm or 'all promises hold'}", flush=True)
        missed = try_all(folder, chosen, groups, mutate, options, not args.group_only)
        print(f"{len(chosen) - len(missed)} of {len(chosen)} faults are found")
        return 0 if alarm is None and len(missed) <= MISSED else 1
    finally:
        if not args.build:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
