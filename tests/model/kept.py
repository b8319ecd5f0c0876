#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""utofu-model says of recordings made up here what tests/model/kept.txt has: each number, line and message.

usage: kept.py [--fix], with MODEL naming utofu-model, HEADER utofu.h, and MACHINES the folder of the machine files

Other tests say what is right; this one notices that something is different. A change of the model that is meant
changes kept.txt: kept.py --fix writes it, and its difference is read like that of a source file. Numbers may differ by
a millionth, as compilers order sums differently.
"""
import json
import os
import re
import resource
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import recordings  # noqa: E402
import schedules  # noqa: E402
import special  # noqa: E402
from recordings import ARMW, GET, NOP, PUT  # noqa: E402
from schedules import Rank  # noqa: E402
from refused import machines, recordings_that_are_bad, words  # noqa: E402

HEADER, MODEL, MACHINES = (os.environ[name] for name in ("HEADER", "MODEL", "MACHINES"))
KEPT = Path(__file__).with_name("kept.txt")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")


class Draw:
    """The same numbers with every version of Python."""

    def __init__(self, seed):
        self.state = seed

    def below(self, limit):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % limit

    def of(self, choices):
        return choices[self.below(len(choices))]


#
# Jobs
#

LENGTHS = (8, 100, 1920, 1921, 7000, 40000, 300000)


def mixed(ranks=24, rounds=3, seed=1):
    """Communications of all kinds by several TNIs, with notices of all kinds, computing, and a region in another."""
    job, draw = recordings.Job(ranks, HEADER), Draw(seed)
    kinds = {PUT: ("LCL_PUT", "RMT_PUT"), GET: ("LCL_GET", "RMT_GET"), ARMW: ("LCL_ARMW", "RMT_ARMW")}
    for thread in job.threads:
        thread.region("all", compute=draw.below(500))
    for _ in range(rounds):
        polls = []
        for rank, thread in enumerate(job.threads):
            thread.region("inner" if rank % 2 else "other")
            for n in range(1 + draw.below(3)):
                kind, to, tni = draw.of((PUT, PUT, GET, ARMW)), draw.below(ranks), draw.below(3)
                names = [name for name in ("TCQ_NOTICE", "LOCAL_MRQ_NOTICE", "REMOTE_MRQ_NOTICE") if draw.below(2)]
                names += ["STRONG_ORDER"] if draw.below(4) == 0 else []
                own, far = (rank, tni, rank % 2), (to, draw.below(2), 0)
                path = draw.of((None, None, (1, 0, 1), (0, 2, 0)))
                edata = draw.below(200)
                thread.comm(kind, own, far, 8 if kind == ARMW else draw.of(LENGTHS), job.flag(*names),
                            stadd=draw.below(4) << 20, edata=edata, path=path, compute=draw.below(2000),
                            same_call=n > 0 and draw.below(3) == 0)
                if "TCQ_NOTICE" in names:
                    polls.append((rank, lambda t, v=own: t.tcq(v, polled=draw.below(2) * 500)))
                if "LOCAL_MRQ_NOTICE" in names:
                    polls.append((rank, lambda t, v=own, k=kind, f=far, e=edata: t.mrq(v, kinds[k][0], f, e)))
                if "REMOTE_MRQ_NOTICE" in names:
                    polls.append((to, lambda t, v=far, k=kind, o=own, e=edata: t.mrq(v, kinds[k][1], o, e)))
        for rank, poll in polls:
            poll(job.threads[rank])
        for rank, thread in enumerate(job.threads):
            thread.region("inner" if rank % 2 else "other", False)
    for rank, thread in enumerate(job.threads):
        thread.free((rank, 0, rank % 2))
        thread.region("all", False)
    return job


def in_memory(rounds=12):
    """Puts between four ranks that are seen by reading memory, of which the program tells a part."""
    job, draw = recordings.Job(4, HEADER), Draw(5)
    for i in range(rounds):
        job.clock = 20000 * (i + 1)
        for rank, thread in enumerate(job.threads):
            thread.region("step", at=job.clock + 100)
            thread.put((rank, 0, 0), ((rank + 1) % 4, 0, 0), draw.of((64, 8192)), 0, stadd=rank << 20 | i % 2 << 16,
                       at=job.clock + 200 + 1000 * draw.below(3))
        for rank, thread in enumerate(job.threads):
            if rank != 2:
                thread.seen((rank + 3) % 4 << 20 | i % 2 << 16, 8192, at=job.clock + 9000)
            thread.put((rank, 0, 0), ((rank + 3) % 4, 0, 0), 8, 0, stadd=rank << 20 | 1 << 19,
                       at=job.clock + 10000 + 500 * draw.below(4))
            thread.region("step", False, at=job.clock + 15000)
    return job


def butterfly(ranks=8, times=2):
    """A barrier of gates: signals within a rank, packets between ranks; one rank is late."""
    job = recordings.Job(ranks, HEADER)
    stages = ranks.bit_length() - 1
    for rank, thread in enumerate(job.threads):
        gates = [(rank, 0, 0)] + [(rank, 0, 16 + s) for s in range(stages)]
        for s, gate in enumerate(gates):
            before = (gates[s - 1], (rank ^ 1 << (s - 1), 0, 15 + s if s > 1 else 0)) if s else (gates[-1], None)
            behind = (gates[s + 1], (rank ^ 1 << s, 0, 16 + s)) if s < stages else (gates[0], None)
            thread.set(gate, before, behind)
    for _ in range(times):
        for rank, thread in enumerate(job.threads):
            if rank == 3:
                thread.timed(NOP, thread.define_vcq((rank, 0, 0)) * 2 + bytes(6), compute=700)
            thread.region("barrier").start((rank, 0, 0))
        for rank, thread in enumerate(job.threads):
            thread.result((rank, 0, 0)).region("barrier", False)
    return job


def relay(started=False):
    """Session-mode VCQs: a put starts the next one's, at times that were recorded."""
    job = recordings.Job(12, HEADER)
    for rank in range(1, 5):
        job.session[rank, 0, 0] = recordings.SESSION
        for length in (8, 9000):
            job.threads[rank].put((rank, 0, 0), (rank + 1, 0, 0), length,
                                  job.flag("REMOTE_MRQ_NOTICE") if rank == 4 else 0, sps=int(rank < 4))
    for length in (8, 9000):
        job.threads[0].put((0, 0, 0), (1, 0, 0), length, 0, sps=1)
    for i in range(2 if started else 0):
        for rank in (1, 2, 3, 4):
            thread = job.threads[rank]
            thread.content += bytes([recordings.STARTED]) + thread.define_vcq((rank, 0, 0)) \
                + struct.pack("<Q", 12000 + 7000 * i + 1000 * rank)
            thread.records += 1
    job.threads[5].region("relay")
    for _ in range(2):
        job.threads[5].mrq((5, 0, 0), "RMT_PUT", (4, 0, 0))
    job.threads[5].region("relay", False)
    job.threads[2].seen(0, 9000).put((2, 1, 0), (1, 1, 0), 8, job.flag("TCQ_NOTICE")).tcq((2, 1, 0))
    return job


