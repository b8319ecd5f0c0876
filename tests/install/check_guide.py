#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command line of docs/guide is run as it stands, or the reason is printed: ELSEWHERE has what this test runs on
no machine, NEEDS what a machine must have.

usage: check_guide.py SOURCES BUILD [PAGE...]

A command is a line of a block of sh or console, or of an indented block, that begins with one of FIRST. The commands
of a page run one after the other in a folder with the examples and programs of the reader (prog.c, a.out,
build/sum...), with the library installed in a folder of its own. AROUND has what a command needs around it, as a
process that hangs. A command that fails, and a row of ELSEWHERE or AROUND that no page has, are errors.
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
    (r"meson setup build && meson install", "builds all of it for minutes: use_as_readme_says, install_is_enough"),
    (r"scripts/quickstart", "installs packages and builds: ofi_quickstart"),
    (r"sudo scripts/rxe-vm up", "changes the network devices of the machine"),
    (r"scripts/rxe-vm|UT_LEAVING", "boots a virtual machine for minutes: the tests of Soft-RoCE"),
    (r"scripts/(bench|ratios)|utofu-perf --peers", "measures for many minutes: perf_peers takes few iterations"),
    (r"podman ", "needs an image, and the right to run containers"),
    (r"srun", "needs Slurm"),
    (r"module load", "needs Environment Modules or Lmod: use_as_readme_says has stand-ins"),
    (r"-N 1 |--host a:1,b:1 -n 2 .*utofu-conform", "needs several hosts"),
    (r"mpifccpx|fcc -Nclang|MPICC=mpifcc",
     "needs Fujitsu's compilers: conform_compiles_with_the_manual_alone, observe_alone"),
    (r"mpiexec \./utofu-conform", "a job on Fugaku: conform_under_mpich, conform_mpi_mpich"),
    (r"utofu-observe .*mpiexec|utofu-model --compare", "a job on Fugaku: observe_hybrid, model_compare"),
    (r"UTOFU_PROVIDER=verbs utofu-info", "needs an RDMA adapter: the tests of Soft-RoCE run it"),
    (r"bpftrace", "needs root and the kernel's tracing: probes_are_nops"),
)
# What a command needs besides its program, and how that is found out: elsewhere it is not run.
NEEDS = (
    (r"UTOFU_PROVIDER=ofi", "UTOFU_PROVIDER=ofi UTOFU_OFI_DOMAIN=lo utofu-info"),
    (r"utofu-fortran", "pkg-config --exists utofu-fortran"),
    (r"utofu-compat", "pkg-config --exists utofu-compat"),
    (r"cc -o stack|-n 8 (--nodes 2 )?\./stack", "pkg-config --exists tofutop pmix"),
    (r"mpiexec -n|libprdma-mpich", "command -v mpiexec.mpich mpicc.mpich"),
    (r"prdma", "pkg-config --exists ompi-c && command -v mpicc.openmpi"),
    (r"--plot", "command -v gnuplot"),
    (r"valgrind", "command -v valgrind"),
    (r"prog\.f90|pkill|gdb", "command -v gfortran gdb"),
)
HANGS = r"""
mkdir -p hangs && sed 's/argv\[1\] : ""/argv[1] : "hang"/' prog.c >hangs/prog.c
cc -g -o hangs/a.out hangs/prog.c $(pkg-config --cflags --libs utofu) && cd hangs
export UTOFU_DUMP_SIGNAL=USR2
{} >out 2>&1 &
job=$!
await() {{ for _ in $(seq 300); do "$@" && return; sleep 0.1; done; cat out; echo "waits in vain: $*"; exit 1; }}
has_handlers() {{
    local n=0 p
    for p in $(pgrep -x a.out); do ((16#$(awk '/^SigCgt/ {{ print $2 }}' /proc/$p/status) & 0x800)) && ((n += 1)); done
    ((n == 2))
}}
await has_handlers
"""
MPICH = "mpiexec() { mpiexec.mpich \"$@\"; }; "
# What surrounds a command: its files and processes, and what shows that it did something. The first pattern is that
# of the first line, the second, if any, of the last one of lines that belong together. {1}, {2}... are the lines.
AROUND = (
    (r"eval .*DIR/bin", None,
     "ln -sfn $PREFIX DIR; unset LD_LIBRARY_PATH; PATH=/usr/bin:/bin; {1} && utofu-info >/dev/null"),
    (r"export PYTHONPATH=.HOME/utofu", None,
     "export HOME=$PWD; ln -sfn $PREFIX utofu; unset PYTHONPATH; {1}; python3 -c 'import utofu'"),
    (r"-lacpml", None, "mkdir -p ACP/include ACP/lib; echo 'void acp_upper(void) {}' >ml.c; cc -c ml.c && "
     "ar rcs ACP/lib/libacpml.a ml.o && {1}"),
    (r"UTOFU_PROVIDER=ofi", None, "mkdir -p build/examples; cc -o build/examples/pingpong_notice pingpong_notice.c "
     "meet.c $(pkg-config --cflags --libs utofu) && {1}"),
    (r"man utofu_put", None, "{1} | grep -q stadd"),
    (r"utofu-perf --plot", None, "utofurun -n 2 utofu-perf -q --json -n 20 -s 8,64 put-lat >before.json && "
     "cp before.json after.json && {1} && [ -s lat.png ]"),
    (r"prdma-run|libprdma-openmpi", None, "mpicc.openmpi -o program stencil_mpi.c && {1}"),
    (r"libprdma-mpich", None, MPICH + "mpicc.mpich -o program stencil_mpi.c && {1}"),
    (r"mpiexec -n 8 \./stack", None, MPICH + "{1}"),
    (r"utofu-conform --compare", None, "utofurun -n 2 utofu-conform --group version --output here.json && "
     "cp here.json fugaku.json && {1}"),
    (r"utofu-observe --sum", None, "utofu-observe --stats utofurun -n 2 ./a.out 2>lines && {1}"),
    # in namespaces of their own: hosts, ports, processes and files in /usr are those of these commands
    (r"/usr/share/utofu-verbs/(valgrind|tsan)", None, "ALONE {1}"),
    (r"^export UTOFU_SIZE", r"^wait$", "ALONE echo 127.0.0.1 localhost a b $(hostname) >hosts; "
     'mount --bind hosts /etc/hosts; ssh() { shift; env "$@"; }; cp a.out prog; set -e\n{1}\n{2}\n{3}\n{4}\n{5}'),
    (r"utofu-perf --listen", r"utofu-perf --connect", "ALONE {1} 2>said &\n"
     "for _ in $(seq 100); do grep -q UTOFU_JOB_KEY= said && break; sleep 0.1; done\n"
     "line='{2}'; line=${line/UTOFU_JOB_KEY=.../$(grep -o 'UTOFU_JOB_KEY=[0-9a-f]*' said)}\n"
     'eval "${line/HOST/localhost} -n 20" && wait $!'),
    (r"UTOFU_DUMP_SIGNAL=USR2 mpirun", r"pkill", "ALONE " + HANGS.format("{1}") +
     "{2}; await grep -q '.rank 1. end' out; kill $job; wait"),
    (r"gdb -x", None, "ALONE " + HANGS.format("utofurun -n 2 ./a.out") +
     "line='{1}'; echo utofu-vcqs |\neval \"${line/PID/$(pgrep -xn a.out)}\" >told 2>&1; grep -q tni told && "
     "kill $job"),
)
LIMIT = 300  # seconds of one command


