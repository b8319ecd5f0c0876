#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command line of docs/guide is run as it stands, or is one of ELSEWHERE, which says why it is not run here.

usage: check_guide.py SOURCES BUILD [PAGE...]

A command is a line of a block of sh or console, or of an indented block, that begins with one of FIRST. The commands
of a page run one after the other in a folder with the examples and programs of the reader (prog.c, a.out,
build/sum...), with the library installed in a folder of its own. A command that is neither run nor listed, one that
fails, and a line of ELSEWHERE that no page has are errors.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FIRST = re.compile(r"(?:[A-Z][A-Z_]*=\S* )*(?:cc|c\+\+|gfortran|mpicc|mpirun|mpiexec|srun|ssh|utofurun|utofu-\w+|"
                   r"scripts/\S+|sudo|gdb|podman|module|bpftrace|pkill|fi_info|cmake|make|meson|man|eval|export|wait|"
                   r"\./\w+)(?: |$)")
ELSEWHERE = (  # what is not run, and why
    (r"meson setup build && meson install|eval .*DIR/bin", "installs: use_as_readme_says, install_is_enough"),
    (r"man utofu_put|export PYTHONPATH=.HOME|/usr/share/utofu-verbs/|/usr/lib/",
     "needs an installation in /usr or HOME"),
    (r"scripts/(rxe-vm|rxe-tests)|UT_LEAVING", "boots a virtual machine: the tests of Soft-RoCE"),
    (r"sudo scripts/rxe-up", "changes the network devices of the machine"),
    (r"scripts/quickstart", "installs and builds: ofi_quickstart"),
    (r"scripts/(bench|ratios)", "measures for many minutes"),
    (r"podman |mpirun -n 4 \./a\.out +# docker", "needs an image"),
    (r"srun|module load|ssh b|UTOFU_RANK=0 \./prog &|^wait$|export UTOFU_(SIZE|JOB_KEY)",
     "needs a cluster, or a second host"),
    (r"-N 1 ", "needs several hosts"),
    (r"utofu-perf --(listen|connect)|UTOFU_JOB_KEY=\.\.\.", "needs a second host"),
    (r"utofu-perf --peers|utofu-perf --plot", "measures other libraries: perf_peers, perf_plot"),
    (r"pkill|gdb -x", "for a process that hangs, of this number"),
    (r"cc -I ACP/include", "needs the upper layers of ACP"),
    (r"valgrind|UTOFU_PROVIDER=verbs utofu-info", "needs valgrind's time, or an RDMA adapter"),
    (r"cc stack\.c|UTOFU_CQ_MAP=fugaku mpi|UTOFU_CQ_MAP=fugaku utofurun", "stack.c is the reader's"),
    (r"UTOFU_DUMP_SIGNAL=USR2 mpirun", "a program that hangs: dump_put..."),
    (r"gfortran \$\(pkg-config --variable=fortran utofu\) prog|gfortran prog\.f90",
     "prog.f90 is the reader's: the examples' lines are run"),
    (r"prdma-run \./program|LD_PRELOAD=libprdma", "./program is the reader's, of one MPI library"),
    (r"mpi-compat|utofu-compat", "a program of MPI: compat_mpi_..."),
    (r"bpftrace", "needs root and bpftrace"),
    (r"UTOFU_STATS=job,json", "needs srun"),
    (r"UTOFU_PROVIDER=ofi", "the provider ofi need not be built"),
    (r"fi_info", "a tool of libfabric"),
)
LIMIT = 300  # seconds of one command


def commands_of(text):
    """The commands of a page, without their comments."""
    fence = None
    for line in text.splitlines():
        opened = re.match(r" *```(\w*)", line)
        if opened:
            fence = None if fence is not None else opened.group(1)
            continue
        shown = line if fence in ("sh", "console") else line[4:] if fence is None and line.startswith("    ") else ""
        shown = shown.removeprefix("$ ")
        if FIRST.match(shown):
            yield re.sub(r" +#( .*)?$", "", shown.removeprefix("$ "))