def relay_to_memory(started=None, rounds=12):
    """Puts that others start, to memory that is read when there was time; two of them have hosts with other clocks. Of
    `started` puts of each of two VCQs the start was recorded."""
    job = recordings.Job(5, HEADER)
    clocks = (0, 7000, -30000, 0, -900000)
    job.host = lambda rank: {2: 2, 4: 3}.get(rank, 1)
    job.to_realtime = lambda rank: clocks[rank]
    for vcq in ((1, 0, 0), (4, 0, 0)):
        job.session[vcq] = recordings.SESSION
        for i in range(rounds):
            job.threads[vcq[0]].put(vcq, (2, 0, 0), 512, 0, stadd=vcq[0] << 20, at=10000 + 100 * i)
        for i in range(started[vcq[0] == 4] if started else 0):
            thread = job.threads[vcq[0]]
            thread.content += bytes([recordings.STARTED]) + thread.define_vcq(vcq) \
                + struct.pack("<Q", 40000 * (i + 1) + 3000 + 1000 * vcq[0] - clocks[vcq[0]])
            thread.records += 1
    for i in range(rounds):
        at = 40000 * (i + 1)
        job.threads[0].put((0, 0, 0), (1, 0, 0), 8, 0, sps=1, at=at)
        job.threads[3].put((3, 0, 0), (4, 0, 0), 8, 0, sps=1, at=at + 1000)
        at -= clocks[2]
        job.threads[2].region("step", at=at)
        job.threads[2].put((2, 0, 0), (0, 0, 0), 64, 0, stadd=2 << 20, at=at + 2500 + 1000 * (i % 3))
        job.threads[2].put((2, 0, 0), (3, 0, 0), 8, 0, stadd=2 << 20, at=at + 9000 + 500 * (i % 2))
        job.threads[2].region("step", False, at=at + 20000)
    return job


def same_bytes():
    """Puts, gets and ARMWs of as many bytes between the same ranks, and in the other direction."""
    job = recordings.Job(3, HEADER)
    notices = {PUT: "LCL_PUT", GET: "LCL_GET", ARMW: "LCL_ARMW"}
    for i in range(3):
        for rank, to in ((0, 1), (0, 2), (1, 0)):
            for kind in (PUT, GET, ARMW):
                t = job.threads[rank].comm(kind, (rank, 0, 0), (to, 0, 0), 8, job.flag("LOCAL_MRQ_NOTICE"), edata=i)
                t.mrq((rank, 0, 0), notices[kind], (to, 0, 0), i)
        job.threads[0].put((0, 0, 0), (1, 0, 0), 8, job.flag("REMOTE_MRQ_NOTICE"), edata=i)
        job.threads[1].mrq((1, 0, 0), "RMT_PUT", (0, 0, 0), i)
    return job


