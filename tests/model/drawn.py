#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""utofu-model says of jobs that are drawn at random what tests/model/drawn.txt has: each wait, and what it is for.

usage: drawn.py [--fix], with MODEL naming utofu-model, HEADER utofu.h, and MACHINES the folder of the machine files

The jobs are small, and there are many: calls that repeat, in step or not, threads that meet, clocks that differ by the
nanosecond that decides, messages and collectives of MPI in several communicators, and traffic on narrow networks. As of
kept.py, other tests say what is right, and drawn.py --fix writes drawn.txt. A line of it is a thread. There

  w4.5+1.2<7  is a wait that ends at 4.5 us, after 1.2 us, for communication 7
  name@9.3    is the end of a region
  ...13.1     is the end of the thread's last call
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import kept  # noqa: E402
import recordings  # noqa: E402
import schedules  # noqa: E402
import special  # noqa: E402
from kept import Draw, HEADER, MACHINES, changed_machine  # noqa: E402
from recordings import ARMW, COLLS, GET, NOP, PUT  # noqa: E402
from schedules import Rank  # noqa: E402

DRAWN = Path(__file__).with_name("drawn.txt")
NOTICES = {PUT: ("LCL_PUT", "RMT_PUT"), GET: ("LCL_GET", "RMT_GET"), ARMW: ("LCL_ARMW", "RMT_ARMW")}


#
# Calls that repeat, and puts that are seen by reading memory
#

class Script:
    """Calls of threads, in the order of their times."""

    def __init__(self):
        self.calls, self.ready = {}, {}

    def at(self, thread, time, act):
        """Not before the thread's calls that were added with the same `behind`."""
        self.calls.setdefault(thread, []).append((time, len(self.calls.get(thread, ())), act))

    def write(self):
        for thread, calls in self.calls.items():
            for time, _, act in sorted(calls, key=lambda c: c[:2]):
                act(time)


