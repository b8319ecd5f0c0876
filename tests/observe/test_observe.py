#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libutofu-observe over the library of this project, and over a stub with the manual's functions only.

usage: test_observe.py GROUP, with the programs and folders in the environment: see meson.build
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare  # noqa: E402

failures = 0
ENV = os.environ
OBSERVE, COMMAND, RUN, MODEL, TRACE = (ENV[n] for n in ("OBSERVE", "COMMAND", "UTOFURUN", "MODEL", "UTOFU_TRACER"))
EXAMPLES, PATTERNS, TABLES, EVERY = (ENV[n] for n in ("EXAMPLES", "PATTERNS", "TABLES", "EVERY"))
STUB, EVERY_STUB, ROOT, BUILD = (ENV[n] for n in ("STUB", "EVERY_STUB", "ROOT", "BUILD"))
OPENMPI = ENV.get("OPENMPI", "")
SIZES = {"pingpong_notice": 2, "pingpong_memory": 2, "progress_by_get": 3, "reserved_stag": 4, "halo_exchange": 4,
         "session_ring": 4, "work_queue": 4, "reduction": 5, "barrier_sum": 5}


def check(name, good, text=""):
    global failures
    print(f"{'ok' if good else 'FAILED'}: {name}{'' if good else ': ' + str(text)}", flush=True)
    failures += not good


def clean_env(**more):
    env = {k: v for k, v in ENV.items() if not k.startswith(("UTOFU_OBSERVE", "UTOFU_TRACE", "UTOFU_STATS"))}
    return {**env, **more}


def run(command, env, **more):
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=280,
                          errors="replace", **more)


def preload(**more):
    return clean_env(LD_PRELOAD=":".join(filter(None, (ENV.get("ASAN_LIBRARY"), OBSERVE))), **more)


def stub(**more):
    return preload(LD_LIBRARY_PATH=os.path.dirname(STUB), **more)


#
# The same run, recorded by the library and by the observer
#

def record_both(folder, name, command, size, **more):
    env = preload(UTOFU_TRACE=f"{folder}/own.rec,record=1", UTOFU_OBSERVE_TRACE=f"{folder}/obs.rec,record=1", **more)
    for old in glob.glob(f"{folder}/*.rec"):
        os.unlink(old)
    done = run(command, env)
    own = [f"{folder}/own.{i}.rec" for i in range(size)]
    obs = [f"{folder}/obs.{i}.rec" for i in range(size)]
    if done.returncode != 0 or not all(map(os.path.exists, own + obs)):
        check(name, False, f"status {done.returncode}, {os.listdir(folder)}: {done.stdout}{done.stderr}")
        return None
    return own, obs


def same(folder, name, command, size, **more):
    both = record_both(folder, name, command, size, **more)
    if not both:
        return
    calls = 0
    for own, obs in zip(*both):
        a, b = compare.threads_of(own), compare.threads_of(obs)
        calls += sum(map(len, a))
        text = compare.differ(a, b)
        if text:
            check(name, False, f"{own}: {text}")
            return
    check(f"{name}: {calls} calls", calls > size)


def launched(size, *command):
    return [RUN, "-n", str(size), "--nodes", str(min(size, 4)), *command]


def test_same(folder):
    for name, size in SIZES.items():
        same(folder, name, launched(size, f"{EXAMPLES}/{name}"), size)
    for case in ("put", "get", "armw", "windows", "ring"):
        same(folder, f"tables {case}", [RUN, "-n", "12", "--nodes", "12", TABLES, case, "3"], 12)
    for case in ("allgather", "halo", "doubling", "incast", "lengths", "stripe", "links", "barrier"):
        same(folder, f"patterns {case}", launched(3, PATTERNS, case, "4"), 3)
    same(folder, "all functions, in two threads", [EVERY], 1)


def test_tutorial(folder):
    code = f"{ROOT}/docs/tutorial/code"
    for step in range(1, 7):
        program = f"{folder}/step{step}"
        built = run([ENV["CC_NAME"], "-O1", "-w", f"-I{ROOT}/include", "-o", program,
                     *(f"{code}/{name}.c" for name in (f"step{step}", "tutorial", "exchange")), f"-L{BUILD}",
                     "-ltofucom", f"-Wl,-rpath,{BUILD}", "-lm"], clean_env())
        if built.returncode != 0:
            check(f"step{step} is built", False, built.stderr)
            continue
        same(folder, f"tutorial, step {step}", launched(4, program), 4)