def find(table, command):
    """The row of a table for a command."""
    return next((row for row in table if re.search(row[0], command)), None)


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


STACK = r"""#include <pmix.h>
#include <pmix_fjext.h>
#include <stdio.h>
int main(void)
{
    pmix_proc_t self, all;
    pmix_value_t *value = NULL;

    if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS)
        return 1;
    all = self;
    all.rank = PMIX_RANK_WILDCARD;
    int rc = PMIx_Get(&all, FJPMIX_RANKMAP, NULL, 0, &value);
    printf("rank %u: %s\n", self.rank, rc == PMIX_SUCCESS ? "a map" : "no map");
    return PMIx_Finalize(NULL, 0) != PMIX_SUCCESS || rc != PMIX_SUCCESS;
}
"""
FORTRAN = "program prog\n  use utofu\n  integer(utofu_vcq_hdl_kind) :: vcq\n  integer :: rc\n" \
    "  rc = utofu_create_vcq(0_utofu_tni_id_kind, 0_utofu_flags_kind, vcq)\n  if (rc /= 0) stop 1\nend program\n"
# The machine for one command: its own hosts, ports, processes, and the installation in /usr/share.
NAMESPACES = ["unshare", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
ALONE = "ip link set lo up && mount -t overlay -o lowerdir=$PREFIX/share:/usr/share none /usr/share || exit 1\n"


class Reader:
    def __init__(self, tree, prefix, folder):
        self.folder = folder
        for path in (tree / "examples").iterdir():
            if path.is_file():
                shutil.copy(path, folder)
        shutil.copy(tree / "examples" / "ci-project" / "sum.c", folder / "prog.c")
        (folder / "prog.cpp").write_text("#include <utofu.hpp>\nint main()\n{\n    utofu::Vcq vcq(0);\n}\n")
        (folder / "prog.py").write_text("import utofu\nwith utofu.Meeting() as meeting:\n    meeting.barrier()\n")
        (folder / "prog.f90").write_text(FORTRAN)
        (folder / "stack.c").write_text(STACK)
        # what a page of a layer calls prog.c
        self.programs = {"acp": "acp_counter.c", "lapi": "lapi_message.c"}
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("UTOFU_")}
        self.env.update(UTOFU_PROVIDER="shm", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                        OMPI_MCA_rmaps_base_oversubscribe="1", PREFIX=str(prefix))
        self.env.pop("DISPLAY", None)
        self.lines = f'eval "$({prefix}/bin/utofu-info --env)"; '
        wrong = self.do("mkdir build && cc -g -o build/sum prog.c $(pkg-config --cflags --libs utofu) && "
                        "cp build/sum a.out")
        if wrong:
            sys.exit(f"FAIL: prog.c: {wrong}")

    def begin(self, page):
        if page in self.programs:
            shutil.copy(self.folder / self.programs[page], self.folder / "prog.c")

    def do(self, script):
        """What is wrong with it, or None."""
        shell = ["bash", "-c"]
        if script.startswith("ALONE "):
            shell, script = NAMESPACES + shell, ALONE + script.removeprefix("ALONE ")
        try:
            ran = subprocess.run(shell + [self.lines + script], cwd=self.folder, env=self.env, text=True,
                                 stdin=subprocess.DEVNULL, capture_output=True, errors="replace", timeout=LIMIT,
                                 check=False)
        except subprocess.TimeoutExpired:
            return "does not end"
        return None if ran.returncode == 0 else f"status {ran.returncode}: {ran.stdout[-1000:]}{ran.stderr[-1000:]}"

    def why_not(self, command):
        """Why the command cannot be run on this machine, or None."""
        first = re.sub(r"^(?:[A-Z][A-Z_]*=\S* )*", "", command).split()[0]
        if not (shutil.which(first) or first.startswith(("utofu", "./", "scripts/")) or
                first in ("eval", "export", "wait", "ssh")):
            return f"{first} is not installed"
        needs, around = find(NEEDS, command), find(AROUND, command)
        if needs and self.do(needs[1]):
            return f"not here: {needs[1]}"
        if around and "ALONE " in around[2] and self.do("ALONE true"):
            return "namespaces are not permitted"
        return None