def numbered(own_numbers, late, rounds=14, polls_first=False):
    """Two ranks answer each other by notices, whose EDATA are all different or few, and which are polled when there was
    something to do, sometimes only behind the next call."""
    job, draw = recordings.Job(2, HEADER), Draw(11 + late)
    flags = job.flag("REMOTE_MRQ_NOTICE")
    for i in range(rounds):
        edata = i if own_numbers else i % 2
        job.clock = 30000 * (i + 1)
        for rank, thread in enumerate(job.threads):
            thread.region("step", at=job.clock)
            thread.put((rank, 0, 0), (1 - rank, 0, 0), 64, flags, edata=edata, at=job.clock + 1000 + 100 * rank)
            thread.put((rank, 1, 0), (1 - rank, 1, 0), 4096, job.flag("TCQ_NOTICE"), at=job.clock + 1500, compute=300)
        for rank, thread in enumerate(job.threads):
            poll = (job.clock + (4000 if polls_first or draw.below(late + 1) == 0 else 9000))
            other = job.clock + 6000 + draw.below(1000)
            for at in sorted((poll, other, job.clock + 12000)):
                if at == poll:
                    thread.mrq((rank, 0, 0), "RMT_PUT", (1 - rank, 0, 0), edata, at=at)
                elif at == other:
                    thread.put((rank, 0, 0), (1 - rank, 1, 0), 8, 0, stadd=rank << 20, at=at, compute=500)
                else:
                    thread.tcq((rank, 1, 0), at=at)
            thread.region("step", False, at=job.clock + 15000)
    return job


def two_tellers(rounds=14):
    """Notices of two ranks that a third one polls, of which only one's are needed at once."""
    job = recordings.Job(3, HEADER)
    for i in range(rounds):
        at = 30000 * (i + 1)
        for rank in (0, 1):
            job.threads[rank].put((rank, 0, 0), (2, 0, 0), 64, job.flag("REMOTE_MRQ_NOTICE"),
                                  edata=i % 3 if rank else 7, at=at + 500 * rank)
        thread = job.threads[2]
        thread.region("step", at=at).mrq((2, 0, 0), "RMT_PUT", (0, 0, 0), 7, at=at + 3000)
        thread.mrq((2, 0, 0), "RMT_PUT", (1, 0, 0), i % 3, at=at + 3500 + 100 * (i % 2))
        thread.put((2, 0, 0), (0, 0, 0), 128, 0, stadd=2 << 20, at=at + 5000, compute=700)
        if i % 2:
            thread.put((2, 0, 0), (1, 0, 0), 256, 0, stadd=2 << 20, at=at + 7000, compute=900)
        thread.region("step", False, at=at + 15000)
    return job


def told_at_once(rounds=6):
    """Puts that a process says it has seen in the nanosecond in which they land."""
    job = recordings.Job(2, HEADER)
    for i in range(rounds):
        at = 30000 * (i + 1)
        job.threads[0].put((0, 0, 0), (1, 0, 0), 4000, 0, stadd=1 << 16, at=at)
        thread = job.threads[1].region("step", at=at - 2000)
        for late in (-999, -49, 1, 1001):
            thread.seen(1 << 16, 4000, at=at + late)
            thread.put((1, 0, 0), (0, 0, 0), 8, 0, at=at + late + 5)
        thread.region("step", False, at=at + 6000)
    return job


def back_and_forth():
    """A put and a get between the same ranks, one after the other: parts of the critical path."""
    job = recordings.Job(2, HEADER)
    t = job.threads[0].put((0, 0, 0), (1, 0, 0), 30000, job.flag("LOCAL_MRQ_NOTICE"))
    t.mrq((0, 0, 0), "LCL_PUT", (1, 0, 0))
    t.comm(GET, (0, 0, 0), (1, 0, 0), 20000, job.flag("LOCAL_MRQ_NOTICE")).mrq((0, 0, 0), "LCL_GET", (1, 0, 0))
    t.comm(ARMW, (0, 0, 0), (1, 0, 0), 8, job.flag("LOCAL_MRQ_NOTICE")).mrq((0, 0, 0), "LCL_ARMW", (1, 0, 0))
    return job


def timed(late):
    """Waits of several kinds with the times that they took."""
    job, at = recordings.Job(12, HEADER), 1000
    notices = {PUT: "LCL_PUT", GET: "LCL_GET", ARMW: "LCL_ARMW"}
    t = job.threads[0].region("all", at=at)
    for i in range(15):
        for kind, size, took in ((PUT, 8, 1500), (PUT, 30000, 7000), (GET, 8, 1900), (ARMW, 8, 1400)):
            at += 20000
            t.comm(kind, (0, 0, 0), (1, 0, 0), size, job.flag("LOCAL_MRQ_NOTICE"), at=at, compute=100)
            t.mrq((0, 0, 0), notices[kind], (1, 0, 0), at=at + late + took + 37 * (i % 5))
    t.region("all", False, at=at + 30000)
    return job


