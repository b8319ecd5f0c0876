#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libutofu-record-mpi, with one MPI library: what is recorded, and what utofu-model makes of it.

usage: test_record_mpi.py GROUP, with LAUNCHER, LIBRARY, MODEL, MACHINE, OBSERVE (a library), CALLS, HYBRID, SAME, and,
unless there is no Fortran, CALLS_MPIF, CALLS_F08, SAME_MPIF and SAME_F08 naming files
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "model"))
import recordings  # noqa: E402
from recordings import (COLLS, MPI, MPI_BEGIN, MPI_COLL, MPI_COMM, MPI_OPAQUE, MPI_PROBE, MPI_RECV,  # noqa: E402
                        MPI_SEND, MPI_WAIT)

failures = 0
LAUNCHER, LIBRARY, MODEL, MACHINE, OBSERVE, CALLS, HYBRID, MPIF, F08, SAME, SAME_MPIF, SAME_F08 = (
    os.environ.get(name) for name in
    "LAUNCHER LIBRARY MODEL MACHINE OBSERVE CALLS HYBRID CALLS_MPIF CALLS_F08 SAME SAME_MPIF SAME_F08".split())


def check(name, good, text=""):
    global failures
    print(f"{'ok' if good else 'FAILED'}: {name}{'' if good else ': ' + str(text)}")
    failures += not good


def run(folder, name, ranks, command, library=LIBRARY, more=(), variable="UTOFU_TRACE"):
    """The recordings of a program; more: what else is in front of it."""
    for old in glob.glob(os.path.join(folder, f"{name}.*.rec")):
        os.unlink(old)
    front = [*more] + ([library] if library else [])
    env = {**os.environ, variable: f"{folder}/{name}.rec,record=1"}
    start = ["env", "LD_PRELOAD=" + ":".join(front)] if front else []
    out = subprocess.run([LAUNCHER, "-n", str(ranks), *start, *command], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, timeout=100, env=env)
    paths = sorted(glob.glob(os.path.join(folder, f"{name}.*.rec")))
    if out.returncode != 0 or len(paths) != ranks:
        check(f"{' '.join(command)} is recorded", False,
              f"{len(paths)} recordings, status {out.returncode}: {out.stdout}")
        sys.exit(1)
    return paths


def model(paths, *options):
    return subprocess.run([MODEL, "-m", MACHINE, "--allocation", f"{len(paths)}x1x1", *options, *paths],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100)


def predict(paths):
    out = model(paths, "--json")
    if out.returncode != 0:
        check("utofu-model", False, out.stderr)
        sys.exit(1)
    return json.loads(out.stdout)


def calls_of(path):
    return [r.mpi for r in recordings.read(path) if r.op == MPI]


#
# What rank 0 of the programs records: enum ut_record_mpi_kind has the meaning of the numbers
#

def coll(name, comm, root, size, elements, request=-1):
    return MPI_COLL, [COLLS.index(name), comm, root, size, elements, request]


def done(*requests, source=-1, tag=-1):
    return MPI_WAIT, sum(([r, source, tag, 0] for r in requests), [])


WORLD, SELF, HALF, COPY, RING = range(5)
BEGIN = [(MPI_BEGIN, [0, 4]), (MPI_COMM, [WORLD, 4, 0, 1, 4]), (MPI_COMM, [SELF, 1, 0, 1, 1]),
         coll("barrier", WORLD, -1, 0, 0)]
POINT_TO_POINT = [
    (MPI_SEND, [WORLD, 1, 1, 40, -1, 0]),
    (MPI_SEND, [WORLD, 1, 2, 800, 0, 0]), (MPI_RECV, [WORLD, 3, 2, 1]), done(0, 1),
    (MPI_RECV, [WORLD, 3, 3, -3]), (MPI_SEND, [WORLD, 1, 3, 4, -2, 0]), done(-3, -2),
    (MPI_RECV, [WORLD, -1, -1, 2]), done(2, source=2, tag=7),
    coll("barrier", WORLD, -1, 0, 0), (MPI_RECV, [WORLD, 1, 10, 3]), done(3),
    (MPI_PROBE, [WORLD, 3, 9]), (MPI_RECV, [WORLD, 3, 9, -1])]