class Reader:
    def __init__(self, tree, prefix, folder):
        self.folder = folder
        for path in (tree / "examples").iterdir():
            if path.is_file():
                shutil.copy(path, folder)
        shutil.copy(tree / "examples" / "ci-project" / "sum.c", folder / "prog.c")
        (folder / "prog.cpp").write_text("#include <utofu.hpp>\nint main()\n{\n    utofu::Vcq vcq(0);\n}\n")
        (folder / "prog.py").write_text("import utofu\nwith utofu.Meeting() as meeting:\n    meeting.barrier()\n")
        # what a page of a layer calls prog.c
        self.programs = {"acp": "acp_counter.c", "lapi": "lapi_message.c"}
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("UTOFU_")}
        self.env.update(UTOFU_PROVIDER="shm", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                        OMPI_MCA_rmaps_base_oversubscribe="1")
        self.env.pop("DISPLAY", None)
        self.lines = f'eval "$({prefix}/bin/utofu-info --env)"; '
        wrong = self.do("mkdir build && cc -g -o build/sum prog.c $(pkg-config --cflags --libs utofu) && "
                        "cp build/sum a.out")
        if wrong:
            sys.exit(f"FAIL: prog.c: {wrong}")

    def begin(self, page):
        if page in self.programs:
            shutil.copy(self.folder / self.programs[page], self.folder / "prog.c")

    def do(self, command):
        """What is wrong with it, or None."""
        try:
            ran = subprocess.run(["bash", "-c", self.lines + command], cwd=self.folder, env=self.env, text=True,
                                 stdin=subprocess.DEVNULL, capture_output=True, errors="replace", timeout=LIMIT,
                                 check=False)
        except subprocess.TimeoutExpired:
            return "does not end"
        return None if ran.returncode == 0 else f"status {ran.returncode}: {ran.stdout[-1000:]}{ran.stderr[-1000:]}"


def can_run(command):
    first = re.sub(r"^(?:[A-Z][A-Z_]*=\S* )*", "", command).split()[0]
    return shutil.which(first) or first.startswith(("utofu", "./", "scripts/"))


def try_page(tree, prefix, page, used):
    """The numbers of commands and of those that were run, and what is wrong."""
    text = (tree / "docs" / "guide" / (page + ".md")).read_text()
    wrong, number, ran = [], 0, 0
    with tempfile.TemporaryDirectory() as work:
        reader = Reader(tree, prefix, Path(work))
        reader.begin(page)
        for command in commands_of(text):
            number += 1
            elsewhere = [pattern for pattern, _ in ELSEWHERE if re.search(pattern, command)]
            used.update(elsewhere)
            if elsewhere or not can_run(command):
                continue
            ran += 1
            failed = reader.do(command)
            if failed:
                wrong.append(f"{page}.md: {command}\n    {failed}")
    return number, ran, wrong


def install(build, folder):
    """The prefix of a copy of the build."""
    subprocess.run(["meson", "install", "-C", str(build), "--no-rebuild", "--quiet"], check=True,
                   stdout=subprocess.DEVNULL, env={**os.environ, "DESTDIR": folder})
    prefix = next(Path(folder).glob("**/bin/utofu-info")).parent.parent
    for path in prefix.glob("**/pkgconfig/*.pc"):  # as of an installation there
        path.write_text(re.sub("^prefix=.*$", f"prefix={prefix}", path.read_text(), flags=re.M))
    return prefix


def check_pages(tree, prefix, pages):
    used, wrong, numbers, runs = set(), [], 0, 0
    for page in pages or sorted(path.stem for path in (tree / "docs" / "guide").glob("*.md")):
        number, ran, failed = try_page(tree, prefix, page, used)
        numbers, runs, wrong = numbers + number, runs + ran, wrong + failed
        print(f"{page}.md: {number} commands, {ran} run", flush=True)
    if not pages:
        wrong += [f"no page has '{pattern}'" for pattern, _ in ELSEWHERE if pattern not in used]
    with tempfile.TemporaryDirectory() as work:  # the twin: a line without meet.c
        if not Reader(tree, prefix, Path(work)).do(
                "c++ -std=c++17 -o halo_cxx halo_cxx.cpp $(pkg-config --cflags --libs utofu)"):
            wrong.append("a command without meet.c passes")
    print(f"{runs} of {numbers} commands were run; why the others were not: ELSEWHERE in {Path(__file__).name}")
    return wrong if runs > 25 or pages else wrong + ["hardly any command was run"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        wrong = check_pages(Path(sys.argv[1]).resolve(), install(Path(sys.argv[2]).resolve(), folder), sys.argv[3:])
    for what in wrong:
        print("FAIL:", what)
    return bool(wrong)


sys.exit(main())
