# SPDX-License-Identifier: Apache-2.0
"""Jobs for kept.py of what happens rarely, each with the numbers that can be said beforehand."""
import struct

import recordings
from recordings import GET, NOP, PUT


def nop(thread, compute):
    return thread.comm(NOP, (thread.rank, 0, 0), (thread.rank, 0, 0), 0, 0, compute=compute)


def set_gates(job):
    """Gates of a barrier of 2 or 4 ranks, as those of a butterfly."""
    ranks = job.size
    stages = ranks.bit_length() - 1
    for rank, thread in enumerate(job.threads):
        gates = [(rank, 0, 0)] + [(rank, 0, 16 + s) for s in range(stages)]
        for s, gate in enumerate(gates):
            before = (gates[s - 1], (rank ^ 1 << (s - 1), 0, 15 + s if s > 1 else 0)) if s else (gates[-1], None)
            behind = (gates[s + 1], (rank ^ 1 << s, 0, 16 + s)) if s < stages else (gates[0], None)
            thread.set(gate, before, behind)


def deep_regions(header):
    """Of 66 regions within each other 64 are looked at; regions overlap, and end that have not begun."""
    job = recordings.Job(2, header)
    t = job.threads[0]
    for _ in range(66):
        nop(t.region("deep"), 100)
    for _ in range(67):
        nop(t.region("deep", False), 10)
    t = nop(job.threads[1].region("one"), 1000)
    t = nop(t.region("two"), 2000)
    t = nop(t.region("three"), 4000)
    nop(t.region("one", False), 8000).region("three", False).region("never", False).region("two", False)
    return job


def one_percent(header, notices):
    """A region with so many waits for notices, each for the flight of a put that is called when the one before is
    there, and one that is concluded: with 99, and if all flights take as long, that is one percent of the time."""
    job = recordings.Job(2, header)
    last = notices % 2
    job.threads[1 - last].region("all")
    for i in range(notices):
        a, b = i % 2, 1 - i % 2
        job.threads[a].put((a, 0, 0), (b, 0, 0), 8, job.flag("REMOTE_MRQ_NOTICE"))
        job.threads[b].mrq((b, 0, 0), "RMT_PUT", (a, 0, 0))
    job.threads[last].put((last, 0, 0), (1 - last, 0, 0), 8, 0, stadd=1 << 20)
    job.threads[1 - last].region("all", False)
    return job


def failed_polls(header):
    """Of four polls two have returned an error; and the program has called MPI, which was not recorded."""
    job = recordings.Job(2, header)
    job.has_mpi = 1
    t = job.threads[0]
    for rc in (0, 5):
        t.put((0, 0, 0), (1, 0, 0), 8, job.flag("TCQ_NOTICE", "LOCAL_MRQ_NOTICE"))
        t.tcq((0, 0, 0), rc=rc).mrq((0, 0, 0), "LCL_PUT", (1, 0, 0), rc=rc)
    return job


def different_collectives(header):
    job = recordings.Job(2, header)
    for rank, thread in enumerate(job.threads):
        thread.begin_mpi()
        for name in ("barrier", ("bcast", "reduce")[rank]):
            thread.mpi(recordings.MPI_COLL, recordings.COLLS.index(name), 0, 0, 8, 1, -1)
    return job


def two_worlds(header):
    """Ranks 0 and 2 are a world of MPI, of which rank 2 is the first; rank 1 is alone, and rank 3 without MPI."""
    job = recordings.Job(4, header)
    job.has_mpi = 1
    for rank, place, size in ((0, 1, 2), (2, 0, 2), (1, 0, 1)):
        t = job.threads[rank]
        t.mpi(recordings.MPI_BEGIN, place, size, compute=70)
        t.mpi(recordings.MPI_COMM, 0, size, 0, 1, size, compute=7)
    job.threads[2].mpi(recordings.MPI_SEND, 0, 1, 5, 100, -1, 0)
    job.threads[0].mpi(recordings.MPI_RECV, 0, 0, 5, -1)
    for rank in (0, 2, 1):
        job.threads[rank].mpi(recordings.MPI_COLL, recordings.COLLS.index("barrier"), 0, -1, 0, 0, -1)
    return job


def kinds_of_calls(header):
    """One call of each kind, for the timeline: also of MPI, a NOP, and a second thread."""
    job = recordings.Job(2, header, coords=lambda r: recordings.coords_of(7 * r))
    job.has_mpi = 1
    for rank, t in enumerate(job.threads):
        t.begin_mpi()
        nop(t.region("all"), 300)
    set_gates(job)
    second = job.add_thread(0)
    for kind, name in ((PUT, "LCL_PUT"), (GET, "LCL_GET"), (recordings.ARMW, "LCL_ARMW")):
        second.comm(kind, (0, 1, 1), (1, 0, 0), 8, job.flag("LOCAL_MRQ_NOTICE", "TCQ_NOTICE"), edata=kind)
        second.mrq((0, 1, 1), name, (1, 0, 0), kind).tcq((0, 1, 1))
    second.free((0, 1, 1))
    for to in (0, 1):
        job.threads[1 - to].mpi(recordings.MPI_SEND, 0, to, 0, 8, -1, 0)
        job.threads[to].mpi(recordings.MPI_RECV, 0, 1 - to, 0, -1)
    for rank, t in enumerate(job.threads):
        t.start((rank, 0, 0)).result((rank, 0, 0)).seen(0, 1).region("all", False)
    return job


