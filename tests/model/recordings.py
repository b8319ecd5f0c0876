# SPDX-License-Identifier: Apache-2.0
"""Writes recordings (src/record/format.h) of programs that never ran, and reads those of programs that ran."""
import collections
import os
import struct

PUT, GET, ARMW, NOP, TCQ_POLL, MRQ_POLL, FREE, SET, START, RESULT, ENTER, LEAVE, SEEN, MPI = range(8, 22)
VCQ, GATE, STARTED, SITE, AT = 1, 2, 3, 4, 5
VERSION, OLDEST = 6, 4
MPI_BEGIN, MPI_COMM, MPI_SEND, MPI_RECV, MPI_WAIT, MPI_PROBE, MPI_COLL, MPI_OPAQUE = range(8)
COLLS = ("barrier bcast reduce allreduce gather scatter allgather alltoall reduce_scatter scan exscan "
         "new_comm gatherv").split()
POLLED, AGAIN = 0x80, 0x40
NO_PATH = (255, 255, 255)
SESSION = 4


def read_flags(header):
    """The values of UTOFU_ONESIDED_FLAG_* and UTOFU_MRQ_TYPE_*, from utofu.h."""
    import re
    with open(header, encoding="utf-8") as file:
        text = file.read()
    flags = {name: 1 << int(bit) for name, bit in
             re.findall(r"#define UTOFU_ONESIDED_FLAG_(\w+)\s+\(1UL << (\d+)\)", text)}
    types = dict(re.findall(r"UTOFU_MRQ_TYPE_(\w+)\s*=\s*(\d+)", text))
    return flags, {name: int(value) for name, value in types.items()}


def number(value):
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value):
    return number(value << 1 if value >= 0 else (-value << 1) - 1)


def checksum(content):
    factor, mask = 0x9e3779b97f4a7c15, 0xffffffffffffffff
    h = ((0xcbf29ce484222325 ^ len(content)) * factor) & mask
    whole = len(content) // 8 * 8
    for word, in struct.iter_unpack("<Q", content[:whole]):
        h = ((h ^ word) * factor) & mask
    last = int.from_bytes(content[whole:], "little")
    return ((h ^ last) * factor & mask) >> 32


def block(kind, content):
    return kind + struct.pack("<II", len(content), checksum(content)) + content