def test_hybrid(folder):
    if not OPENMPI:
        print("left out: there is no Open MPI")
        sys.exit(77)
    same(folder, "MPI and uTofu", [OPENMPI, "-n", "2", f"{EXAMPLES}/pingpong_mpi.openmpi"], 2)


def test_many(folder):
    same(folder, "48 processes", [RUN, "-n", "48", "--nodes", "12", ENV["TRANSPORT"]], 48, UT_TRANSPORT_MESSAGES="20")


def region_of(paths):
    return json.loads(run([MODEL, "--json", *paths], clean_env()).stdout)["regions"][0]["mean_us"]


def test_told(folder):
    """The model tells nearly the same of both recordings of a region: how the processes meet depends on the clock, and
    a region may begin before the puts of the meeting have landed."""
    for case in (["barrier", "6"], ["incast", "6"], ["halo", "8", "1024", "tell"], ["allgather", "8", "1024", "tell"]):
        all_told = []
        for _ in range(3):  # on a busy machine a pair may differ by more
            both = record_both(folder, "told", launched(3, PATTERNS, *case), 3)
            if not both:
                return
            all_told.append([region_of(paths) for paths in both])
        told = sorted(all_told, key=lambda t: t[0] / t[1])[1]
        check(f"the model tells the same of both for {case[0]}",
              min(told) > 0 and abs(told[0] / told[1] - 1) < 0.1, all_told)
    for size in (2, 4):
        both = record_both(folder, "session", launched(size, f"{EXAMPLES}/session_ring"), size)
        if both:
            told = [json.loads(run([MODEL, "--json", *paths], clean_env()).stdout)["time_us"] for paths in both]
            check(f"the same of session mode, whose starts are not seen, with {size} processes",
                  abs(told[0] / told[1] - 1) < 0.15, told)


def test_held(folder):
    """With hold=1 the recording shows which calls wait for memory, without the program's help."""
    told = []
    for more in ([], ["tell"]):
        done = run([RUN, "-n", "4", "--nodes", "4", PATTERNS, "halo", "40", "1024", *more],
                   preload(UTOFU_OBSERVE_TRACE=f"{folder}/h.rec,record=1,hold=1"))
        check("halo is recorded", done.returncode == 0, done.stderr)
        told.append(region_of([f"{folder}/h.{i}.rec" for i in range(4)]))
    check("what is concluded is at most slower than what the program tells", -0.03 < told[0] / told[1] - 1 < 0.12, told)


def test_twin(folder):
    """compare.py finds a call that is missing, and one with another length."""
    both = record_both(folder, "twin", [EVERY], 1)
    if not both:
        return
    own = compare.threads_of(both[0][0])
    for name, change in (("a missing call", lambda calls: calls[:-3] + calls[-2:]),
                         ("another result", lambda calls: calls[:5] + [("tcq", 1, 1)] + calls[6:])):
        other = compare.threads_of(both[1][0])
        other[0] = change(other[0])
        check(f"{name} is found", compare.differ(own, other) is not None)


#
# Timelines and counters
#

COUNTED = ("puts", "put_bytes", "gets", "get_bytes", "armws", "nops", "lcl_put_notices", "rmt_put_notices",
           "lcl_get_notices", "rmt_get_notices", "lcl_armw_notices", "rmt_armw_notices", "failed", "started",
           "finished")


def counters_of(text):
    """{(rank, kind, id): {counter: value}}; counters of 0 are not printed"""
    out = {}
    for line in text.splitlines():
        found = re.match(r"utofu: stats: \[rank (\d+)\] (vcq|gate) (?:id=|tni=)(\S+)(.*)", line)
        if not found:
            continue
        values = dict(re.findall(r" ([a-z_]+)=(\d+)(?= |$)", found.group(4)))
        kept = {k: int(v) for k, v in values.items() if k in COUNTED}
        if kept:
            out.setdefault((found.group(1), found.group(2), values.get("gate", found.group(3))), {}).update(kept)
    return out