def sixteen_of_all(header):
    """As many threads, calls of each, communications, VCQs, gates and regions as lists have room for at first, or
    twice: whoever looks behind the last one looks behind the memory."""
    job = recordings.Job(16, header)
    for rank, t in enumerate(job.threads):
        t.region(f"of {rank}").put((rank, 0, 0), ((rank + 1) % 16, 0, 0), 100, 0, stadd=rank << 20)
        t.set((rank, 0, 0), (None, None), (None, None))
        for _ in range(12):
            t.free((rank, 1, 0))
    for rank, t in enumerate(job.threads):
        t.seen((rank - 1) % 16 << 20, 100).region(f"of {rank}", False)
    return job


class TwoCounters(recordings.Job):
    """A job whose times are ticks, 2.5 a ns on host 0 and 4 on host 1, where ranks have measured them at other times;
    the third host has ns."""

    def bytes_of(self, rank):
        whole = super().bytes_of(rank)
        at = 8 + 9 + struct.unpack_from("<I", whole, 9)[0]
        host = rank % 3
        moments = [(start, start * (2, 1)[host] // (5, 4)[host]) for start in (4000 * (rank + 1), 10**6 * (rank + 2))] \
            if host < 2 else [(0, 0)] * 2
        head = recordings.number(self.version) + recordings.number(rank) + recordings.number(self.size) \
            + recordings.number(3) + b"job" + struct.pack("<Q", host) + bytes(self.coords(rank)) \
            + recordings.signed(0) + recordings.number(int(host < 2)) + struct.pack("<QQ", *moments[0]) \
            + recordings.number(0)
        last = recordings.number(self.threads[rank].records) + struct.pack("<QQ", *moments[1]) + recordings.number(0)
        end = len(whole) - 9 - len(last)
        return b"UTOFUREC" + recordings.block(b"H", head) + whole[at:end] + recordings.block(b"E", last)


def ticks_of_two_hosts(header):
    """Ranks 1 and 3 have two VCQs in session mode each, whose puts were started in turn."""
    job = TwoCounters(6, header)
    tnis = (2, 0)
    for rank in (1, 3):
        job.session.update({(rank, tni, 0): recordings.SESSION for tni in tnis})

    def ticks(rank, ns):
        return ns * (5, 4, 1)[rank % 3] // (2, 1, 1)[rank % 3]
    for i in range(5):
        for rank, thread in enumerate(job.threads):
            ns = 60000 * (i + 1) + 1000 * rank
            thread.put((rank, int(rank in (1, 3)), 0), ((rank + 1) % 6, 0, 0), 500 * i, 0, stadd=rank << 20,
                       compute=1000 * rank, at=ticks(rank, ns))
            for tni in tnis if rank in (1, 3) else ():
                thread.put((rank, tni, 0), ((rank + 2) % 6, 0, 0), 64 + tni, 0, stadd=tni + 1 << 30,
                           at=ticks(rank, ns + 2500))
            for tni in tnis if rank in (1, 3) else ():
                thread.content += bytes([recordings.STARTED]) + thread.define_vcq((rank, tni, 0)) \
                    + struct.pack("<Q", ticks(rank, ns + 7000 + 2000 * tni))
                thread.records += 1
            for tni in tnis if rank in (0, 2) else ():
                thread.put((rank, 0, 0), (rank + 1, tni, 0), 8, 0, sps=1, at=ticks(rank, ns + 6000))
            thread.region("r", at=ticks(rank, ns + 30000)).region("r", False, at=ticks(rank, ns + 31000))
    return job


def ring_of(ranks, header, a_node=1):
    job = recordings.Job(ranks, header, coords=lambda r: recordings.coords_of(r // a_node))
    for rank, thread in enumerate(job.threads):
        thread.put((rank, 0, 0), ((rank + 1) % ranks, 0, 0), 8, 0)
    return job


def own_vcqs(header):
    """Each rank puts to four others, to each from a VCQ of its own, so that other TNIs for peers change nothing."""
    ranks, peers = 8, (1, 3, 5, 7)
    job = recordings.Job(ranks, header, coords=lambda r: recordings.coords_of(r * 5 % ranks))
    for rank, thread in enumerate(job.threads):
        for cq, by in enumerate(peers):
            thread.put((rank, 0, cq), ((rank + by) % ranks, 0, 0), 9000, job.flag("TCQ_NOTICE"), stadd=rank << 20)
        for cq in range(len(peers)):
            thread.tcq((rank, 0, cq))
    for rank in range(ranks):
        for by in peers:
            job.threads[(rank + by) % ranks].seen(rank << 20, 9000)
    return job


def links_between(a, b):
    """Of neighbouring nodes: x, y, z of which no axis is a torus, a and c with two nodes, b with three in a ring."""
    return sum(abs(p - q) for p, q in zip(a[:3], b[:3])) + sum(p != q for p, q in zip(a[3:], b[3:]))