PERSISTENT = 2 * [(MPI_SEND, [WORLD, 1, 4, 16, 4, 0]), (MPI_RECV, [WORLD, 3, 4, 5])]
PERSISTENT[2:2] = [done(4, 5)]
PERSISTENT += [done(4), done(5)]
COLLECTIVES = [
    coll("bcast", WORLD, 1, 12, 3), coll("reduce", WORLD, 2, 8, 1), coll("allreduce", WORLD, -1, 16, 2),
    coll("gather", WORLD, 0, 8, 0), coll("allgather", WORLD, -1, 8, 0), coll("scan", WORLD, -1, 8, 0),
    coll("barrier", WORLD, -1, 0, 0, 6), done(6), coll("allreduce", WORLD, -1, 8, 1, 7), done(7)]
COMMUNICATORS = [
    (MPI_COMM, [HALF, 2, 0, 2, 2]), coll("new_comm", WORLD, -1, 4, 0), coll("barrier", HALF, -1, 0, 0),
    (MPI_COMM, [COPY, 2, 0, 2, 2]), coll("new_comm", HALF, -1, 4, 0), coll("allreduce", COPY, -1, 8, 1),
    (MPI_COMM, [RING, 4, 0, 1, 4]), coll("new_comm", WORLD, -1, 4, 0),
    (MPI_RECV, [RING, 3, -2, -4]), (MPI_RECV, [RING, 1, -2, -5]), (MPI_SEND, [RING, 3, -2, 8, -6, 0]),
    (MPI_SEND, [RING, 1, -2, 8, -7, 0]), done(-4, -5, -6, -7)]
ONE_SIDED = 3 * [(MPI_OPAQUE, [1])]
MPI_4 = [(MPI_RECV, [WORLD, 3, 5, 8]), (MPI_SEND, [WORLD, 1, 5, 8, 8, 0]), done(8)] \
    + 2 * [coll("allreduce", WORLD, -1, 8, 1, 9), coll("bcast", WORLD, 1, 8, 1, 10), done(9, 10)]
IN_C = BEGIN + POINT_TO_POINT + PERSISTENT + COLLECTIVES + COMMUNICATORS + ONE_SIDED
if os.environ.get("MPI_VERSION") == "4":
    IN_C += MPI_4
IN_FORTRAN = BEGIN + POINT_TO_POINT[:4] + [
    (MPI_RECV, [WORLD, -1, -1, 2]), done(2, source=2, tag=7), coll("allreduce", WORLD, -1, 16, 2),
    coll("gather", SELF, 0, 8, 0), COMMUNICATORS[0], COMMUNICATORS[1], COMMUNICATORS[2]]


def compare(name, got, wanted):
    for i, (a, b) in enumerate(zip(got, wanted)):
        if a != b:
            check(name, False, f"record {i} is {a}, and not {b}")
            return
    check(name, len(got) == len(wanted), f"{len(got)} records, and not {len(wanted)}")


def test_calls(folder):
    compare("C: rank 0 records what it calls", calls_of(run(folder, "c", 4, [CALLS])[0]), IN_C)
    result = predict(sorted(glob.glob(folder + "/c.*.rec")))
    check("the recording is replayed, and says that its one-sided calls are not",
          result["mpi"] == "recorded" and result["mpi_opaque"] == 12 and result["time_us"] > 20, result)
    send = IN_C.index(POINT_TO_POINT[1])
    check("bad twin: a table with another tag is not what is recorded",
          calls_of(folder + "/c.0.rec")[send] != (MPI_SEND, [WORLD, 1, 1, 800, 0, 0]))