def test_counters(folder):
    del folder
    for name, command in (("halo", launched(3, PATTERNS, "halo", "6")), ("all functions", [EVERY]),
                          ("incast", launched(3, PATTERNS, "incast", "6"))):
        own = run(command, preload(UTOFU_STATS="1", UTOFU_OBSERVE_STATS="1"))
        lines = own.stderr.splitlines()
        # the observer's line of the job has no looked_up=
        jobs = [i for i, line in enumerate(lines) if "] job size=" in line]
        blocks = [lines[i:j] for i, j in zip(jobs, jobs[1:] + [len(lines)])]
        by = [{}, {}]
        for block in blocks:
            rank = re.search(r"rank (\d+)", block[0]).group(1)
            text = "\n".join(line for line in block if f"[rank {rank}]" in line)
            by["looked_up" in block[0]].update(counters_of(text))
        gates = {key for key in by[0] if key[1] == "gate"}
        expected = {k: v for k, v in by[1].items() if k[1] != "gate" or k in gates}
        check(f"counters of {name} agree", by[0] == expected and by[0], f"{by[0]}\n{expected}\n{own.stderr}")
    both = run(launched(3, PATTERNS, "halo", "6"), preload(UTOFU_STATS="job", UTOFU_OBSERVE_STATS="1"))
    of_job = [line for line in both.stderr.splitlines() if "[rank" not in line]
    own, summed = table_of(of_job), table_of(sum_of(both.stderr).splitlines())
    names = set(own) & set(COUNTED) | {"barriers"}
    check("--sum prints what UTOFU_STATS=job does", len(names) > 3 and
          all(own.get(name) == summed.get(name) for name in names), f"{own}\n{summed}")


def sum_of(text):
    return run([COMMAND, "--sum"], clean_env(), input=text).stdout


def table_of(lines):
    """{counter: [total, least, rank, mean, most, rank]} of the whole job"""
    end = next((i for i, line in enumerate(lines) if "stats: region" in line), len(lines))
    rows = [line.split()[2:] for line in lines[:end] if line.startswith("utofu: stats:   ")]
    return {row[0]: [float(v) for v in row[1:] if v != "-"] for row in rows[1:]}


