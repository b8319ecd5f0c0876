#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program of README.md, compiled and started with the two lines below it, prints what README.md says.

usage: check_readme.py SOURCES [BUILD]    without BUILD: with what is installed

README.md has one block of C, the name of its file in the line above it, a block of commands below it, and then
"It prints `...`". Pages that are wrong in one of these are noticed. README.md has at most 120 lines.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LINES = 120
PARTS = re.compile(r"^`(\w+\.c)`[^\n]*\n\n```c\n(.*?)^```\n\n```sh\n(.*?)^```\n\nIt prints `([^`]*)`", re.M | re.S)


def environment(build):
    env = {name: value for name, value in os.environ.items() if not name.startswith("UTOFU_")}
    if build:
        env.update(PKG_CONFIG_PATH=str(build / "meson-uninstalled"), LD_LIBRARY_PATH=str(build),
                   PATH=f"{build / 'tools'}:{env['PATH']}")
    return env


def wrong_with(text, build):
    """What is wrong with the page."""
    parts = PARTS.search(text)
    if not parts:
        return "has no program with two commands and what it prints"
    name, program, commands, printed = parts.groups()
    if len(commands.splitlines()) != 2:
        return f"has other than two commands: {commands}"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_text(program)
        ran = subprocess.run(["bash", "-ec", commands], cwd=folder, env=environment(build), capture_output=True,
                             text=True, timeout=120, check=False)
    if ran.returncode or ran.stdout != printed + "\n" or ran.stderr:
        return f"promises {printed!r}; status {ran.returncode}, standard output {ran.stdout!r}, error {ran.stderr!r}"
    return None


def wrong_alone(text, build, seconds=60):
    """What is wrong with rank 0 where rank 1 never comes: the program has to end with an error, after 2 s here."""
    short = re.sub(r"time\(NULL\) \+ \d+;", "time(NULL) + 2;", PARTS.search(text).group(2))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "put.c").write_text(short)
        try:
            ran = subprocess.run(
                ["bash", "-ec", PARTS.search(text).group(3).splitlines()[0] + "\nUTOFU_RANK=0 UTOFU_SIZE=2 ./put"],
                cwd=folder, capture_output=True, text=True, timeout=seconds, check=False,
                env={**environment(build), "UTOFU_ROOT": folder, "UTOFU_JOB_TIMEOUT": "3", "UTOFU_JOB_KEY": "ab" * 16})
        except subprocess.TimeoutExpired:
            return "has a program that does not end where rank 1 never comes"
    if ran.returncode != 1 or "await_notice(vcq): utofu-info --explain -1" not in ran.stderr:
        return f"has a program that ends with status {ran.returncode} where rank 1 never comes: {ran.stderr!r}"
    return None


def main():
    tree = Path(sys.argv[1])
    build = Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else None
    text = (tree / "README.md").read_text(encoding="utf-8")
    wrong = [wrong_with(text, build), wrong_alone(text, build)]
    if len(text.splitlines()) > LINES:
        wrong.append(f"has {len(text.splitlines())} lines, more than {LINES}")
    twins = {"another number": text.replace("){42}", "){43}"),
             "a call that fails": text.replace("(vcq, rank_0, &(", "(0, rank_0, &("),
             "a file of another name": text.replace("`put.c`", "`get.c`"),
             "no output": text.replace("It prints", "It shows")}
    endless = text.replace(" && time(NULL) < end", "")
    if endless == text or not wrong_alone(endless, build, 8):
        wrong.append("with a wait without limit passes")
    wrong += [f"with {twin} passes" for twin, other in twins.items() if not wrong_with(other, build)]
    wrong = [what for what in wrong if what]
    for what in wrong:
        print("FAIL: README.md", what)
    if not wrong:
        print(PARTS.search(text).group(4))
    return bool(wrong)


sys.exit(main())
