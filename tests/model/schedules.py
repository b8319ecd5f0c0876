#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""utofu-model tells how long schedules of MPI calls take whose times can be calculated by hand.

usage: schedules.py, with MODEL naming utofu-model, HEADER utofu.h, and MACHINE the file of Fugaku's parameters

The machine has round numbers, links without a rate, and one rank a node. In ns:

  send       a send                                   100, and bytes / 10 from 17 to 1000 bytes
  fly        a message in the network                1000
  receive    a receive, once the message is there     100, and 50 + bytes / 10 from 17 to 1000 bytes
  long       of more than 1000 bytes: once it is announced (send + fly) and to be received: 200, and fly
  gates      a barrier, or a sum of up to 3 elements: 100, 500 for each of ceil(log2(ranks)) rounds, 100
  round      of other collectives: 1000 + bytes
  block      of a Gatherv, taken by the root, one after the other: 30 + bytes / 10
"""
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import recordings  # noqa: E402
from recordings import COLLS, MPI_COLL, MPI_RECV, MPI_SEND, MPI_WAIT  # noqa: E402

VALUES = {"gap_ns": 0, "send_ns": 1000, "receive_ns": 0, "packet_rate": 1e9, "get_ns": 0, "ack_ns": 0, "hop_ns": 0,
          "overhead": 0, "buffered": 1e9, "rate": 1e9, "start_ns": 100, "gate_ns": 500, "signal_ns": 0,
          "result_ns": 100}
MPI_VALUES = {"post_ns": 100, "take_ns": 100, "short_bytes": 16, "buffer_ns": 50, "copy_rate": 10,
              "eager_bytes": 1000,
              "rendezvous_ns": 200, "node_ns": 300, "node_rate": 1, "offload_elements": 3, "round_ns": 1000,
              "round_rate": 1, "pipeline_bytes": 1e9, "pipeline_ns": 1e9, "pipeline_rate": 1, "block_ns": 30,
              "block_rate": 10}


def machine(folder):
    with open(os.environ["MACHINE"], encoding="utf-8") as file:
        head, mpi = file.read().split("[mpi]")
    for values, number in ((VALUES, 0), (MPI_VALUES, 1)):
        text = (head, mpi)[number]
        for key, value in values.items():
            text = re.sub(rf"^{key} *=.*", f"{key} = {value:.12g}", text, flags=re.M)
        head, mpi = (text, mpi) if number == 0 else (head, text)
    path = os.path.join(folder, "machine.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(head + "[mpi]" + mpi)
    return path


# What a rank does. Requests are numbered by the schedule.
class Rank:
    def __init__(self, thread):
        self.thread, self.ns = thread, 0

    def call(self, kind, *numbers):
        self.thread.mpi(kind, *numbers, compute=self.ns)
        self.ns = 0
        return self

    def compute(self, ns):
        self.ns += ns
        return self

    def send(self, to, size=8, tag=0, request=-1):
        return self.call(MPI_SEND, 0, to, tag, size, request, 0)

    def recv(self, source, tag=0, request=-1):
        return self.call(MPI_RECV, 0, source, tag, request)

    def wait(self, *requests, source=-1, tag=-1):
        return self.call(MPI_WAIT, *sum(([r, source, tag, 0] for r in requests), []))

    def coll(self, name, root=-1, size=0, elements=0):
        return self.call(MPI_COLL, COLLS.index(name), 0, root, size, elements, -1)


def each(ranks, act):
    for rank in ranks:
        act(rank)


def shift(ranks, times):
    for _ in range(times):
        for i, rank in enumerate(ranks):
            rank.recv((i - 1) % len(ranks), request=-3).send((i + 1) % len(ranks), request=-2).wait(-3, -2)


def chain(r):
    r[0].send(1)
    r[1].recv(0).send(2)
    r[2].recv(1).send(3)
    r[3].recv(2)


def bcast(r, late=0):
    r[3].compute(late)
    each(r, lambda x: x.coll("bcast", 0, 8, 1))


def barriers(r):
    each(r, lambda x: x.coll("barrier"))
    r[1].compute(50)
    each(r, lambda x: x.coll("barrier"))


def late(r, ns, rank, act):
    r[rank].compute(ns)
    each(r, act)


# name, ranks, the schedule, and its time with the calculation
SCHEDULES = [
    ("ping", 2, lambda r: (r[0].send(1), r[1].recv(0)),
     100 + 1000 + 100),
    ("ping of 100 bytes: both copy 10, and the buffer takes 50", 2, lambda r: (r[0].send(1, 100), r[1].recv(0)),
     100 + 10 + 1000 + 100 + 10 + 50),
    ("two messages, received in the other order: the second comes 100 later; then the first takes its receive", 2,
     lambda r: (r[0].send(1, tag=1).send(1, tag=2), r[1].recv(0, 2).recv(0, 1)),
     100 + 100 + 1000 + 100 + 100),
    ("barrier of 8: three rounds", 8, lambda r: each(r, lambda x: x.coll("barrier")),
     100 + 3 * 500 + 100),
    ("any source: rank 2 sends after 700", 3,
     lambda r: (r[0].recv(-1, -1, request=1).wait(1, source=2, tag=5), r[2].compute(700).send(0, tag=5)),
     700 + 100 + 1000 + 100),
    ("broadcast of 8 bytes to 4: rank 0 to 2, and 2 to 3", 4, bcast,
     2 * (1000 + 8)),
    ("sum of one number of 4, one late by 900", 4,
     lambda r: late(r, 900, 2, lambda x: x.coll("allreduce", -1, 8, 1)),
     900 + 100 + 2 * 500 + 100),
    ("ping-pong", 2, lambda r: (r[0].send(1).recv(1), r[1].recv(0).send(0)),
     2 * (100 + 1000 + 100)),
    ("two barriers of 4, one late by 50 between", 4, barriers,
     2 * (100 + 2 * 500 + 100) + 50),
    ("2,000 bytes: announced, asked for, and there", 2,
     lambda r: (r[0].send(1, 2000).send(1), r[1].recv(0).compute(100).recv(0)),
     # the send ends when the data are there, at 2300; the second one takes 100 and flies 1000
     100 + 1000 + 200 + 1000 + 100 + 1000 + 100),
    ("barrier of 4, one late by 2,000", 4, lambda r: late(r, 2000, 1, lambda x: x.coll("barrier")),
     2000 + 100 + 2 * 500 + 100),
    ("chain of three hops", 4, chain,
     3 * (100 + 1000 + 100)),
    ("broadcast, a leaf late by 4,000: its data are there", 4, lambda r: bcast(r, 4000),
     4000),
    ("ping, the sender late by 3,000", 2, lambda r: (r[0].compute(3000).send(1), r[1].recv(0)),
     3000 + 100 + 1000 + 100),
    ("sum of 1,100 bytes at rank 0 of 4: rank 3 to 2, and 2 to 0", 4,
     lambda r: each(r, lambda x: x.coll("reduce", 0, 1100, 137)),
     100 + (1000 + 1100) + 100 + (1000 + 1100)),
    ("four shifts around a ring of 4", 4, lambda r: shift(r, 4),
     4 * (100 + 1000 + 100)),
    ("ping, the receiver late by 5,000: the message is there", 2, lambda r: (r[0].send(1), r[1].compute(5000).recv(0)),
     5000 + 100),
    ("sum of 1,000 bytes of 8: three rounds", 8, lambda r: each(r, lambda x: x.coll("allreduce", -1, 1000, 125)),
     3 * (1000 + 1000)),
    ("2,000 bytes, the receiver late by 5,000: only now the data come", 2,
     lambda r: (r[0].send(1, 2000), r[1].compute(5000).recv(0)),
     5000 + 200 + 1000 + 100),
    ("2,000 bytes behind 10,000 of computing: the data are there", 2,
     lambda r: (r[0].send(1, 2000, request=1).compute(10000).wait(1), r[1].recv(0, request=1).compute(10000).wait(1)),
     10000 + 100),
    ("blocks of 500 bytes to rank 2 of 5, one late by 150", 5,
     lambda r: late(r, 150, 4, lambda x: x.coll("gatherv", 2, 500)),
     # three are there at 1100, and are taken until 1340; the last one at 1250
     100 + 1000 + 4 * (30 + 50)),
    ("blocks of 500 bytes to rank 2 of 5, which is late by 3,000", 5,
     lambda r: late(r, 3000, 2, lambda x: x.coll("gatherv", 2, 500)),
     3000 + 4 * (30 + 50)),
    ("blocks of 2,000 bytes to rank 0 of 3: a process leaves when its block is taken, and then sends", 3,
     lambda r: (each(r, lambda x: x.coll("gatherv", 0, 2000)), r[1].send(2), r[2].recv(1)),
     # there at 1100, taken until 1330 and 1560; rank 1 sends at 1330
     100 + 1000 + 230 + 100 + 1000 + 100),
]


def tell(folder, ranks, schedule, mpi=True):
    job = recordings.Job(ranks, os.environ["HEADER"])
    job.has_mpi = 1
    each(job.threads, lambda t: t.begin_mpi() if mpi else t)
    schedule([Rank(t) for t in job.threads])
    out = subprocess.run([os.environ["MODEL"], "-m", machine(folder), "--compute", "1", *job.write(folder)],
                         stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
    return out, 1e3 * float(re.search(r"would take ([0-9.]+) us", out).group(1))


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        told = [tell(folder, ranks, schedule)[1] for _, ranks, schedule, _ in SCHEDULES]
    for ns, (name, _, _, truth) in zip(told, SCHEDULES):
        good = abs(ns - truth) < 1
        failures += not good
        print(f"{'ok' if good else 'FAILED'}: {ns:8.0f} ns, by hand {truth:8.0f}: {name}")
    order = sorted(range(len(told)), key=lambda i: told[i])
    right = sorted(range(len(told)), key=lambda i: SCHEDULES[i][3])
    truths = {truth for *_, truth in SCHEDULES}
    assert len(SCHEDULES) == len(truths) == 23, "23 different times"
    if order != right:
        failures += 1
        print("FAILED: the order is not that of the truth")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