def join_lines(commands):
    """The scripts of a page: the lines of each, and the script."""
    waiting = list(commands)
    while waiting:
        around = find(AROUND, waiting[0])
        lines = [waiting.pop(0)]
        while around and around[1] and waiting and not re.search(around[1], lines[-1]):
            lines.append(waiting.pop(0))
        script = around[2] if around else "{1}"
        for number, line in enumerate(lines, 1):
            script = script.replace("{%d}" % number, line)
        yield lines, script


def try_page(tree, prefix, page, used):
    """The numbers of commands and of those that were run, and what is wrong."""
    text = (tree / "docs" / "guide" / (page + ".md")).read_text()
    wrong, number, ran = [], 0, 0
    with tempfile.TemporaryDirectory() as work:
        reader = Reader(tree, prefix, Path(work))
        reader.begin(page)
        for lines, script in join_lines(commands_of(text)):
            number += len(lines)
            rows = [find(table, lines[0]) for table in (ELSEWHERE, AROUND)]
            used.update(row[0] for row in rows if row)
            why = rows[0][1] if rows[0] else reader.why_not(lines[0])
            if why:
                print(f"    not run: {'; '.join(lines)[:70]}: {why}")
                continue
            ran += len(lines)
            failed = reader.do(script)
            if failed:
                wrong.append(f"{page}.md: {'; '.join(lines)}\n    {failed}")
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
        wrong += [f"no page has '{row[0]}'" for row in ELSEWHERE + AROUND if row[0] not in used]
    with tempfile.TemporaryDirectory() as work:  # the twin: a line without meet.c
        if not Reader(tree, prefix, Path(work)).do(
                "c++ -std=c++17 -o halo_cxx halo_cxx.cpp $(pkg-config --cflags --libs utofu)"):
            wrong.append("a command without meet.c passes")
    print(f"{runs} of {numbers} commands were run")
    return wrong if runs > 50 or pages else wrong + ["hardly any command was run"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        wrong = check_pages(Path(sys.argv[1]).resolve(), install(Path(sys.argv[2]).resolve(), folder), sys.argv[3:])
    for what in wrong:
        print("FAIL:", what)
    return bool(wrong)


sys.exit(main())