class Repeated:
    """A program whose steps repeat: each has a kind, a rank, a time in the repetition, and how it varies."""

    KINDS = ("put", "put", "put", "put", "armw", "notice", "notice", "tcq", "seen", "region", "nop", "get", "strong")

    def __init__(self, seed):
        self.draw = draw = Draw(seed * 977 + 5)
        self.job = recordings.Job(draw.of((2, 2, 3, 4)), HEADER)
        self.rounds = draw.of((3, 4, 4, 5, 6, 8, 11))
        self.ahead = draw.of((None, None, None, 0, 1))  # a rank that does not wait for the others
        self.threads = {(rank, 0): thread for rank, thread in enumerate(self.job.threads)}
        if draw.below(4) == 0:
            self.threads[0, 1] = self.job.add_thread(0)
        self.clocks = [0] * self.job.size
        if draw.below(4) == 0:
            self.clocks = [draw.of((0, 700, -30000)) for _ in self.clocks]
            self.job.host, self.job.to_realtime = (lambda rank: rank % 3), (lambda rank: self.clocks[rank % 3])
            self.clocks = [self.clocks[rank % 3] for rank in range(self.job.size)]
        self.meets = draw.of((None, None, "coll", "gates"))
        if self.meets == "gates" and self.job.size in (2, 4):
            special.set_gates(self.job)
        elif self.meets == "coll":
            self.job.has_mpi = 1
            for thread in self.job.threads:
                thread.begin_mpi()
        else:
            self.meets = None
        self.ahead = None if self.meets else self.ahead
        self.script = Script()

    def moment(self, rank, number, at):
        every = 2000 if rank == self.ahead else 20000
        return 50000 + every * (number + 1) + at - self.clocks[rank]

    def steps(self):
        draw = self.draw
        for _ in range(3 + draw.below(4)):
            rank = draw.below(self.job.size)
            yield {"kind": draw.of(self.KINDS), "rank": rank,
                   "thread": draw.below(2) if (rank, 1) in self.threads else 0,
                   "to": (rank + 1 + draw.below(self.job.size - 1)) % self.job.size, "at": 100 * draw.below(140),
                   "late": draw.of((0, 0, 0, 1, 51)), "jitter": draw.of((1, 1, 2, 30)),
                   "length": draw.of((8, 64, 64, 5000)), "places": draw.of((1, 1, 2, 5, 20)), "place": draw.below(3),
                   "every": draw.of((1, 1, 1, 1, 2)), "times": draw.of((1, 1, 1, 2, 3)),
                   "lacks": draw.of((99, 99, 2, 3)), "delay": draw.of((300, 1500, 4000))}

    def add(self, step, number, time, thread):
        """A call of a step."""
        job, rank, to = self.job, step["rank"], step["to"]
        own, far = (rank, step["thread"], 0), (to, 0, 0)
        stadd = (rank + 1) << 20 | step["place"] << 16 | number % step["places"] << 8
        edata = number % step["places"]
        kind = step["kind"]
        if kind in ("put", "armw", "strong", "get", "notice", "tcq"):
            op = {"armw": ARMW, "get": GET}.get(kind, PUT)
            names = {"strong": ("STRONG_ORDER", "REMOTE_MRQ_NOTICE"), "notice": ("REMOTE_MRQ_NOTICE",),
                     "tcq": ("TCQ_NOTICE",), "get": ("LOCAL_MRQ_NOTICE",)}.get(kind, ())
            self.script.at(thread, time, lambda at: thread.comm(
                op, own, far, 8 if op == ARMW else step["length"], job.flag(*names), stadd=stadd, edata=edata, at=at,
                compute=step["delay"]))
        if kind in ("notice", "strong"):
            there = self.threads[to, 0]
            self.script.at(there, time + self.clocks[rank] - self.clocks[to] + step["delay"], lambda at: there.mrq(
                far, "RMT_PUT", own, edata, at=at, polled=step["delay"] // 3))
        elif kind == "get":
            self.script.at(thread, time + step["delay"], lambda at: thread.mrq(own, "LCL_GET", far, edata, at=at))
        elif kind == "tcq":
            self.script.at(thread, time + step["delay"], lambda at: thread.tcq(own, at=at))
        elif kind == "seen":
            size = step.get("sees") or self.draw.of((1 << 8, 1 << 16, 1 << 18))
            self.script.at(thread, time, lambda at: thread.seen((to + 1) << 20 | step["place"] << 16, size, at=at))
        elif kind == "region":
            self.script.at(thread, time, lambda at: thread.region("r", at=at))
            self.script.at(thread, time + step["delay"], lambda at: thread.region("r", False, at=at))
        elif kind == "nop":
            self.script.at(thread, time, lambda at: thread.comm(NOP, own, own, 0, 0, at=at, compute=200))

    def add_meeting(self, number):
        for rank, thread in enumerate(self.job.threads):
            at = self.moment(rank, number, 15000 if rank != self.ahead else 1900)
            if self.meets == "coll":
                self.script.at(thread, at, lambda at, t=thread: t.mpi(
                    recordings.MPI_COLL, COLLS.index("barrier"), 0, -1, 0, 0, -1, at=at))
            else:
                gate = thread.define_gate((rank, 0, 0))
                for op, later in ((recordings.START, 0), (recordings.RESULT, 50)):
                    self.script.at(thread, at + later, lambda at, t=thread, g=gate, o=op: t.timed(
                        o, recordings.number(g) + b"\0", at=at))
            if number % 2:
                self.script.at(thread, at + 60, lambda at, t=thread: t.region("behind", at=at))
                self.script.at(thread, at + 90, lambda at, t=thread: t.region("behind", False, at=at))

    def tell_one_address(self, steps):
        """Puts go to several addresses, of which the target says of one when it has seen it."""
        put = {**steps[0], "kind": "put", "places": 5, "every": 1, "times": self.draw.of((1, 2, 5)), "thread": 0}
        seen = {**steps[1], "kind": "seen", "rank": put["to"], "to": put["rank"], "thread": 0, "place": put["place"],
                "sees": 1 << 8}
        return [put, seen, *steps[2:]]

    def whole(self, tells_one=False):
        steps = list(self.steps())
        steps = self.tell_one_address(steps) if tells_one else steps
        for number in range(self.rounds):
            for step in steps:
                if number % step["every"] or number == step["lacks"]:
                    continue
                thread = self.threads[step["rank"], step["thread"]]
                for i in range(step["times"]):
                    at = step["at"] + step["late"] + 100 * self.draw.below(step["jitter"]) + 700 * i
                    self.add(step, number * step["times"] + i, self.moment(step["rank"], number, at), thread)
            if self.meets:
                self.add_meeting(number)
        self.script.write()
        return self.job


#
# MPI
#

class Talk:
    """A program of MPI that ends: receives are posted before the messages of their turn are sent."""

    SIZES = (0, 8, 16, 17, 400, 1000, 1001, 20000)

    def __init__(self, seed):
        self.draw = draw = Draw(seed * 7919 + 3)
        ranks = 2 + draw.below(5)
        a_node = draw.of((1, 1, 2, 3))
        self.job = recordings.Job(ranks, HEADER, coords=lambda r: recordings.coords_of(r // a_node * 5 % 12))
        self.job.has_mpi = 1
        self.ranks = [Rank(thread) for thread in self.job.threads]
        everyone = list(range(ranks))
        # the second and the last are alike, so that their numbers tell them apart; one has ranks of another world
        self.comms = [everyone, everyone[::-1], everyone[::2], everyone[1:], everyone[::-1]]
        self.index = [{} for _ in everyone]
        for thread in self.job.threads:
            thread.begin_mpi()
        for number, members in enumerate(self.comms):
            for rank in everyone:
                if rank in members or rank % 2 == 0:
                    self.define(number, rank, members)
        self.requests = 0

    def define(self, number, rank, members):
        """A rank that is no member defines another one, with ranks of another world, so that numbers differ."""
        if number:
            index = max(self.index[rank].values()) + 1
            if rank in members:
                runs = sum(([m, 1, 1] for m in members), [])
                self.job.threads[rank].mpi(recordings.MPI_COMM, index, len(members), *runs)
            else:
                self.job.threads[rank].mpi(recordings.MPI_COMM, index, 0)
                number = -number
        self.index[rank][number] = 0 if number == 0 else index

    def call(self, rank, kind, number, *numbers):
        self.ranks[rank].call(kind, self.index[rank][number], *numbers)

    def compute(self):
        for rank in self.ranks:
            rank.compute(self.draw.of((0, 0, 10, 130, 1700)))

    def shift(self):
        """Each sends to another one of a communicator, and receives, with requests or not."""
        draw, number = self.draw, self.draw.below(len(self.comms))
        members = self.comms[number]
        by, size, tag, many = 1 + draw.below(3), draw.of(self.SIZES), draw.below(3), 1 + draw.below(2)
        anyone, sends_wait, together = draw.below(3) == 0, draw.below(2), draw.below(2)
        posted = {rank: [] for rank in members}
        for place, rank in enumerate(members):
            for k in range(many):
                self.requests += 1
                source = (place - by) % len(members)
                self.call(rank, recordings.MPI_RECV, number, -1 if anyone else source, -1 if anyone else tag + k,
                          self.requests)
                posted[rank].append([self.requests, source, tag + k, 0])
        self.compute()
        for place, rank in enumerate(members):
            for k in range(many):
                request = -1
                if not sends_wait:
                    self.requests += 1
                    request = self.requests
                    posted[rank].append([request, -1, -1, 0])
                self.call(rank, recordings.MPI_SEND, number, (place + by) % len(members), tag + k, size + k, request,
                          int(draw.below(6) == 0))
        for rank in members:
            waits = posted[rank][::-1] if draw.below(2) else posted[rank]
            for numbers in ([sum(waits, [])] if together else waits):
                self.ranks[rank].call(recordings.MPI_WAIT, *numbers)

    def pass_on(self):
        """A chain of blocking sends, which some probe before they receive."""
        draw, number = self.draw, self.draw.below(len(self.comms))
        members = self.comms[number]
        size, tag = draw.of(self.SIZES), draw.below(3)
        self.compute()
        for place, rank in enumerate(members):
            if place:
                if draw.below(2):
                    self.call(rank, recordings.MPI_PROBE, number, place - 1, tag)
                self.call(rank, recordings.MPI_RECV, number, place - 1, tag, -1)
            if place + 1 < len(members):
                self.ranks[rank].compute(draw.of((0, 25)))
                self.call(rank, recordings.MPI_SEND, number, place + 1, tag, size, -1, draw.below(2))

    def collective(self):
        draw, number = self.draw, self.draw.below(len(self.comms))
        members, name = self.comms[number], draw.of(COLLS)
        root, size, elements = draw.below(len(members)), draw.of(self.SIZES), draw.of((0, 1, 3, 4, 100))
        begun = draw.below(3) == 0
        self.requests += 1
        self.compute()
        for rank in members:
            own = draw.of(self.SIZES) if name == "gatherv" else size
            self.ranks[rank].call(
                recordings.MPI_COLL, COLLS.index(name), self.index[rank][number],
                root if name in ("bcast", "reduce", "gather", "scatter", "gatherv") else -1, own, elements,
                self.requests if begun else -1)
        for rank in members if begun else ():
            self.ranks[rank].compute(draw.of((0, 600)))
            self.ranks[rank].call(recordings.MPI_WAIT, self.requests, -1, -1, 0)

    def strange(self):
        """What stands for nothing: cancelled, of another world, to nobody, one-sided, or received and never sent."""
        rank = self.draw.below(len(self.ranks))
        self.requests += 1
        what = self.draw.below(5)
        if what == 0:
            self.call(rank, recordings.MPI_RECV, 0, -1, 77, self.requests)
            self.ranks[rank].call(recordings.MPI_WAIT, self.requests, -1, -1, 1)
        elif what == 1:
            for number in [n for n in self.index[rank] if n < 0]:
                self.call(rank, recordings.MPI_SEND, number, 0, 0, 8, -1, 0)
        elif what == 2:
            self.call(rank, recordings.MPI_SEND, 0, -1, 0, 8, -1, 0)
            self.call(rank, recordings.MPI_RECV, 0, len(self.ranks), 0, -1)
        elif what == 3:
            self.ranks[rank].call(recordings.MPI_OPAQUE, 1)
        else:
            self.call(rank, recordings.MPI_RECV, 0, 0, 78, -1)

    def whole(self):
        turns = (self.shift, self.shift, self.collective, self.collective, self.collective, self.pass_on, self.strange)
        for _ in range(6 + self.draw.below(5)):
            self.draw.of(turns)()
        return self.job


def two_threads_talk():
    """Two threads of each rank, whose receives are matched in the order of all calls."""
    job = recordings.Job(2, HEADER)
    job.has_mpi = 1
    first = [Rank(t) for t in job.threads]
    second = [Rank(job.add_thread(rank)) for rank in range(2)]
    for rank in first:
        rank.thread.begin_mpi()
    for size in (8, 40, 3000):
        second[0].compute(500).send(1, size, 5)
        first[0].send(1, size * 2, 5)
        second[1].recv(0, 5)
        first[1].compute(200).recv(0, 5).send(0, 8, 6)
        second[0].recv(1, 6)
    return job


#
# Traffic
#

def traffic(seed):
    """Communications of all kinds between ranks that are anywhere, by two threads each, with sizes around those of
    packets, gaps between them, and session-mode VCQs that are started by others."""
    draw = Draw(seed * 31 + 7)
    ranks = 5 + draw.below(8)
    at = [tuple(draw.below(n) for n in (3, 4, 2, 2, 3, 2)) for _ in range(ranks)]
    job = recordings.Job(ranks, HEADER, coords=lambda r: at[r])
    threads = [(t, job.add_thread(rank)) if rank % 3 == 0 else (t,) for rank, t in enumerate(job.threads)]
    polls = []
    for number in range(3 * ranks):
        rank, to, kind = draw.below(ranks), draw.below(ranks), draw.of((PUT, PUT, GET, ARMW))
        thread = draw.of(threads[rank])
        own, far = (rank, draw.below(6), thread.index), (to, draw.below(6), 0)
        names = [n for n in ("TCQ_NOTICE", "LOCAL_MRQ_NOTICE", "REMOTE_MRQ_NOTICE") if draw.below(2)]
        size = 8 if kind == ARMW else draw.of((0, 8, 1919, 1920, 1921, 3840, 3841, 7680, 30720, 30721, 150000))
        edata = draw.below(3)
        path = draw.of((None, None, (draw.below(2), draw.below(3), draw.below(2))))
        mtu = draw.of((0, 0, 0, 1000, 1920))
        thread.comm(kind, own, far, size, job.flag(*names), stadd=draw.below(2) << 20, edata=edata, path=path, mtu=mtu,
                    gap=draw.of((0, 8, 255)) if mtu else 0, compute=draw.of((0, 0, 300)))
        if "TCQ_NOTICE" in names:
            polls.append((thread, lambda t, v=own: t.tcq(v)))
        if "LOCAL_MRQ_NOTICE" in names:
            polls.append((thread, lambda t, v=own, k=kind, f=far, e=edata: t.mrq(v, NOTICES[k][0], f, e)))
        if "REMOTE_MRQ_NOTICE" in names:
            polls.append((job.threads[to], lambda t, v=own, k=kind, f=far, e=edata: t.mrq(f, NOTICES[k][1], v, e)))
        if draw.below(3) == 0:
            for thread, poll in polls:
                poll(thread)
            polls = []
    for thread, poll in polls:
        poll(thread)
    return job


#
# What is said
#

def told(folder, paths, *options):
    """A line for each thread, and what the report says of how it is known."""
    path = Path(folder) / "timeline.json"
    run = subprocess.run([kept.MODEL, *options, "-t", str(path), "--compute", "1", *paths], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, timeout=100)
    if run.returncode:
        return run.stdout.replace(f"{folder}/", "")
    lines = {}
    for event in json.loads(path.read_text(encoding="utf-8")):
        if event["ph"] not in "Xfe":
            continue
        line = lines.setdefault((event["pid"], event["tid"]), ["", 0])
        if event["ph"] == "f":
            line[0] += f"<{event['id']}"
        elif event["ph"] == "e":
            line[0] += f" {event['name']}@{event['ts']:.3f}"
        else:
            end = event["ts"] + event["dur"]
            line[1] = max(end, line[1])
            line[0] += f" w{end:.3f}+{event['dur']:.3f}" if event["name"] == "wait" else ""
    threads = "".join(f"{pid}.{tid}:{text} ...{end:.3f}\n" for (pid, tid), (text, end) in sorted(lines.items()))
    warnings = "".join(f"{line}\n" for line in run.stdout.splitlines() if line.startswith("utofu-model: "))
    bases = re.search(r"\n( +told +notices.*?)\n\n", run.stdout, re.S)
    return warnings + threads + (bases[1] + "\n" if bases else "")


def questions(folder):
    """name, paths, options"""
    tofud = ["-m", str(Path(MACHINES) / "tofud.toml")]
    round_numbers = ["-m", schedules.machine(folder)]
    for seed in range(50):
        for again in (False, True) if seed % 3 == 0 else (False,):
            repeated = Repeated(seed)
            repeated.job.again = again
            yield f"calls that repeat, {seed}", repeated.whole().write(folder, "drawn"), round_numbers
    for seed in range(100, 112):
        yield f"calls that repeat, one address is told, {seed}", Repeated(seed).whole(True).write(folder, "drawn"), \
            round_numbers
    for seed in range(24):
        yield f"MPI, {seed}", Talk(seed).whole().write(folder, "drawn"), tofud if seed % 4 == 0 else round_numbers
    yield "MPI, two threads", two_threads_talk().write(folder, "drawn"), round_numbers
    tree = changed_machine(folder, "tree", (r'^kind = "tofu"', 'kind = "fat-tree"\nnodes_a_leaf = 2\nspines = 3'),
                           (r"^torus = .*", ""))
    narrow = changed_machine(folder, "narrow", (r"^queued = \d+", "queued = 3840"),
                             (r"^buffered = \d+", "buffered = 7680"), (r"^number = \d+", "number = 4"))
    for seed in range(20):
        machine = (tofud, ["-m", narrow], ["-m", tree], ["-m", str(Path(MACHINES) / "infiniband.toml")])[seed % 4]
        torus = [] if seed % 4 > 1 else ["--torus", ("xyz", "y", "xz")[seed % 3]]
        yield f"traffic, {seed}", traffic(seed).write(folder, "drawn"), [*machine, *torus]


def answers():
    """Of records that repeat the one before, the same is told as of whole ones."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, paths, options in questions(folder):
            text = told(folder, paths, *options)
            if found.setdefault(name, text) != text:
                found[name + ", in records that repeat"] = text
    return found


if __name__ == "__main__":
    sys.exit(kept.judge(answers(), DRAWN))