def test_fortran(folder):
    for name, program in (("mpif.h", MPIF), ("mpi_f08", F08)):
        if not program:
            print(f"{name}: no compiler")
            continue
        paths = run(folder, "f", 4, [program])
        compare(f"{name}: rank 0 records what it calls", calls_of(paths[0]), IN_FORTRAN)
        told = predict(paths)["mpi"]
        check(f"{name}: utofu-model says so", told == "recorded", told)


def test_same(folder):
    """One program in C, with mpif.h and with mpi_f08: the same recordings."""
    in_c = [calls_of(path) for path in run(folder, "c", 4, [SAME])]
    check("C: there are calls to compare", all(len(calls) >= 80 for calls in in_c), in_c)
    for name, program in (("mpif.h", SAME_MPIF), ("mpi_f08", SAME_F08)):
        if not program:
            print(f"{name}: no compiler")
            continue
        for rank, path in enumerate(run(folder, "f", 4, [program])):
            compare(f"{name}: rank {rank} records what it does in C", calls_of(path), in_c[rank])
    check("bad twin: the recordings of two ranks are not the same", in_c[0] != in_c[2])


def halo(paths):
    return {r["name"]: r["mean_us"] for r in predict(paths)["regions"]}["halo"]


def near(name, got, want):
    check(f"{name}: {got:.3f} us, and {want:.3f}", abs(got - want) <= 0.03 * want)


def test_hybrid(folder):
    """Without and with other processes that use the CPUs; and without the library."""
    command = [HYBRID, "20", "4096"]
    alone = halo(run(folder, "alone", 4, command))
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
    try:
        loaded = halo(run(folder, "loaded", 4, command))
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    near("beside a load as without", loaded, alone)
    bare = run(folder, "bare", 4, command, library=None)
    first = model(bare).stdout.splitlines()[0]
    check("without it, the first line says that MPI is missing", "MPI, which is not recorded" in first, first)
    check("and so does JSON", predict(bare)["mpi"] == "missing")
    check("bad twin: rounds that MPI_Allreduce separates run into each other",
          halo(bare) < 0.8 * alone, f"{halo(bare)} and {alone}")


def test_observe(folder):
    """libutofu-observe is the recorder: the same calls of MPI, and the same time."""
    command = [HYBRID, "20", "4096"]
    own = run(folder, "own", 4, command)
    seen = run(folder, "seen", 4, command, more=[OBSERVE], variable="UTOFU_OBSERVE_TRACE")
    compare("libutofu-observe has the same calls of MPI", calls_of(seen[0]), calls_of(own[0]))
    near("and the model tells the same", halo(seen), halo(own))


def test_off(folder):
    """Without a recording nothing is called but MPI's own functions, and nothing is written."""
    for name, env in (("no recording", {}), ("a timeline", {"UTOFU_TRACE": folder + "/t.json"})):
        out = subprocess.run([LAUNCHER, "-n", "4", "env", f"LD_PRELOAD={LIBRARY}", CALLS], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, timeout=100, env={**os.environ, **env})
        check(f"{name}: the program runs as without the library", out.returncode == 0 and not out.stdout, out.stdout)
        check(f"{name}: there is no recording", not glob.glob(folder + "/*.rec"))


def test_wrong(folder):
    """The library of the other MPI: a message, and no crash."""
    other = LIBRARY.replace("openmpi", "*").replace("mpich", "openmpi").replace("*", "mpich")
    if not os.path.exists(other):
        print("there is one MPI library alone")
        return
    out = subprocess.run([LAUNCHER, "-n", "2", "env", f"LD_PRELOAD={other}", HYBRID, "2"], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, timeout=100,
                         env={**os.environ, "UTOFU_TRACE": folder + "/w.rec,record=1"})
    check("a message names utofu-record", "utofu-record finds the right" in out.stdout, out.stdout)
    check("nothing crashes", "ignal" not in out.stdout and (out.returncode == 0) == ("mpich" in LIBRARY), out.stdout)


def main():
    if "openmpi" in LIBRARY and os.geteuid() == 0:
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    with tempfile.TemporaryDirectory() as folder:
        globals()["test_" + sys.argv[1]](folder)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
