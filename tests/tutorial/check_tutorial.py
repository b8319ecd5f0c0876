#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages of the tutorial show the programs that are there, and what they print.

usage: check_tutorial.py pages SOURCES             the blocks of both languages are those of docs/tutorial/code
       check_tutorial.py run SOURCES BUILD PAGE    types what docs/tutorial/en/PAGE.md says, as a reader would
       check_tutorial.py fix SOURCES BUILD PAGE    the same, and writes what is printed into the pages of all languages

Of the blocks of a page:
  c         an excerpt of a file of the code; "your lines" of a step are all there, in their order
  diff      a file NAME.diff of the code, without the lines that begin with ---, +++ or @@
  console   commands, which begin with "$ ", and what they print

The lines of several processes come in any order, so the order of lines is not compared. A line "..." stands for any
other lines. What differs from run to run is replaced before lines are compared: see VOLATILE.
"""
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

LANGUAGES = ("en", "ja")
VOLATILE = (
    (r"\b[0-9a-f]{16}\b", "ID"),                                            # ids of VCQs
    (r"0x[0-9a-f]+", "ADDRESS"),
    (r"utofurun: rank \d+ \(pid \d+\)", "utofurun: rank N (pid N)"),      # the process that notices first
    (r"\d+\.\d+ ms ago", "N ms ago"),
    (r"number \d+ of", "number N of"),                                      # of a communication
    (r"CQ \d+, component \d+", "CQ N, component N"),
    (r"did \d+ items", "did N items"),                                      # who is fast takes more
    (r"rank \d+, message \d+: word \d+ is still that of message \d+", "rank N, message N: word N is old"),
    (r"[\d.]+ +\d+ +[\d.]+ +[\d.]+ +\d+$", "MINIMUM, MEAN, MAXIMUM, RANKS"),  # of a counter
    (r"would take [\d.]+ us", "would take N us"),
    (r"152: [\d.]+ us, [\d.]+ times as long", "152: N us, N times as long"),
    (r"byte \d+: a block of \d+ bytes, of which the file has \d+", "byte N: a block of N, N there"),
    (r"\d+ findings? at \d+ places?: .*", "N findings"),
)
PLACE = re.compile(r"(?:in \w+\(\) )?at \S+(?::\d+|\+ADDRESS)")             # without libdw there are no lines
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
OWN = re.compile(r"^ */\* Your lines: \*/\n(.*?)^ */\* End of your lines\. \*/\n", re.M | re.S)


def blocks(text, kind):
    return [match.group(2) for match in BLOCK.finditer(text) if match.group(1) == kind]


def own_lines(step):
    return [textwrap.dedent(lines) for lines in OWN.findall(step)]


def shown_diff(text):
    return "".join(line + "\n" for line in text.splitlines() if not re.match(r"(---|\+\+\+|@@)", line))


def wrong_blocks(code, name, text):
    """What a page shows and the code does not have."""
    sources = [path.read_text() for path in sorted(code.glob("*.[ch]"))]
    diffs = [shown_diff(path.read_text()) for path in sorted(code.glob("*.diff"))]
    shown = blocks(text, "c")
    for block in shown:
        excerpt = block.strip("\n")
        if not any(excerpt in textwrap.dedent(part) or textwrap.indent(excerpt, "    ", bool) in part
                   for part in sources):
            yield "is in no source:\n" + block
    yield from ("is no .diff:\n" + block for block in blocks(text, "diff") if block not in diffs)
    step = code / (name + ".c")
    if name.startswith("step"):
        own = own_lines(step.read_text())
        if not own or [block for block in shown if block in own] != own:
            yield "does not show all lines that the reader is to write, in their order"


def different_pages(texts):
    """Code and output are the same in all languages."""
    for kind in ("c", "diff", "console"):
        if len({tuple(blocks(text, kind)) for text in texts}) != 1:
            yield f"the blocks of {kind} differ between the languages"


def check_pages(tree):
    folder = tree / "docs" / "tutorial"
    names = sorted(path.stem for path in (folder / LANGUAGES[0]).glob("*.md"))
    wrong = []
    for language in LANGUAGES[1:]:
        others = sorted(path.stem for path in (folder / language).glob("*.md"))
        wrong += [f"{language}: pages {others}, not {names}"] if others != names else []
    for name in names:
        texts = [(folder / language / (name + ".md")).read_text() for language in LANGUAGES]
        wrong += [f"{name}.md {what}" for what in wrong_blocks(folder / "code", name, texts[0])]
        wrong += [f"{name}.md: {what}" for what in different_pages(texts)]
    text = (folder / LANGUAGES[0] / "step1.md").read_text()
    twins = (("another line of code", list(wrong_blocks(folder / "code", "step1", text.replace("8, 0,", "9, 0,")))),
             ("another mistake", list(wrong_blocks(folder / "code", "step1", text.replace("\n-", "\n+")))),
             ("a block that is missing", list(wrong_blocks(folder / "code", "step1", text.replace("```c", "```text")))),
             ("another output", list(different_pages([text, text.replace("42 is there", "43 is there")]))))
    return wrong + [f"{what} is not noticed" for what, found in twins if not found]


class Reader:
    """Does what a page says, in a copy of the code."""

    def __init__(self, folder, build, own):
        self.folder, self.own = folder, own
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("UTOFU_", "MAKE", "MFLAGS"))}
        self.env.update(PKG_CONFIG_PATH=str(build / "meson-uninstalled"), UTOFU_PROVIDER="shm", LC_ALL="C.UTF-8",
                        PATH=f"{build / 'tools'}:{self.env['PATH']}", OMPI_MCA_rmaps_base_oversubscribe="1",
                        OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def print_of(self, command):
        """Through a terminal, as there the lines of a process come at once."""
        ours, theirs = pty.openpty()
        with subprocess.Popen(["bash", "-c", command], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                              stdout=theirs, stderr=theirs, start_new_session=True) as started:
            os.close(theirs)
            text = b""
            while True:
                try:
                    data = os.read(ours, 65536)
                except OSError:  # EIO: nobody has it open any more
                    break
                if not data:
                    break
                text += data
            os.close(ours)
            started.wait()
        self.write_own(command)
        return text.decode(errors="replace").replace("\r\n", "\n")

    def write_own(self, command):
        """After `make my1.c` the reader writes the lines that the page shows."""
        made = re.search(r"make .*\b(my(\d)\.c)$", command)
        if made:
            path, left = self.folder / made.group(1), list(self.own)

            def fill(match):
                return match.group(1) + textwrap.indent(left.pop(0), "    ") + match.group(2)
            text = re.sub(r"(^ */\* Your lines: \*/\n)(^ */\* End of your lines\. \*/\n)", fill, path.read_text(),
                          flags=re.M)
            if text != (self.folder / f"step{made.group(2)}.c").read_text():
                sys.exit(f"FAIL: {path.name} with the lines of the page is not step{made.group(2)}.c")
            path.write_text(text)


def normalised(text, places=True):
    lines = text.splitlines()
    for pattern, name in VOLATILE:
        lines = [re.sub(pattern, name, line) for line in lines]
    return sorted(lines if places else [PLACE.sub("PLACE", line) for line in lines])


MODELLED = re.compile(r"would take ([\d.]+) us")  # of the model, not of the machine: it hardly depends on the run


def is_near(shown, printed):
    """Does a page have the times of utofu-model, within a quarter?"""
    return all(0.8 * float(old) <= float(new) <= 1.25 * float(old)
               for old, new in zip(MODELLED.findall(shown), MODELLED.findall(printed)))


def agrees(shown, printed):
    if not is_near(shown, printed):
        return False
    places = re.search(r" at \w+\.c:\d+", printed) is not None
    expected, found = normalised(shown, places), normalised(printed, places)
    if "..." not in expected:
        return expected == found
    for line in expected:
        if line != "...":
            if line not in found:
                return False
            found.remove(line)
    return True


def commands_of(block):
    """Each command with what it prints."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def try_page(reader, text, fix):
    """The number of commands, and what is wrong; with fix, printed lines by command that the page is to show."""
    tried, wrong, better = 0, [], {}
    for block in blocks(text, "console"):
        for command, shown in commands_of(block):
            if "mpi" in command and not (shutil.which("mpicc") and shutil.which("mpirun")):
                continue
            printed = reader.print_of(command)
            tried += 1
            if not agrees(shown, printed):
                wrong.append(f"$ {command}\n--- the page has\n{shown}--- printed is\n{printed}")
                better[f"$ {command}\n{shown}"] = f"$ {command}\n{printed}"
    if fix and any("...\n" in old for old in better):
        sys.exit("FAIL: has a line \"...\": write the others by hand\n" + "\n".join(wrong))
    return tried, wrong, better