def coords_of(node):
    return (node // 12 % 256, 0, 0, node % 2, node // 2 % 3, node // 6 % 2)


class Thread:
    """The calls of one thread. A VCQ is (rank, TNI, CQ); times are in ns."""

    def __init__(self, job, rank, index=0):
        self.job, self.rank, self.index, self.content, self.records = job, rank, index, bytearray(), 0
        self.vcqs, self.gates, self.last, self.stadd, self.now = {}, {}, 0, 0, 0
        self.said = {}  # what a record of a kind repeats

    def define_vcq(self, vcq):
        if vcq not in self.vcqs:
            rank, tni, cq = vcq
            coords = bytes(self.job.coords(rank))
            flags = self.job.session.get(vcq, 0) + 1 if rank == self.rank else 0
            self.vcqs[vcq] = len(self.vcqs)
            path = self.job.paths.get((self.rank, vcq), coords[3:])
            self.content += bytes([VCQ]) + number(self.vcqs[vcq]) + struct.pack("<Q", rank << 8 | tni) + coords \
                + number(tni) + number(cq) + number(0) + bytes(path) + number(flags)
            self.records += 1
        return number(self.vcqs[vcq])

    def define_gate(self, gate):
        if gate is None:
            return None
        if gate not in self.gates:
            rank, tni, index = gate
            self.gates[gate] = len(self.gates)
            self.content += bytes([GATE]) + number(self.gates[gate]) \
                + struct.pack("<Q", rank << 16 | tni << 8 | index) + bytes(self.job.coords(rank)) + number(tni) \
                + number(index)
            self.records += 1
        return self.gates[gate]

    def timed(self, op, body, at=None, compute=0, same_call=False, polled=0):
        """polled: so long before it was the first poll that found nothing."""
        self.now = self.job.tick() if at is None else at
        self.content += bytes([op | (0x80 if same_call else 0) | (POLLED if polled else 0)]) \
            + number(self.now - self.last) + number(compute) + body + (number(polled) if polled else b"")
        self.last = self.now
        self.records += 1
        return self

    def repeat(self, kind, op, body):
        """The operation and the body of a record, which may say that it repeats the one of its kind before."""
        again = self.job.again and self.said.get(kind) == (op, body)
        self.said[kind] = op, body
        return (op | AGAIN, b"") if again else (op, body)

    def comm(self, op, vcq, remote, length, flags, stadd=0, edata=0, sps=0, path=None, mtu=0, gap=0, **more):
        own, far = self.define_vcq(vcq), self.define_vcq(remote)
        body = own + far + number(length) + number(flags)
        body += bytes([sps | (1 << 4 if path else 0)]) + (bytes(path) if path else b"")
        body += number(edata) + number(mtu) + (number(gap) if mtu else b"")
        op, body = self.repeat("comm", op, body)
        body += signed(stadd - self.stadd)
        self.stadd = stadd
        return self.timed(op, body, **more)

    def put(self, vcq, remote, length, flags, **more):
        return self.comm(PUT, vcq, remote, length, flags, **more)

    def tcq(self, vcq, rc=0, **more):
        return self.timed(*self.repeat("tcq", TCQ_POLL, self.define_vcq(vcq) + number(rc)), **more)

    def at_site(self, *frames):
        """The next call is made there: return addresses, innermost first."""
        self.content += bytes([SITE]) + number(len(frames)) + struct.pack(f"<{len(frames)}Q", *frames)
        self.records += 1
        return self

    def free(self, vcq, **more):
        return self.timed(FREE, self.define_vcq(vcq), **more)

    def mrq(self, vcq, kind, remote, edata=0, rc=0, **more):
        own, far = self.define_vcq(vcq), self.define_vcq(remote)
        op, body = self.repeat("mrq", MRQ_POLL, own + number(rc) + number(self.job.types[kind]) + far)
        return self.timed(op, body + number(edata), **more)

    def region(self, name, enter=True, **more):
        return self.timed(ENTER if enter else LEAVE, number(len(name)) + name.encode(), **more)

    def seen(self, stadd, length, **more):
        return self.timed(SEEN, number(stadd) + number(length), **more)

    def mpi(self, kind, *numbers, **more):
        """A call of MPI: the numbers that format.h names."""
        body = bytes([kind]) + number(0) + number(len(numbers)) + b"".join(map(signed, numbers))
        return self.timed(MPI, body, **more)

    def begin_mpi(self):
        self.mpi(MPI_BEGIN, self.rank, self.job.size)
        return self.mpi(MPI_COMM, 0, self.job.size, 0, 1, self.job.size)

    def set(self, gate, sources, targets):
        ids = [self.define_gate(gate)] + [self.define_gate(g) for g in (*sources, *targets)]
        body = number(ids[0]) + b"".join(number(0 if i is None else i + 1) for i in ids[1:]) + bytes(NO_PATH)
        return self.timed(SET, body)

    def start(self, gate):
        index = self.define_gate(gate)
        return self.timed(START, number(index) + number(0))

    def result(self, gate):
        index = self.define_gate(gate)
        return self.timed(RESULT, number(index) + number(0))


class Job:
    """A recorded job of `size` ranks, one a node."""

    def __init__(self, size, header, coords=coords_of):
        self.flags, self.types = read_flags(header)
        self.size, self.coords, self.clock, self.session, self.paths = size, coords, 1000, {}, {}
        self.version, self.has_mpi, self.again, self.job_name = VERSION, 0, False, b"job"
        self.host, self.to_realtime = (lambda rank: 1), (lambda rank: 0)
        self.threads = [Thread(self, rank) for rank in range(size)]
        self.more, self.modules = [], {}  # modules: of a rank, (begin, end, bias, build id, path) each

    def add_thread(self, rank):
        """A further thread of a rank."""
        number_of = sum(t.rank == rank for t in self.more) + 1
        self.more.append(Thread(self, rank, number_of))
        return self.more[-1]

    def tick(self):
        self.clock += 1000
        return self.clock

    def flag(self, *names):
        return sum(self.flags[name] for name in names)

    def bytes_of(self, rank):
        threads = [self.threads[rank], *(t for t in self.more if t.rank == rank)]
        flags = number(self.has_mpi) if self.version > OLDEST else b""
        head = number(self.version) + number(rank) + number(self.size) + number(len(self.job_name)) + self.job_name \
            + struct.pack("<Q", self.host(rank)) + bytes(self.coords(rank)) + signed(self.to_realtime(rank)) \
            + number(0) + bytes(16) + flags
        modules = b"".join(struct.pack("<QQQ", *m[:3]) + number(len(m[3])) + m[3] + number(len(m[4])) + m[4].encode()
                           for m in self.modules.get(rank, ()))
        blocks = [block(b"L", modules)] if modules else []
        blocks += [block(b"C", number(t.index) + struct.pack("<Q", 0) + bytes(t.content)) for t in threads if t.content]
        records = sum(t.records for t in threads)
        return b"UTOFUREC" + block(b"H", head) + b"".join(blocks) + block(b"E", number(records) + bytes(16) + flags)

    def write(self, folder, name="t"):
        """Each rank also has a VCQ on TNI 0 and one on TNI 1, which it may never use, and those that others use."""
        paths = []
        used = {vcq for thread in (*self.threads, *self.more) for vcq in thread.vcqs}
        for thread in self.threads:
            for vcq in sorted(used | {(thread.rank, 0, 0), (thread.rank, 1, 0)}):
                if vcq[0] == thread.rank:
                    thread.define_vcq(vcq)
        for rank in range(self.size):
            paths.append(os.path.join(folder, f"{name}.{rank}.rec"))
            with open(paths[-1], "wb") as file:
                file.write(self.bytes_of(rank))
        return paths


# A record of a call. since: the call before it; polled: the first poll that found nothing; mpi: kind and numbers.
Record = collections.namedtuple("Record", "op since polled mpi", defaults=(None,))


class Cursor:
    def __init__(self, content):
        self.content, self.at = content, 0

    def take(self, size):
        self.at += size
        return self.content[self.at - size:self.at]

    def number(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self):
        value = self.number()
        return value >> 1 if value % 2 == 0 else -(value + 1 >> 1)

    def skip(self, *fields):
        """0: a number; otherwise so many bytes."""
        for size in fields:
            if size:
                self.take(size)
            else:
                self.number()

    def skip_comm(self):
        self.skip(0, 0, 0, 0)
        if self.take(1)[0] >> 4:
            self.take(3)
        self.skip(0)
        if self.number():  # MTU, and gap
            self.skip(0)

    def record(self):
        """None: one that only defines what later ones refer to."""
        code = self.take(1)[0]
        op, again = code & ~0xc0, code & AGAIN
        if op == SITE:
            self.take(8 * self.number())
            return None
        definitions = {AT: (0,), VCQ: (0, 8, 6, 0, 0, 0, 3, 0), GATE: (0, 8, 6, 0, 0), STARTED: (0, 8)}
        if op in definitions:
            self.skip(*definitions[op])
            return Record(op, 0, 0) if op == STARTED else None
        since = self.number()
        self.skip(0)
        if op <= NOP:
            if not again:
                self.skip_comm()
            self.skip(0)
        elif op in (ENTER, LEAVE):
            self.take(self.number())
        elif op == MPI:
            kind = self.take(1)[0]
            self.skip(0)
            numbers = [self.signed() for _ in range(self.number())]
            return Record(op, since, 0, (kind, numbers))
        else:
            first = {TCQ_POLL: (0, 0), MRQ_POLL: (0, 0, 0, 0), FREE: (0,), SET: (0, 0, 0, 0, 0, 3)}
            self.skip(*(() if again else first.get(op, (0, 0))))
            self.skip(*((0,) if op == MRQ_POLL else ()))
        polled = self.number() if op in (TCQ_POLL, MRQ_POLL) and code & POLLED else 0
        return Record(op, since, polled)


def blocks(path):
    """(kind, content) of each block."""
    with open(path, "rb") as file:
        content = file.read()
    at = len("UTOFUREC")
    while at < len(content):
        kind, size = content[at:at + 1], struct.unpack_from("<I", content, at + 1)[0]
        yield kind, content[at + 9:at + 9 + size]
        at += 9 + size


def size_of(path, which):
    """Bytes in blocks of a kind."""
    return sum(9 + len(content) for kind, content in blocks(path) if kind == which)


def read(path):
    """The records of all threads' calls, and of descriptors that a session-mode VCQ has started."""
    for kind, content in blocks(path):
        if kind != b"C":
            continue
        calls = Cursor(content)
        calls.skip(0, 8)
        while calls.at < len(content):
            record = calls.record()
            if record:
                yield record