def test_sum(folder):
    lines = []
    for rank, puts in ((0, "1000"), (2, "9000"), (2, "5000")):
        done = run([EVERY_STUB, "bench", puts], stub(UTOFU_STATS="1", PMIX_RANK=str(rank), PJM_MPI_PROC="4"))
        lines.append("[host] " + "\n[host] ".join(done.stderr.splitlines()) + "\n")
        with open(f"{folder}/{len(lines)}", "w", encoding="utf-8") as file:
            file.write(lines[-1])
    text = sum_of("".join(lines))
    puts = [1000 + 1000 // 4, 1000 + 5000 // 4]
    check("counters of all ranks are added, the last of each", table_of(text.splitlines()).get("puts") ==
          [sum(puts), puts[0], 0, sum(puts) / 2, puts[1], 2], text)
    check("missing ranks are named", "summary of 2 of 4 ranks\nutofu: stats: missing: 1 3\n" in text, text)
    files = run([COMMAND, "--sum", f"{folder}/1", f"{folder}/3"], clean_env())
    check("the same from files", files.stdout == text, files)
    nothing = run([COMMAND, "--sum"], clean_env(), input="a line\n")
    check("no counters are refused", nothing.returncode == 1 and "no counters" in nothing.stderr, nothing)
    lines = sum_of(run([EVERY_STUB], stub(UTOFU_STATS="1")).stderr).splitlines()
    check("regions are added", 'utofu: stats: region "all of it" of 1 ranks' in lines, lines)


def events_of(path):
    with open(path, encoding="utf-8") as file:
        events = json.load(file)
    return sorted((e["cat"], e["args"]["bytes"], e["args"]["edata"]) for e in events
                  if e["ph"] == "X" and e.get("cat") in ("put", "get", "armw", "nop"))


def test_timeline(folder):
    for name, command, size in (("halo", launched(3, PATTERNS, "halo", "6"), 3), ("all functions", [EVERY], 1)):
        done = run(command, preload(UTOFU_TRACE=f"{folder}/own.json", UTOFU_OBSERVE_TRACE=f"{folder}/obs.json"))
        check(f"{name} runs", done.returncode == 0, done.stderr)
        for rank in range(size):
            own, obs = events_of(f"{folder}/own.{rank}.json"), events_of(f"{folder}/obs.{rank}.json")
            check(f"timeline of {name}, rank {rank}: {len(own)} communications", own == obs and own)
        merged = run([TRACE, "-o", f"{folder}/all.json", *(f"{folder}/obs.{i}.json" for i in range(size))], clean_env())
        check("utofu-trace merges them", merged.returncode == 0, merged.stderr)
        with open(f"{folder}/all.json", encoding="utf-8") as file:
            json.load(file)
    kept(folder)


def kept(folder):
    """Full buffers that are kept are written in their order, and none twice, however many there is room for."""
    for keep in ("0", "1", "32"):
        done = run([EVERY_STUB, "bench", "100000"], stub(UTOFU_TRACE=f"{folder}/keep.json,keep={keep}"))
        check(f"keep={keep}: runs", done.returncode == 0 and done.stderr == "", done)
        with open(f"{folder}/keep.0.json", encoding="utf-8") as file:
            puts = [e["ts"] for e in json.load(file) if e["ph"] == "X" and e.get("cat") == "put"]
        check(f"keep={keep}: each put once, in order", len(puts) == 26000 and puts == sorted(set(puts)), len(puts))
    for keep, least, most in (("0", 90000, 100000), ("64", 0, 0)):
        done = run([EVERY_STUB, "long", "100000"], stub(UTOFU_TRACE=f"{folder}/keep.json,keep={keep}"))
        with open(f"{folder}/keep.0.json", encoding="utf-8") as file:
            puts = file.read().count('"ph":"X"')
        check(f"keep={keep}: a killed process leaves {puts} puts", done.returncode == -signal.SIGKILL and
              least <= puts <= most)


#
# Over the stub
#

def test_stub(folder):
    names = run([ENV["NM"], "-D", "--defined-only", STUB], clean_env()).stdout
    check("the stub has 65 functions", len(re.findall(r" T utofu_", names)) == 65, names)
    plain = run([EVERY_STUB], clean_env(LD_LIBRARY_PATH=os.path.dirname(STUB)))
    check("the program runs without the observer", plain.returncode == 0, plain.stderr)
    off = run([EVERY_STUB], stub())
    check("nothing is printed where nothing is asked for", off.returncode == 0 and off.stdout + off.stderr == "", off)
    done = run([EVERY_STUB], stub(UTOFU_TRACE=f"{folder}/t.rec,record=1"))
    check("a recording over the stub", done.returncode == 0 and done.stderr == "", done)
    calls = sum(map(len, compare.threads_of(f"{folder}/t.0.rec")))
    check(f"{calls} calls", calls > 400)
    told = run([MODEL, "--json", f"{folder}/t.0.rec"], clean_env())
    check("utofu-model reads it", told.returncode == 0 and json.loads(told.stdout)["time_us"] > 0, told)
    regions = {r["name"]: r["calls"] for r in json.loads(told.stdout)["regions"]}
    check("with the regions", regions == {"all of it": 2}, regions)
    ranks = run([EVERY_STUB], stub(UTOFU_TRACE=f"{folder}/r.rec,record=1", PMIX_RANK="3", PJM_MPI_PROC="5"))
    check("rank and size come from the scheduler", os.path.exists(f"{folder}/r.3.rec"), ranks)


def test_check(folder):
    del folder
    right = run([EVERY_STUB], stub(UTOFU_CHECK="1"))
    check("a right program has no finding", right.returncode == 0 and right.stderr == "", right)
    wrong = run([EVERY_STUB, "wrong"], stub(UTOFU_CHECK="1"))
    for finding in ("source-written: the source of a put was changed before the put was sent",
                    "deregistered: memory was deregistered"):
        check(finding, f"utofu: check: [rank 0] {finding}" in wrong.stderr, wrong.stderr)
    check("failed calls are told with their place",
          re.search(r"utofu_poll_tcq\(\) has returned UTOFU_ERR_INVALID_VCQ_HDL \(-521\) 3 times, called in \S*every",
                    wrong.stderr), wrong.stderr)
    ended = run([EVERY_STUB, "wrong"], stub(UTOFU_CHECK="abort"))
    check("abort ends the program", ended.returncode == -signal.SIGABRT, ended)
    for name, size in SIZES.items():
        done = run(launched(size, f"{EXAMPLES}/{name}"), preload(UTOFU_OBSERVE_CHECK="1"))
        check(f"{name} has no finding", done.returncode == 0 and "utofu: check: [rank" not in done.stderr, done.stderr)


def test_hang(folder):
    del folder
    with subprocess.Popen([EVERY_STUB, "hang"], env=stub(UTOFU_DUMP_SIGNAL="USR2"), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGUSR2)
        lines = [process.stderr.readline() for _ in range(3)]
        process.kill()
    text = "".join(lines)
    check("what is started and not finished", re.search(r"vcq id=\S+ .*unfinished=2", text) and
          re.search(r"put of 8 bytes, .*: waits for its TCQ entry and its local notice", text) and
          re.search(r"get of 16 bytes, .*: waits for its local notice", text), text)


def test_killed(folder):
    path = f"{folder}/k.0.rec"
    done = run([EVERY_STUB, "long", "100000"], stub(UTOFU_TRACE=f"{folder}/k.rec,record=1"))
    check("the process is killed", done.returncode == -signal.SIGKILL, done)
    whole = run([MODEL, path], clean_env())
    check("a recording without an end is refused", whole.returncode == 1 and "without its end" in whole.stderr, whole)
    partial = run([MODEL, "--json", "--partial", path], clean_env())
    check("--partial reads it", partial.returncode == 0, partial.stderr)
    puts = sum(call[0] == "put" for thread in compare.threads_of(path) for call in thread)
    check(f"up to its last full buffer: {puts} puts", puts > 90000)
    with open(path, "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(content[:-100])
    cut = run([MODEL, "--json", "--partial", path], clean_env())
    check("and one whose last block lacks bytes", cut.returncode == 0, cut.stderr)


def test_limit(folder):
    path = f"{folder}/l.0.rec"
    done = run([EVERY_STUB, "bench", "2000000"], stub(UTOFU_TRACE=f"{folder}/l.rec,record=1,limit=1"))
    check("the limit is told", done.returncode == 0 and "limit" in done.stderr, done)
    check("the file ends there", os.path.getsize(path) <= 1 << 20, os.path.getsize(path))
    check("--partial reads it", run([MODEL, "--partial", path], clean_env()).returncode == 0)


def test_command(folder):
    def observe(*options, **more):
        return run([COMMAND, "--library", OBSERVE, *options],
                   clean_env(LD_LIBRARY_PATH=os.path.dirname(STUB), **more))
    done = observe("--record", f"{folder}/c.rec", "--limit", "5", "--stats", "--check", EVERY_STUB)
    check("options of the command", done.returncode == 0 and os.path.exists(f"{folder}/c.0.rec") and
          "utofu: stats: [rank 0] job size=1" in done.stderr, done)
    done = observe("--trace", f"{folder}/c.json", "--", EVERY_STUB)
    check("a timeline", done.returncode == 0 and os.path.exists(f"{folder}/c.0.json"), done)
    for options, text in ((["--wrong", "a"], "no option"), (["--record"], "needs a value"),
                          (["/bin/true"], "nothing is"),
                          (["--stats"], "a program is missing"), (["--record", "a,b", "c"], "without a comma"),
                          (["--limit", "x", "c"], "takes a number"),
                          (["--keep", "x", "c"], "takes a number"), (["--dump", "KILL", "c"], "takes HUP")):
        done = observe(*options)
        check(f"refused: {' '.join(options)}", done.returncode == 2 and text in done.stderr, done)


#
# The sources that are installed, on their own
#

def copy_tree(folder):
    """What is installed in share/utofu-verbs/observe."""
    listed = json.loads(run([*ENV["MESON"].split(), "introspect", "--installed", BUILD], clean_env()).stdout)
    names = []
    for source, target in listed.items():
        part = target.partition("/share/utofu-verbs/observe/")[2]
        if part:
            os.makedirs(os.path.dirname(f"{folder}/{part}"), exist_ok=True)
            shutil.copy(source, f"{folder}/{part}")
            names.append(part)
    return names


def build_tree(folder, compiler, *flags):
    made = run(["make", "-C", folder, f"CC={compiler}", f"CPPFLAGS=-I{ROOT}/tests/conform/manual {' '.join(flags)}",
                "CFLAGS=-O1 -Wall -Wno-unused-function -Werror"], clean_env())
    return made.returncode == 0, made.stdout + made.stderr


def test_alone(folder):
    names = sorted(copy_tree(folder))
    check("a file of sources for each library and a Makefile are installed", names == [
        "Makefile", "utofu-observe", "utofu_observe.c", "utofu_record_mpi.c", "utofu_regions.h"], names)
    for compiler in ("gcc", "clang"):
        if not shutil.which(compiler):
            print(f"left out: there is no {compiler}")
            continue
        run(["make", "-C", folder, "clean"], clean_env())
        built, text = build_tree(folder, compiler)
        check(f"{compiler} -std=c99 builds them with a header of the manual only", built, text)
        env = clean_env(LD_PRELOAD=f"{folder}/libutofu-observe.so", LD_LIBRARY_PATH=os.path.dirname(STUB),
                        UTOFU_TRACE=f"{folder}/{compiler}.rec,record=1")
        done = run([EVERY_STUB], env)
        check("and it records", done.returncode == 0 and os.path.exists(f"{folder}/{compiler}.0.rec"), done)
    for compiler in filter(shutil.which, ("mpicc.openmpi", "mpicc.mpich")):
        made = run(["make", "-B", "-C", folder, f"MPICC={compiler}", "libutofu-record-mpi.so"], clean_env())
        check(f"{compiler} builds the recorder of MPI's calls", made.returncode == 0, made.stdout + made.stderr)


def test_arm(folder):
    compiler = "aarch64-linux-gnu-gcc"
    missing = [name for name in (compiler, "qemu-aarch64") if not shutil.which(name)]
    if missing:
        print(f"left out: {' and '.join(missing)} are not installed (scripts/install-deps)")
        sys.exit(77)
    copy_tree(folder)
    built, text = build_tree(folder, compiler)
    check("built for aarch64", built, text)
    header = f"-I{ROOT}/tests/conform/manual"
    for command in (["-shared", "-fPIC", "-Wl,-soname,libtofucom.so.1", "-o", f"{folder}/libtofucom.so",
                     f"{ROOT}/tests/observe/stub.c"],
                    ["-o", f"{folder}/every", f"{ROOT}/tests/observe/every.c", f"-L{folder}", "-ltofucom",
                     "-lpthread"]):
        made = run([compiler, "-std=gnu11", "-O1", header, *command], clean_env())
        check("program and stub are built", made.returncode == 0, made.stderr)
    shutil.copy(f"{folder}/libtofucom.so", f"{folder}/libtofucom.so.1")
    root = run([compiler, "-print-sysroot"], clean_env()).stdout.strip()
    places = [p for p in (root, "/usr/aarch64-linux-gnu") if p and os.path.exists(f"{p}/lib/ld-linux-aarch64.so.1")]

    def emulate(*arguments, **more):
        return run(["qemu-aarch64", "-L", places[0], "-E", f"LD_PRELOAD={folder}/libutofu-observe.so", "-E",
                    f"LD_LIBRARY_PATH={folder}", f"{folder}/every", *arguments], clean_env(**more))
    done = emulate(UTOFU_TRACE=f"{folder}/arm.rec,record=1")
    check("runs under qemu-user", done.returncode == 0 and done.stderr == "", done)
    told = run([MODEL, "--json", f"{folder}/arm.0.rec"], clean_env())
    check("utofu-model reads the recording", told.returncode == 0, told.stderr)
    here = run([EVERY_STUB], stub(UTOFU_TRACE=f"{folder}/here.rec,record=1"))
    text = compare.differ(compare.threads_of(f"{folder}/arm.0.rec"), compare.threads_of(f"{folder}/here.0.rec"))
    check("with the same calls as on this machine", here.returncode == 0 and text is None, text)
    done = emulate("wrong", UTOFU_CHECK="1", UTOFU_STATS="1")
    check("checks and counters", "source-written" in done.stderr and "stats: [rank 0] vcq" in done.stderr, done)
    done = emulate(UTOFU_TRACE=f"{folder}/arm.json")
    with open(f"{folder}/arm.0.json", encoding="utf-8") as file:
        check("a timeline", len(json.load(file)) > 100 and done.returncode == 0)


def main(group):
    with tempfile.TemporaryDirectory() as folder:
        globals()[f"test_{group}"](folder)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
