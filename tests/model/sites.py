#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""utofu-model names the place of a wait by what addr2line says of the recorded return addresses.

usage: sites.py, with MODEL naming utofu-model, HEADER utofu.h, and MACHINES the folder of the machine files

The recordings, the programs and addr2line are made up here: a program is an ELF file that has a build id and no code,
and addr2line says of an address what a table has. So each rule has its case, whose text is written beside it: the first
frame that is not of the library, the callers (two at most), inlined functions, where main() ends, the place between two
calls of one function, and why there is no line.
"""
import json
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import recordings  # noqa: E402

HEADER, MODEL, MACHINES = (os.environ[name] for name in ("HEADER", "MODEL", "MACHINES"))
ID = bytes(range(1, 21))
PROGRAM, LIBRARY, LIBC = 0x400000, 0x7f0000000000, 0x7f1000000000  # where they are in memory

# Offsets in the program's file, of the last byte of a call: function and place of each frame, innermost first
TABLE = {
    0x10: [("step", "src/a.c:10")], 0x20: [("step", "src/a.c:20")], 0x28: [("step", "src/a.c:20")],
    0x30: [("turn", "src/a.c:30")], 0x40: [("main", "src/a.c:40 (discriminator 2)")],
    0x44: [("main", "src/a.c:44")], 0x50: [("help inlined at src/a.c:5 in x", "src/a.c:52"), ("step", "src/a.c:55")],
    0x58: [("help inlined at src/a.c:5 in x", "src/a.c:52"), ("step", "src/a.c:55")],
    0x5c: [("help", "src/a.c:53"), ("step", "src/a.c:55")],
    0x60: [("step", "src/b.c:10")], 0x70: [("??", "??:0")], 0x78: [("bare", "??:?")],
    0x80: [("na\tme", "src/\x01.c:1")],
    0x90: [(f"deep{n}", f"src/d.c:{n}") for n in range(1, 41)], 0xa0: [("far", "HERE/src/e.c:7")],
    0xa8: [("far", "HEREsrc/e.c:7")], 0xb0: [("long" * 40, "src/" + "f" * 100 + ".c:3")],
}


def elf(notes, program_headers=None):
    """A file of an ELF head, program headers and notes."""
    count = 1 if program_headers is None else len(program_headers)
    begin = 64 + 56 * count
    headers = program_headers or [(4, begin, len(notes))]
    head = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0, 64, 0, 0, 64, 56, count, 0, 0, 0)
    return head + b"".join(struct.pack("<IIQQQQQQ", kind, 4, at, 0, 0, size, size, 4) for kind, at, size in headers) \
        + notes


def note(content, kind=3, name=b"GNU\0"):
    def padded(b):
        return b + bytes(-len(b) % 4)
    return struct.pack("<III", len(name), len(content), kind) + padded(name) + padded(content)


# name, content of the program's file (None: there is none), and what is said instead of a line
DIFFERS = "this file has changed since: its build id differs"
FILES = [
    ("the build id", elf(note(ID)), None),
    ("a note before it, of 5 bytes", elf(note(b"12345", 1) + note(ID)), None),
    ("a note of another name before it", elf(note(bytes(20), 3, b"LLVM\0") + note(ID)), None),
    ("a name of no bytes", elf(note(b"", 9, b"") + note(ID)), None),
    ("notes of which one ends at the end", elf(note(ID[:18], 2) + note(ID)[:36]), None),
    ("another build id", elf(note(ID[::-1])), DIFFERS),
    ("a build id of which the last byte differs", elf(note(ID[:19] + b"x")), DIFFERS),
    ("a shorter build id", elf(note(ID[:16])), DIFFERS),
    ("a longer build id", elf(note(ID + b"1234")), DIFFERS),
    ("no notes", elf(b""), DIFFERS),
    ("the id in a note of another kind", elf(note(ID, 4)), DIFFERS),
    ("the id of another name", elf(note(ID, 3, b"GNU\0\0")), DIFFERS),
    ("a note that is longer than all", elf(note(ID)[:-4]), DIFFERS),
    ("a note of which only the head is there", elf(note(ID)[:12]), DIFFERS),
    ("half a head of a note", elf(note(ID)[:11]), DIFFERS),
    ("notes in the third header", elf(note(ID), [(1, 0, 0), (4, 232, 0), (4, 232, 36)]), None),
    ("notes in a header of another type", elf(note(ID), [(1, 120, 36)]), DIFFERS),
    ("notes behind the end", elf(note(ID), [(4, 1000, 36)]), DIFFERS),
    ("notes that go on behind the end", elf(note(ID), [(4, 120, 37)]), DIFFERS),
    ("notes up to the end", elf(note(ID), [(4, 120, 36)]), None),
    ("headers that end with the file", elf(b"", [(4, 120, 0)]), DIFFERS),
    ("headers that are cut", elf(b"", [(4, 120, 0)])[:-1], DIFFERS),
    ("headers behind the end", elf(note(ID))[:32] + struct.pack("<Q", 1000) + elf(note(ID))[40:], DIFFERS),
    ("a head alone", elf(b"", [])[:64], DIFFERS),
    ("half a head", elf(note(ID))[:63], DIFFERS),
    ("an empty file", b"", "this file cannot be read"),
    ("no file", None, "this file is not on this machine"),
]

# name, sites of the calls before the wait and of the wait, and the text; at: the call is named by the line behind it
STEP_10, STEP_20, MAIN = 0x10, 0x20, 0x40
PLACES = [
    ("a place between two calls of a function", [STEP_10, MAIN], [STEP_20, MAIN], "src/a.c:10 to 20 in step"),
    ("two calls of one line", [STEP_20, MAIN], [0x28, MAIN], "src/a.c:20 in step"),
    ("the same call", [STEP_20, MAIN], [STEP_20, MAIN], "src/a.c:20 in step, called at src/a.c:40 in main"
     " (behind the call at src/a.c:20 in step, called at src/a.c:40 in main)"),
    ("backwards, as in a loop", [STEP_20, MAIN], [STEP_10, MAIN], "src/a.c:10 in step, called at src/a.c:40 in main"
     " (behind the call at src/a.c:20 in step, called at src/a.c:40 in main)"),
    ("backwards in one line", [0x28, MAIN], [STEP_20, MAIN], "src/a.c:20 in step, called at src/a.c:40 in main"
     " (behind the call at src/a.c:20 in step, called at src/a.c:40 in main)"),
    ("the callers differ", [STEP_10, MAIN], [STEP_10, 0x44],
     "src/a.c:40 to 44 in main, before the call at src/a.c:10 in step"),
    ("nothing is common", [STEP_10], [0x30], "src/a.c:30 in turn (behind the call at src/a.c:10 in step)"),
    ("the same function of another file", [STEP_10], [0x60],
     "src/b.c:10 in step (behind the call at src/a.c:10 in step)"),
    ("one is deeper", [0x30, STEP_10, MAIN], [STEP_20, MAIN], "src/a.c:10 to 20 in step"),
    ("three frames are named, the others not", [], [STEP_10, 0x30, MAIN, 0x44],
     "src/a.c:10 in step, called at src/a.c:30 in turn, called at src/a.c:40 in main"),
    ("inlined", [], [0x50, MAIN], "src/a.c:52 in help, called at src/a.c:55 in step, called at src/a.c:40 in main"),
    ("inlined twice: at one place of the caller", [0x50, MAIN], [0x5c, MAIN], "src/a.c:52 to 53 in help"),
    ("inlined twice, with one line: in the order of the addresses", [0x50, MAIN], [0x58, MAIN], "src/a.c:52 in help"),
    ("of the library itself nothing is said", [], [LIBRARY + 8, LIBRARY + 9, STEP_10], "src/a.c:10 in step"),
    ("what libc calls ends it", [], [STEP_10, LIBC + 8, MAIN], "src/a.c:10 in step"),
    ("addresses of no module are left out", [], [STEP_10, 0x1000, MAIN], "src/a.c:10 in step, called at src/a.c:40 in"
     " main"),
    ("a function without a line", [], [0x70, MAIN], "program+0x70 (compile with -g for the line)"),
    ("a caller without a line", [], [STEP_10, 0x78, MAIN], "src/a.c:10 in step"),
    ("the call before has no line", [0x70], [STEP_10, MAIN], "src/a.c:10 in step, called at src/a.c:40 in main"),
    ("bytes that are no letters", [], [0x80], "src/?.c:1 in na?me"),
    ("deeper than there is room for", [], [0x90, MAIN],
     "src/d.c:1 in deep1, called at src/d.c:2 in deep2, called at src/d.c:3 in deep3"),
    ("a file in this folder", [], [0xa0], "src/e.c:7 in far"),
    ("a file beside this folder", [], [0xa8], "HEREsrc/e.c:7 in far"),
    ("a long name", [], [0xb0], "src/" + "f" * 100 + ".c:3 in " + ("long" * 40)[:100]),
    ("the first byte of the program is of no call", [], [PROGRAM, STEP_10], "src/a.c:10 in step"),
    ("no site at all", [], [], ""),
]
TOOL = r"""#!/bin/sh
# addr2line -f -i -C -e FILE ADDRESS
test "$1 $2 $3 $4" = "-f -i -C -e" || exit 1
grep -v "^#" < "$(dirname "$0")/table" | sed -n "s/^$(basename "$5") $6 //p" | tr '|' '\n'
echo "what goes there is not shown" >&2
"""


def write_tool(folder, name):
    lines = []
    for offset, frames in TABLE.items():
        text = "|".join(f"{function}|{place.replace('HERE', os.fspath(folder))}" for function, place in frames)
        lines.append(f"program 0x{offset:x} {text}\n")
    (folder / "table").write_text("".join(lines), encoding="latin-1")
    tool = folder / name
    tool.write_text(TOOL, encoding="utf-8")
    tool.chmod(0o755)


def frames_of(offsets):
    """Return addresses: behind the last byte of the call. Small ones are offsets in the program."""
    return [at + 1 + PROGRAM if at < 0x1000 else at for at in offsets]


def named(folder, before, wait, tools=True, build_id=ID, modules=(), regions=1):
    """How the wait of rank 1 is named that sees the puts of rank 0, in the last of so many regions around it. The
    process may have 16 files open."""
    job = recordings.Job(2, HEADER)
    job.modules[1] = [*modules, (PROGRAM, PROGRAM + 0x1000, PROGRAM, build_id, f"{folder}/program"),
                      (LIBRARY, LIBRARY + 0x1000, LIBRARY, b"", f"{folder}/libtofucom.so.1"),
                      (LIBC, LIBC + 0x1000, LIBC, b"", f"{folder}/libc.so.6")]
    thread = job.threads[1]
    for region in range(regions):
        thread.region(f"r{region}", at=100)
    for number in range(6):
        at = 10000 * (number + 1)
        job.threads[0].put((0, 0, 0), (1, 0, 0), 64, 0, stadd=1 << 20, at=at + 500)
        for site, size, later in ((before, 8, 0), (wait, 16, 5000)):
            thread.at_site(*frames_of(site)).comm(recordings.GET, (1, 0, 0), (0, 0, 0), size, 0, at=at + later)
    for region in range(regions):
        thread.at_site().region(f"r{region}", False, at=90000)
    path = f"{folder}:{os.environ['PATH']}" if tools else f"{folder}/nothing"
    run = subprocess.run([MODEL, "-m", f"{MACHINES}/tofud.toml", "--json", *job.write(folder)], cwd=folder, check=True,
                         stdout=subprocess.PIPE, text=True, timeout=60, env={**os.environ, "PATH": path},
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)))
    at = json.loads(run.stdout)["regions"][-1]["concluded_at"]
    found = re.fullmatch(r"rank 1, before its get of 16 B to rank 0 \(call \d+\)(?:, at (.*))?", at)
    return (found[1] or "").replace(os.fspath(folder), "HERE") if found else at


def main():
    failures = 0

    def check(name, got, want):
        nonlocal failures
        failures += got != want
        print(f"{'ok' if got == want else 'FAILED'}: {name}", *([f"  {got}\n  expected {want}"] if got != want else []),
              sep="\n")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "program").write_bytes(elf(note(ID)))
        for library in ("libtofucom.so.1", "libc.so.6"):
            (folder / library).write_bytes(elf(b""))
        check("no tool", named(folder, [], [STEP_10], tools=False),
              "program+0x10 (install addr2line, of binutils or elfutils, for the line)")
        write_tool(folder, "eu-addr2line")
        elsewhere = os.environ["PATH"]
        os.environ["PATH"] = f"{folder}/commands"
        (folder / "commands").mkdir()
        for command in ("sh", "grep", "dirname", "basename", "sed", "tr"):
            (folder / "commands" / command).symlink_to(shutil.which(command, path=elsewhere))
        check("forty times elfutils' tool, without the other", named(folder, [], [STEP_10], regions=40),
              "src/a.c:10 in step")
        os.environ["PATH"] = elsewhere
        (folder / "addr2line").symlink_to("/bin/false")
        check("elfutils' tool", named(folder, [], [STEP_10]), "src/a.c:10 in step")
        (folder / "addr2line").unlink()
        write_tool(folder, "addr2line")
        (folder / "eu-addr2line").unlink()
        check("forty times a line", named(folder, [STEP_10], [STEP_20], regions=40), "src/a.c:10 to 20 in step")
        for name, before, wait, text in PLACES:
            check(name, named(folder, before, wait), text)
        check("a module without a build id is any file", named(folder, [], [STEP_10], build_id=b""),
              "src/a.c:10 in step")
        check("what a module said before is forgotten: the last one of an address counts",
              named(folder, [], [STEP_10], modules=[(1, PROGRAM, 0, b"", "/nothing")]), "src/a.c:10 in step")
        for name, content, why in FILES:
            (folder / "program").unlink(missing_ok=True)
            if content is not None:
                (folder / "program").write_bytes(content)
            check(name, named(folder, [], [STEP_10, MAIN]),
                  f"program+0x10 ({why})" if why else "src/a.c:10 in step, called at src/a.c:40 in main")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