def all_to(peers, size, ranks=12, ends=True):
    job = recordings.Job(ranks, HEADER, coords=lambda r: recordings.coords_of(r * 5 % ranks))
    flags = job.flag("TCQ_NOTICE")
    for rank, thread in enumerate(job.threads):
        for to in peers(rank):
            thread.put((rank, 0, 0), (to, 0, 0), size, flags, stadd=rank << 20)
        for _ in peers(rank) if ends else ():
            thread.tcq((rank, 0, 0))
    for rank in range(ranks if ends else 0):
        for to in peers(rank):
            job.threads[to].seen(rank << 20, size)
    return job


def mpi(ranks=6):
    """All calls of MPI, in two communicators, of which the second is a part of the processes, with two on a node."""
    job = recordings.Job(ranks, HEADER, coords=lambda r: recordings.coords_of(r // 2))
    job.has_mpi = 1
    for rank, thread in enumerate(job.threads):
        thread.begin_mpi()
        if rank % 2:
            thread.mpi(recordings.MPI_COMM, 1, ranks // 2, 1, 2, ranks // 2)
    r = [Rank(t) for t in job.threads]
    for size in (8, 1000, 70000):
        for rank in r:
            rank.thread.region(f"sends of {size}")
        for i in range(ranks):
            r[i].recv((i - 1) % ranks, request=4).compute(50 * i).send((i + 1) % ranks, size, request=3)
            r[i].wait(4, 3, source=(i - 1) % ranks, tag=0)
        r[1].compute(20000).send(4, size, 8)
        r[4].call(recordings.MPI_PROBE, 0, 1, 8).recv(1, 8)
        r[0].call(recordings.MPI_SEND, 0, 3, 9, size, -1, 1)
        r[3].call(recordings.MPI_PROBE, 0, 0, 9)
        r[3].recv(-1, -1, request=7).wait(7, source=0, tag=9)
        for rank in r:
            rank.thread.region(f"sends of {size}", False)
        for name in recordings.COLLS:
            for i, rank in enumerate(r):
                rank.thread.region(name)
                rank.compute(i * 10)
                root = 2 if name in ("bcast", "reduce", "gather", "scatter", "gatherv") else -1
                rank.coll(name, root, 0 if name in ("barrier", "new_comm") else size, size // 8)
                rank.thread.region(name, False)
        for i in range(1, ranks, 2):
            r[i].call(recordings.MPI_COLL, recordings.COLLS.index("allreduce"), 1, -1, size, size // 8, 5).wait(5)
    for rank in r:
        rank.call(recordings.MPI_OPAQUE, 1)
        rank.call(recordings.MPI_RECV, 0, -1, 3, 8).call(recordings.MPI_WAIT, 8, -1, -1, 1)
    return job


def in_circles():
    """A program that waits for ever."""
    job = recordings.Job(3, HEADER)
    for rank, thread in enumerate(job.threads):
        thread.mrq((rank, 0, 0), "RMT_PUT", ((rank + 1) % 3, 0, 0))
        thread.put((rank, 0, 0), ((rank + 2) % 3, 0, 0), 8, job.flag("REMOTE_MRQ_NOTICE"))
    return job


class ByCounter(recordings.Job):
    """A job whose times are ticks, 2.5 of them a ns, and whose processes begin at other times."""

    def bytes_of(self, rank):
        whole = super().bytes_of(rank)
        start = 5000 * (rank + 1)
        moments = [struct.pack("<QQ", at, at * 2 // 5) for at in (start, start + 10**6)]
        head = recordings.number(self.version) + recordings.number(rank) + recordings.number(self.size) \
            + recordings.number(3) + b"job" + struct.pack("<Q", 1) + bytes(self.coords(rank)) \
            + recordings.signed(-7 * rank) + recordings.number(1) + moments[0] + recordings.number(0)
        calls = whole[8 + 9 + struct.unpack_from("<I", whole, 9)[0]:]
        if calls[:1] != b"C":
            calls = b""
        else:
            calls = calls[:9 + struct.unpack_from("<I", calls, 1)[0]]
        last = recordings.number(self.threads[rank].records) + moments[1] + recordings.number(0)
        return b"UTOFUREC" + recordings.block(b"H", head) + calls + recordings.block(b"M", moments[1]) \
            + recordings.block(b"E", last)


def by_counter():
    job = ByCounter(3, HEADER)
    for i in range(4):
        for rank, thread in enumerate(job.threads):
            thread.region("r").put((rank, 0, 0), ((rank + 1) % 3, 0, 0), 5000 * i, job.flag("TCQ_NOTICE"), compute=900)
            thread.tcq((rank, 0, 0), polled=400).region("r", False)
    return job


#
# What is asked
#

def changed_machine(folder, name, *changes):
    text = (Path(MACHINES) / "tofud.toml").read_text(encoding="utf-8")
    for old, new in changes:
        text, n = re.subn(old, new, text, flags=re.M)
        assert n, old
    path = Path(folder) / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def shortened(text):
    """JSON with an object a line, where it is one of numbers."""
    return re.sub(r"\{\n\s+([^{}\[\]]*?)\n\s+\}", lambda m: "{" + re.sub(r"\n\s+", " ", m[1]) + "}", text)


def questions(folder):
    """name, paths, options"""
    places = Path(folder) / "map"
    places.write_text("".join(f"{r % 3},{r // 3},0,0,0,0\n" for r in range(12)), encoding="utf-8")
    infiniband = ["-m", str(Path(MACHINES) / "infiniband.toml")]
    narrow = ["-m", changed_machine(folder, "narrow", (r"^queued = \d+", "queued = 1920"),
                                    (r"^buffered = \d+", "buffered = 4096"))]
    job = mixed().write(folder, "mixed")
    yield "mixed", job, []
    yield "mixed, JSON", job, ["--json", "--compute", "1"]
    yield "mixed, on InfiniBand", job, infiniband
    yield "mixed, on a fat tree with few spines", job, [
        "-m", changed_machine(folder, "tree", (r'^kind = "tofu"', 'kind = "fat-tree"\nnodes_a_leaf = 5\nspines = 2'),
                              (r"^torus = .*", ""))]
    yield "mixed, with little room", job, narrow
    yield "mixed, allocation", job, ["--allocation", "3x2x1", "--torus", "xz"]
    for change in ("tni=spread", "tni=pairs", "bytes=0.5",
                   "allocation=1x2x2", "torus=x", "link.hop_ns=150", "tni.number=2", "packet.mtu=500"):
        yield f"mixed, what if {change}", job, ["--what-if", change]
    yield "mixed, noise", job, ["--noise", "3"]
    yield "mixed, noise, JSON", mixed(4, 2).write(folder, "few"), ["--noise", "4", "--json"]
    yield "mixed, compared", job, ["--compare"]
    job = in_memory().write(folder, "memory")
    yield "in memory", job, []
    yield "in memory, JSON", job, ["--json"]
    yield "in memory, compared", job, ["--compare"]
    job = butterfly().write(folder, "butterfly")
    yield "butterfly", job, ["--compute", "1"]
    yield "butterfly, JSON", job, ["--json", "-w", "barrier.gate_ns=500"]
    yield "butterfly, on InfiniBand", job, infiniband
    yield "butterfly, compared", job, ["--compare"]
    for started in (False, True):
        job = relay(started).write(folder, "relay")
        yield f"relay, started: {started}", job, []
        yield f"relay, started: {started}, compared", job, ["--compare"]
    for started in (None, (12, 12), (12, 5), (0, 3)):
        job = relay_to_memory(started).write(folder, "memory")
        yield f"relay to memory, started: {started}", job, ["--json"]
    yield "relay to memory, compared", relay_to_memory().write(folder, "memory"), ["--compare"]
    job = same_bytes().write(folder, "same")
    yield "as many bytes", job, []
    yield "as many bytes, compared", job, ["--compare"]
    for own_numbers in (False, True):
        for late in (0, 1, 3):
            job = numbered(own_numbers, late).write(folder, "numbered")
            yield f"numbered: {own_numbers}, late: {late}", job, ["--compute", "1"]
            yield f"numbered: {own_numbers}, late: {late}, compared", job, ["--compare"]
    yield "told at once", told_at_once().write(folder, "told"), ["--json"]
    job = two_tellers().write(folder, "tellers")
    yield "two tellers", job, ["--json", "--compute", "1"]
    yield "two tellers, compared", job, ["--compare"]
    yield "numbered, polled at once", numbered(True, 2, polls_first=True).write(folder, "numbered"), ["--compute", "1"]
    job = all_to(lambda r: [(r + 1) % 48, (r + 7) % 48, (r * 5 + 3) % 48, 47 - r], 30000, 48).write(folder, "torus")
    yield "tori", job, [*narrow, "--allocation", "4x1x1", "--torus", "xyz", "--json", "--what-if", "tni=spread"]
    job = all_to(lambda r: [(r + k) % 12 for k in range(1, 12)], 60000).write(folder, "loaded")
    yield "one TNI, searched", job, ["--search", "tni", "--seconds", "100"]
    job = all_to(lambda r: [(r + 1) % 24, (r - 1) % 24], 60000, 24).write(folder, "ring")
    yield "a ring, searched", job, ["--search", "map", "--seconds", "100"]
    for number, extents in enumerate(("12x3x1", "1x3x12", "3x12x1")):
        job = all_to(lambda r: [(r + 1) % 36, (r - 1) % 36], 60000, 36).write(folder, f"ring{number}")
        yield f"a ring in {extents}, searched", job, ["--allocation", extents, "--search", "map", "--seconds", "100"]
    yield "a rank alone, searched", all_to(lambda r: [0], 8, 1).write(folder, "one"), ["--search", "map,tni"]
    job = butterfly(4, 3).write(folder, "butterfly")
    yield "butterfly, noise", job, ["--noise", "2"]
    yield "butterfly, searched", job, ["--search", "map", "--seconds", "100"]
    yield "put, get and ARMW", back_and_forth().write(folder, "back"), []
    for late in (0, 2500):
        job = timed(late).write(folder, "timed")
        yield f"timed, {late} ns late", job, ["--compare"]
        yield f"timed, {late} ns late, fit", job, ["--fit"]
    job = all_to(lambda r: [(r + k) % 12 for k in (1, 5, 6)], 20000).write(folder, "all")
    yield "neighbours", job, []
    for change in ("tni=spread", "tni=pairs", "order=rotate", "order=xor", "order=near", "order=far"):
        yield f"neighbours, what if {change}", job, ["--what-if", change]
    puts = all_to(lambda r: [(r + k) % 12 for k in (1, 5, 6)], 20000, ends=False).write(folder, "puts")
    yield "puts alone, what if order=xor", puts, ["--what-if", "order=xor"]
    yield "neighbours, what if map", job, ["--what-if", f"map={places}"]
    yield "neighbours, searched", job, ["--search", "tni,order,map", "--seconds", "100"]
    yield "neighbours, searched with another seed", job, ["--search", "map", "--seed", "9", "--seconds", "100"]
    job = mpi().write(folder, "mpi")
    yield "MPI", job, ["--compute", "1"]
    yield "MPI, JSON", job, ["--json"]
    yield "MPI, on InfiniBand", job, [*infiniband, "--compute", "1"]
    yield "MPI, noise", job, ["--noise", "1"]
    yield "MPI, compared", job, ["--compare"]
    yield "MPI, fit", job, ["--fit"]
    yield "MPI, allocation", job, ["--allocation", "1x1x1", "--torus", "y"]
    for change in ("mpi.eager_bytes=100", "mpi.offload_elements=0", "mpi.post_ns=900", "mpi.node_ns=5000",
                   "mpi.pipeline_bytes=100", "mpi.round_rate=0.5"):
        yield f"MPI, what if {change}", job, ["--what-if", change]
    job = by_counter().write(folder, "ticks")
    yield "ticks", job, ["--compute", "1"]
    yield "ticks, compared", job, ["--compare"]
    whole = Path(job[1]).read_bytes()
    for size in (len(whole) - 5, len(whole) - 60, 150):
        Path(job[1]).write_bytes(whole[:size])
        yield f"partial, {size - len(whole)} bytes", job, ["--partial"]
    Path(job[1]).write_bytes(whole + b"x")
    yield "something behind the end", job, []
    job = mixed(4, 1).write(folder, "part")
    yield "a rank is missing", job[:3], []
    yield from rare_questions(folder, infiniband)
    yield "waits for ever", in_circles().write(folder, "circles"), []


def rare_questions(folder, infiniband):
    job = special.deep_regions(HEADER).write(folder, "deep")
    yield "deep regions", job, ["--compute", "1"]
    yield "deep regions, compared", job, ["--compare"]
    job = special.sixteen_of_all(HEADER).write(folder, "sixteen")
    for options in (["--search", "tni,order,map", "--seconds", "100"], ["--compare"], ["--noise", "1", "--json"]):
        yield f"sixteen, {options[0]}", job, options
    round_numbers = ["-m", schedules.machine(folder)]
    alike = Path(folder) / "alike.toml"
    text = Path(round_numbers[1]).read_text(encoding="utf-8")  # all flights take as long, a whole number of ns
    for keys, value in (("(?:see|mrq)_ns", 20), ("(?:packet_)?rate", 8)):
        text = re.sub(rf"^({keys}) *= .*", rf"\1 = {value}", text, flags=re.M)
    alike.write_text(text, encoding="utf-8")
    for notices in (98, 99, 100):
        yield f"{notices} waits for notices, and one that is concluded", \
            special.one_percent(HEADER, notices).write(folder, "percent"), ["-m", str(alike)]
    job = special.failed_polls(HEADER).write(folder, "failed")
    yield "failed polls", job, []
    yield "failed polls, JSON", job, ["--json"]
    yield "different collectives", special.different_collectives(HEADER).write(folder, "collectives"), []
    yield "two worlds", special.two_worlds(HEADER).write(folder, "worlds"), [*round_numbers, "--compute", "1"]
    yield "MPI on a machine without", special.two_worlds(HEADER).write(folder, "worlds"), [
        "-m", changed_machine(folder, "without", (r"^\[mpi\][^$]*", ""))]
    job = special.ticks_of_two_hosts(HEADER).write(folder, "ticks")
    yield "ticks of two hosts", job, ["--json", "--compute", "1"]
    yield "ticks of two hosts, compared", job, ["--compare"]
    noisy = ["-m", changed_machine(folder, "noisy", (r"^interval_ns = \S+", "interval_ns = 3000"),
                                   (r"^longest_ns = \S+", "longest_ns = 2000"), (r"^late_ns = \S+", "late_ns = 900"))]
    yield "much noise", mixed(4, 2).write(folder, "few"), [*noisy, "--noise", "4", "--compute", "1"]
    yield "much noise, MPI", mpi().write(folder, "mpi"), [*noisy, "--noise", "5", "--compute", "1"]
    leaves = 'kind = "fat-tree"\nnodes_a_leaf = 3\nspines = 2'
    tree = ["-m", changed_machine(folder, "tree", (r'^kind = "tofu"', leaves), (r"^torus = .*", ""))]
    job = all_to(lambda r: [(r + k) % 8 for k in (1, 3, 5, 7)], 9000, 8).write(folder, "tree")
    yield "a fat tree, searched", job, [*tree, "--search", "map,tni,order", "--seconds", "100"]
    job = all_to(lambda r: [(r + k) % 8 for k in (1, 3, 5, 7)], 9000, 8).write(folder, "tree")
    yield "InfiniBand, searched", job, [*infiniband, "--search", "order", "--seconds", "100"]
    yield "VCQs for each peer, searched: of equal ones the simplest is the first", \
        special.own_vcqs(HEADER).write(folder, "own"), [*tree, "--search", "tni,order", "--seconds", "100"]
    yield "no time to search", job, ["--search", "tni,order,map", "--seconds", "0"]
    yield "a what-if beside a search", job, ["--what-if", "tni=spread", "--search", "tni", "--seconds", "100"]
    yield "nothing to draw", recordings.Job(2, HEADER).write(folder, "empty"), ["--plot", f"{folder}/empty"]


def events_of(folder, paths, options):
    path = Path(folder) / "timeline.json"
    said = answer(folder, paths, [*options, "-t", str(path)])
    assert path.exists(), said
    events = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    return events


def coordinates(folder):
    """Where ranks are, in the order of the axes and on circles, where each has one link to the next."""
    for nodes, ranks in (("12", 12), ("13", 13), ("24", 48), ("60", 60), ("72", 144), ("2x2x2", 8), ("4x6x4", 96),
                         ("3x4x3", 70), ("1x1x2", 90)):
        job = special.ring_of(ranks, HEADER).write(folder, f"ring{ranks}")
        at = [[int(n) for n in re.search(r" at (.*)", event["args"]["name"])[1].split(",")]
              for event in events_of(folder, job, ["--allocation", nodes]) if event["ph"] == "M"]
        if nodes.isdigit() and int(nodes) % 12 == 0:
            links = [special.links_between(at[i - 1], at[i]) for i in range(ranks)]
            assert links.count(1) == int(nodes) and max(links) == 1, f"{links} on a circle of {nodes}"
        yield f"{ranks} ranks on {nodes}: " + " ".join("".join(map(str, a)) for a in at) + "\n"


def few_descriptors(folder):
    """A job of 60 ranks in a process that may have 30 files open."""
    job = special.ring_of(60, HEADER, 5).write(folder, "many")
    limit = (30, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    run = subprocess.run([MODEL, "-m", str(Path(MACHINES) / "tofud.toml"), *job], stdout=subprocess.PIPE, text=True,
                         stderr=subprocess.STDOUT, timeout=300,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit))
    return run.stdout


def answer(folder, paths, options, **env):
    machine = [] if "-m" in options else ["-m", str(Path(MACHINES) / "tofud.toml")]
    run = subprocess.run([MODEL, *machine, *options, *paths], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, timeout=300, env={**os.environ, **env})
    text = run.stdout.replace(f"{folder}/", "").replace(f"{MACHINES}/", "")
    if any(option in options for option in ("--what-if", "--allocation")):
        text, _, rest = text.partition("\n    rank")
        text += rest[rest.find("\nsearch:"):] if "--search" in options else ""
    text = (shortened(text) if "--json" in options else text).rstrip("\n")
    return f"{text}\n" + f"(exit status {run.returncode})\n" * (run.returncode != 0)


def refusals(folder):
    """What is said about recordings, machine files and options that are wrong. The program ends at once, whatever it
    has in hand."""
    def refusal(paths, options):
        said = answer(folder, paths, options, ASAN_OPTIONS="detect_leaks=0")
        lines = said.replace(folder, ".").splitlines()
        return "\n".join([lines[0], *(line for line in lines[1:] if line.startswith(("utofu-model: ", "(exit "))), ""])
    path = Path(folder) / "bad.0.rec"
    for name, content in recordings_that_are_bad():
        path.write_bytes(content)
        yield f"{name}: {refusal([str(path)], [])}"
    job = mixed(4, 1).write(folder, "part")
    for number, change in enumerate(machines()):
        machine = changed_machine(folder, f"bad{number}", change)
        yield f"{change}: {refusal(job, ['-m', machine])}"
    for options in words():
        yield f"{' '.join(options)}: {refusal(job, options)}"
    for number, lines in enumerate((
            "0,0,0,0,0,0\n" * 3, "0,0,0,0,0,0\n" * 5, "0,0,0,0,0\n" * 4, "0,0,0,2,0,0\n" * 4, "0,0,0,0,3,0\n" * 4,
            "0,0,0,0,0,2\n" * 4, "256,0,0,0,0,0\n" * 4, "0,256,0,0,0,0\n" * 4, "0,0,256,0,0,0\n" * 4,
            "0,0,0,0,0,0,0\n" * 4, "# a comment\n\n \t\n  # another one\n" + "0,0,0,0,0,0\n" * 3)):
        places = Path(folder) / f"map{number}"
        places.write_text(lines, encoding="utf-8")
        yield refusal(job, ["--map", str(places)])
    two = recordings.Job(2, HEADER).write(folder, "two")
    other = recordings.Job(2, HEADER)
    other.job_name = b"jab"
    for name, paths in (("another job", [two[0], other.write(folder, "other")[1]]),
                        ("another size", [two[0], job[1]]), ("a rank twice", [two[0], two[1], two[0]]),
                        ("no file", ["/nothing"]), ("a folder", [folder]), ("no recording", [])):
        yield f"{name}: {refusal(paths, [])}"


def timeline(folder, job):
    """The events of a timeline, a line each."""
    events = events_of(folder, job.write(folder, "small"), ["--compute", "1"])
    return "".join(json.dumps(event) + "\n" for event in events)


def plots(folder):
    """The files of a plot, with as many lines as say what they are."""
    prefix = str(Path(folder) / "drawn")
    job = mixed(4, 2).write(folder, "small")
    said = answer(folder, job, ["--plot", prefix])
    yield said
    # a gnuplot that ends at once: there is more to draw than a pipe has room for
    gnuplot, places = Path(folder) / "path" / "gnuplot", Path(folder) / "far"
    gnuplot.parent.mkdir()
    gnuplot.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    gnuplot.chmod(0o755)
    places.write_text("7,7,0,0,0,0\n" * 4, encoding="utf-8")
    for path in ("/nothing", gnuplot.parent):
        without = answer(folder, job, ["--plot", prefix, "--map", str(places)], PATH=str(path))
        yield "without gnuplot: " + "".join(re.findall(r"^utofu-model: .*\n|^.exit status.*\n", without, re.M))
    for path in sorted(Path(folder).glob("drawn*")):
        yield f"{path.name}:\n" + path.read_text(encoding="utf-8").replace(f"{folder}/", "")


def answers():
    with tempfile.TemporaryDirectory() as folder:
        for name, paths, options in questions(folder):
            yield name, answer(folder, paths, options)
        yield "timeline", timeline(folder, mixed(6, 1))
        yield "timeline of all kinds of calls", timeline(folder, special.kinds_of_calls(HEADER))
        timeline(folder, special.sixteen_of_all(HEADER))
        yield "coordinates", "".join(coordinates(folder))
        yield "few descriptors", few_descriptors(folder)
        yield "plots", "".join(plots(folder))
        yield "refusals", "".join(refusals(folder))


#
# Comparison
#

def is_like(got, kept):
    numbers = [(float(a), float(b)) for a, b in zip(NUMBER.findall(got), NUMBER.findall(kept))]
    return NUMBER.sub("#", got).split() == NUMBER.sub("#", kept).split() and \
        all(abs(a - b) <= 1e-6 * max(abs(a), abs(b), 1) for a, b in numbers)


def judge(found, kept_in):
    """Compares answers with those of a file, or with --fix writes them there. 0: they are alike."""
    if sys.argv[1:] == ["--fix"]:
        kept_in.write_text("".join(f"## {name}\n{text}" for name, text in found.items()), encoding="utf-8")
        return 0
    parts = re.split(r"^## (.*)\n", kept_in.read_text(encoding="utf-8"), flags=re.M)[1:]
    kept = dict(zip(parts[::2], parts[1::2]))
    failed = 0
    for name in [*kept, *(name for name in found if name not in kept)]:
        one, two = found.get(name, "").splitlines(), kept.get(name, "").splitlines()
        wrong = [f"  {b!r}\n  is now {a!r}" for a, b in zip(one, two) if not is_like(a, b)]
        wrong += [f"  {len(two)} lines, now {len(one)}"] if len(one) != len(two) else []
        failed += bool(wrong)
        print(f"{'FAILED' if wrong else 'ok'}: {name}", *wrong[:3], sep="\n")
    if failed:
        print(f"If this is meant: tests/model/{Path(sys.argv[0]).name} --fix")
    return failed > 0


if __name__ == "__main__":
    sys.exit(judge(dict(answers()), KEPT))
