#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares two recordings of one run: that of the library and that of libutofu-observe.

usage: compare.py A.0.rec B.0.rec [A.1.rec B.1.rec...]

Each thread has the same calls in the same order, with the same arguments and results. Times differ, and so may what the
observer does not see: when a session-mode VCQ starts a descriptor.
"""
import os
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "model"))
import recordings as r  # noqa: E402

NAMES = {r.PUT: "put", r.GET: "get", r.ARMW: "armw", r.NOP: "nop", r.TCQ_POLL: "tcq", r.MRQ_POLL: "mrq",
         r.FREE: "free", r.SET: "set", r.START: "start", r.RESULT: "result", r.ENTER: "enter", r.LEAVE: "leave",
         r.SEEN: "seen"}


class Thread:
    """Decodes the records of a thread, with names instead of indices."""

    def __init__(self):
        self.vcqs, self.gates, self.comm, self.tcq, self.mrq, self.stadd, self.calls = [], [], None, None, None, 0, []

    def signed(self, c):
        n = c.number()
        return n >> 1 if n % 2 == 0 else -(n >> 1) - 1

    def define(self, c, op):
        assert c.number() == len(self.vcqs if op == r.VCQ else self.gates), "an id is out of order"
        ident, coords, tni, number = c.take(8), tuple(c.take(6)), c.number(), c.number()
        if op == r.GATE:
            self.gates.append((coords, tni, number))
            return
        cmp, path, flags = c.number(), tuple(c.take(3)), c.number()
        self.vcqs.append((coords, tni, number, cmp, path))
        if flags:
            self.calls.append(("vcq", ident, coords, tni, number, cmp, path, flags))

    def take_comm(self, c, op, code):
        if not code & r.AGAIN:
            vcq, remote, length, flags, word = c.number(), c.number(), c.number(), c.number(), c.take(1)[0]
            path = tuple(c.take(3)) if word >> 4 else ()
            edata, mtu = c.number(), c.number()
            self.comm = (self.vcqs[vcq], self.vcqs[remote], length, flags, word, path, edata, mtu,
                         c.number() if mtu else 0)
        self.stadd += self.signed(c)
        self.calls.append((NAMES[op], bool(code & 0x80), self.comm, self.stadd))

    def take(self, c):
        code = c.take(1)[0]
        op = code & ~0xc0
        if op in (r.VCQ, r.GATE):
            self.define(c, op)
            return
        if op == r.STARTED:
            c.skip(0, 8)
            return
        if op in (r.SITE, r.AT):  # where the program is, not what it calls
            number = c.number()
            c.take(8 * number if op == r.SITE else 0)
            return
        c.skip(0, 0)
        if op <= r.NOP:
            self.take_comm(c, op, code)
        elif op == r.TCQ_POLL:
            if not code & r.AGAIN:
                self.tcq = (self.vcqs[c.number()], c.number())
            self.calls.append(("tcq", *self.tcq))
        elif op == r.MRQ_POLL:
            if not code & r.AGAIN:
                self.mrq = (self.vcqs[c.number()], c.number(), c.number(), self.vcqs[c.number()])
            self.calls.append(("mrq", *self.mrq, c.number()))
        elif op in (r.ENTER, r.LEAVE):
            self.calls.append((NAMES[op], c.take(c.number())))
        elif op == r.FREE:
            self.calls.append(("free", self.vcqs[c.number()]))
        elif op == r.SET:
            gates = [c.number() + (i == 0) for i in range(5)]
            self.calls.append(("set", [self.gates[g - 1] if g else None for g in gates], tuple(c.take(3))))
        elif op in (r.START, r.RESULT):
            self.calls.append((NAMES[op], self.gates[c.number()], c.number()))
        else:
            self.calls.append((NAMES[op], c.number(), c.number()))
        if op in (r.TCQ_POLL, r.MRQ_POLL) and code & r.POLLED:
            c.number()


def threads_of(path):
    with open(path, "rb") as file:
        content = file.read()
    at, threads = len("UTOFUREC"), {}
    while at < len(content):
        kind, size, total = content[at:at + 1], *struct.unpack_from("<II", content, at + 1)
        body = content[at + 9:at + 9 + size]
        assert len(body) == size and r.checksum(body) == total, f"{path}: the block at {at} is damaged"
        at += 9 + size
        if kind != b"C":
            continue
        c = r.Cursor(body)
        thread = threads.setdefault(c.number(), Thread())
        c.skip(8)
        while c.at < size:
            thread.take(c)
    # a thread of the library itself only starts descriptors
    return [t.calls for _, t in sorted(threads.items()) if any(call[0] != "vcq" for call in t.calls)]


def differ(a, b):
    """A description of the first difference; None: there is none."""
    if len(a) != len(b):
        return f"{len(a)} and {len(b)} threads"
    # threads may be numbered in another order
    for left, right in zip(sorted(a, key=repr), sorted(b, key=repr)):
        for i, (x, y) in enumerate(zip(left, right)):
            if x != y:
                return f"call {i}:\n  {x}\n  {y}"
        if len(left) != len(right):
            return f"{len(left)} and {len(right)} calls: {(left + right)[min(len(left), len(right))]}"
    return None


def main(paths):
    wrong = 0
    for one, other in zip(paths[::2], paths[1::2]):
        text = differ(threads_of(one), threads_of(other))
        if text:
            print(f"{one} and {other} differ: {text}")
            wrong += 1
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