def run_page(tree, build, name, fix):
    folder = tree / "docs" / "tutorial"
    text = (folder / LANGUAGES[0] / (name + ".md")).read_text()
    step = folder / "code" / (name + ".c")
    own = [block for block in blocks(text, "c") if name.startswith("step") and block in own_lines(step.read_text())]
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work) / "tutorial"
        shutil.copytree(folder / "code", copy)
        tried, wrong, better = try_page(Reader(copy, build, own), text, fix)
    if fix:
        for path in [folder / language / (name + ".md") for language in LANGUAGES]:
            page = path.read_text() if path.exists() else ""
            for old, new in better.items():
                page = page.replace(old, new)
            if page:
                path.write_text(page)
        print(f"{len(better)} commands print something else now")
        return []
    if not agrees("rank 1 did 3 items\n", "rank 1 did 4 items\n") or agrees("42 is there\n", "43 is there\n") or \
            agrees("a\n...\n", "b\n") or agrees("would take 495 us\n", "would take 335 us\n"):
        wrong.append("the comparison is wrong")
    print(f"{tried} commands")
    return wrong if tried else wrong + ["no command was tried"]


def main():
    what, tree = sys.argv[1], Path(sys.argv[2]).resolve()
    if what == "pages":
        wrong = check_pages(tree)
    else:
        wrong = run_page(tree, Path(sys.argv[3]).resolve(), sys.argv[4], what == "fix")
    for line in wrong:
        print("FAIL:", line)
    return 1 if wrong else 0


sys.exit(main())
