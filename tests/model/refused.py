# SPDX-License-Identifier: Apache-2.0
"""Recordings, machine files and options that utofu-model refuses, and those beside them that it takes."""
import struct

import recordings
from recordings import AGAIN, AT, ENTER, FREE, GATE, MPI, MRQ_POLL, PUT, RESULT, SEEN, SET, SITE, START, STARTED, \
    TCQ_POLL, VCQ, block, number
from test_model import bad_blocks, mpi_calls, rank0, region_names

THREAD = number(0) + b"\0" * 8
TIME = b"\0\0"  # of a timed record: since the one before, and CPU time


def vcq(index, tni=0, cq=0, cmp=0, flags=1, coords=bytes(6)):
    return bytes([VCQ]) + number(index) + bytes(8) + coords + number(tni) + number(cq) + number(cmp) + coords[3:] \
        + number(flags)


def gate(index, tni=0, place=0):
    return bytes([GATE]) + number(index) + struct.pack("<Q", place) + bytes(6) + number(tni) + number(place)


def put(length=8, flags=0, edata=0, mtu=0, gap=0, op=PUT, own=0, far=0):
    return bytes([op]) + TIME + number(own) + number(far) + number(length) + number(flags) + b"\0" + number(edata) \
        + number(mtu) + (number(gap) if mtu else b"") + b"\0"


def calls():
    """name, records, how many"""
    own = vcq(0)
    yield "a VCQ with number 1 first", vcq(1), 1
    yield "a second VCQ with number 0", own + own, 2
    for name, most in (("tni", 7), ("cq", 4095), ("cmp", 7), ("flags", 1 << 16)):
        for value in (most, most + 1):
            yield f"a VCQ with {name} {value}", vcq(0, **{name: value}) + (vcq(1) if name == "flags" else b""), 1
    yield "a VCQ of nobody", vcq(0, 1, 2, 3, 0, bytes([1, 2, 3, 1, 2, 1])), 1
    yield "a call on the VCQ of nobody", vcq(0, flags=0) + bytes([FREE]) + TIME + b"\0", 2
    yield "a VCQ that was started and is of nobody", vcq(0, flags=0) + bytes([STARTED, 0]) + bytes(8), 2
    yield "a VCQ that was started", own + bytes([STARTED, 0]) + bytes(8), 2
    yield "a gate with number 1 first", gate(1), 1
    for name, most in (("tni", 7), ("place", 47)):
        for value in (most, most + 1):
            yield f"a gate with {name} {value}", gate(0, **{name: value}), 1
    for values in ((0, 1, 0, 0, 0), (0, 2, 0, 0, 0), (0, 0, 2, 0, 0), (0, 0, 0, 2, 0), (0, 0, 0, 0, 2),
                   (1, 0, 0, 0, 0)):
        yield f"a gate set with {values}", gate(0) + bytes([SET]) + TIME + bytes(values) + bytes(3), 2
    for op in (START, RESULT):
        for index in (0, 1):
            yield f"operation {op} on gate {index}", gate(0) + bytes([op]) + TIME + bytes([index, 0]), 2
    for name, most in (("length", 16777215), ("flags", 65535), ("edata", 255), ("mtu", 1920)):
        for value in (most, most + 1):
            # the flags ask for no notices that anybody polls
            yield f"a put with {name} {value}", own + put(**{name: value}), 2
    for value in (255, 256):
        yield f"a put with gap {value}", own + put(mtu=1, gap=value), 2
    yield "a put from VCQ 1", own + put(own=1), 2
    yield "a put to VCQ 1", own + put(far=1), 2
    for op in (PUT, TCQ_POLL, MRQ_POLL):
        yield f"operation {op} that repeats none", own + bytes([op | AGAIN]) + TIME + bytes(6), 2
    yield "a get that repeats a put", own + put() + bytes([recordings.GET | AGAIN]) + TIME + b"\0", 3
    yield "a put that repeats a put", own + put() + bytes([PUT | AGAIN]) + TIME + b"\0", 3
    for kind in (5, 6):
        yield f"a notice of type {kind}", own + bytes([MRQ_POLL]) + TIME + bytes([0, 0, kind, 0, 0]), 2
    for op in (FREE, SET, START, ENTER, SEEN, MPI):
        yield f"operation {op} that repeats one", own + gate(0) + bytes([op | AGAIN]) + TIME + bytes(9), 3
    for op in (0, 6, 7, 22, 23, 63):
        yield f"operation {op}", bytes([op]) + TIME + bytes(4), 1
    yield "a region whose name goes on behind the block", bytes([ENTER]) + TIME + number(5) + b"abcd", 1
    yield "a site of eight return addresses", bytes([SITE, 8]) + bytes(64) + bytes([SEEN]) + TIME + bytes(2), 2
    yield "a call at site 0, which is unknown", bytes([AT, 0, SEEN]) + TIME + bytes(2), 2


def head(version=recordings.VERSION, rank=0, size=1, name=b"", ticks=0, first=bytes(16), coords=bytes(6)):
    return number(version) + number(rank) + number(size) + number(len(name)) + name + bytes(8) + coords + b"\0" \
        + number(ticks) + first + number(0)


def end(records=0, last=bytes(16)):
    return number(records) + last + number(0)


def whole(*blocks):
    return b"UTOFUREC" + b"".join(block(kind, content) for kind, content in blocks)


def files():
    """name, content"""
    last = (b"E", end())
    yield "nothing", b""
    yield "less than the magic bytes", b"UTOFURE"
    yield "other magic bytes", b"UTOFUREX" + whole((b"H", head()), last)[8:]
    yield "the magic bytes alone", b"UTOFUREC"
    for version in (3, 4, 6, 7):
        cut = -1 if version == 4 else None  # which has no flags
        yield f"version {version}", whole((b"H", head(version)[:cut]), (b"E", end()[:cut]))
    yield "rank 1 of 1", whole((b"H", head(rank=1)), last)
    yield "as many ranks as there can be, and one more", whole((b"H", head(size=(1 << 24) + 1)), last)
    for length in (255, 256):
        yield f"a job's name of {length} bytes", whole((b"H", head(name=length * b"n")), last)
    for coords in ((9, 8, 7, 1, 2, 1), (0, 0, 0, 2, 0, 0), (0, 0, 0, 0, 3, 0), (0, 0, 0, 0, 0, 2)):
        yield f"a node at {coords}", whole((b"H", head(coords=bytes(coords))), last)
    for ticks in (1, 2):
        yield f"ticks of kind {ticks}", whole((b"H", head(ticks=ticks)), last)
    for first, moment in (((5, 5), (5, 5)), ((5, 5), (4, 5)), ((5, 5), (5, 4)), ((0, 5), (9, 9))):
        a, b = struct.pack("<QQ", *first), struct.pack("<QQ", *moment)
        yield f"a clock from {first} to {moment}", whole((b"H", head(first=a)), (b"E", end(last=b)))
    yield "a moment before the first one", whole((b"H", head(first=struct.pack("<QQ", 5, 5))), (b"M", bytes(16)), last)
    yield "no head", whole(last)
    yield "two heads", whole((b"H", head()), (b"H", head()), last)
    yield "a block of type Z", whole((b"H", head()), (b"Z", b""), last)
    yield "a block with something behind its content", whole((b"H", head()), (b"M", bytes(17)), last)
    yield "a head with something behind its content", whole((b"H", head() + b"\0"), last)
    good = whole((b"H", head()), last)
    yield "a good one", good
    for cut in (1, len(end()) + 1, len(end()) + 8, len(end()) + 9):
        yield f"{cut} bytes less", good[:-cut]
    yield "a byte more", good + b"\0"
    yield "a wrong checksum", good[:-1] + b"\1"
    for thread in (1 << 20, (1 << 20) + 1):
        yield f"thread {thread}", whole((b"H", head()), (b"C", number(thread) + bytes(8)), last) \
            if thread > 1 << 20 else whole((b"H", head()), (b"C", number(3) + bytes(8)), last)
    for size, length in ((64, 4096), (65, 1), (1, 4097)):
        module = bytes(24) + number(size) + bytes(size) + number(length) + b"/" * length
        yield f"a module with a build id of {size} bytes and a path of {length}", \
            whole((b"H", head()), (b"L", module + module), (b"L", b""), (b"L", module), last)
    yield "numbers of 64 bits", rank0(THREAD + bytes([SEEN]) + TIME + b"\xff" * 9 + b"\1" + b"\0")
    yield "a number of 70 bits", rank0(THREAD + bytes([SEEN]) + TIME + b"\xff" * 10 + b"\0")


def recordings_that_are_bad():
    """name, content; some are good, for the places where something begins to be wrong"""
    yield from bad_blocks()
    yield from mpi_calls()
    yield from region_names()
    for name, content, records in calls():
        yield name, rank0(THREAD + content, records)
    yield from files()
    carried = bytes([MPI]) + b"\0"
    for rank, size in ((0, 0), (1, 1), (-1, 1), (0, 1)):
        numbers = b"".join(map(recordings.signed, (rank, size)))
        yield f"MPI with rank {rank} of {size}", rank0(THREAD + carried + bytes([9, 0, 0, 2]) + numbers)
    yield "MPI that begins with three numbers", rank0(THREAD + carried + bytes([9, 0, 0, 3, 0, 2, 0]))
    for many in (64, 65):
        yield f"a call of MPI with {many} numbers", rank0(
            THREAD + carried + bytes([9, recordings.MPI_WAIT, 0]) + number(many) + bytes(many))


def machines():
    """Changes of Fugaku's file."""
    changes = [
        (r"^hop_ns = .*", ""), (r"^hop_ns = .*", "hop_ns = -1"), (r"^rate = .*", "rate = 0"),
        (r"^number = .*", "number = 65"), (r"^number = .*", "number = 2.5"), (r"^number = .*", "number = 0"),
        (r"^mtu = .*", "mtu = x"), (r"^mtu = .*", "mtu = 1 2"), (r"^torus = .*", "torus = 'xyz'"),
        (r"^torus = .*", 'torus = "w"'), (r"^name = .*", 'name = "' + 100 * "n" + '"'), (r"^\[mpi\]", "[mpi"),
        (r'^kind = "tofu"', 'kind = "fat-tree"\nnodes_a_leaf = 5'),
        (r'^kind = "tofu"', 'kind = "fat-tree"\nspines = 5'),
        (r'^kind = "tofu"', 'kind = "tofu"\nspines = 5'), (r'^kind = "tofu"', 'kind = "ring"'),
        (r'^kind = "tofu"', "kind = 3"), (r"^hop_ns", "hops_ns"), (r"^hop_ns = .*", "hop_ns = 1\nhop_ns = 2"),
        (r"^hop_ns = .*", "hop_ns"), (r"^hop_ns = .*", "hop_ns = 1" + 600 * " "),
        (r"^offload_elements = .*", "offload_elements = -2"), (r"^name = .*", 'name = "n'),
        (r"^name = .*", 'name = "a\\\\b"'), (r"^name = .*", 'name = "' + 127 * "n" + '"'),
        (r"^name = .*", 'name = "' + 128 * "n" + '"'), (r"^hop_ns = .*", "hop_ns = 1" + 499 * " "),
        (r"^hop_ns = .*", "hop_ns = 1" + 500 * " "), (r"^hop_ns = .*", "hop_ns = 1" + 501 * " "),
        (r"^hop_ns = .*", "= 1"), (r"^hop_ns = .*", "hop_ns = true"),
        (r"^hop_ns = .*", "hop_ns = false"), (r"^hop_ns = .*", "hop_ns = truly"),
        (r"^hop_ns = .*", "hop_ns = false 1"), (r"^hop_ns = .*", "hop_ns = 1e"), (r"^hop_ns = .*", "hop_ns 1")]
    yield from changes
    for value in ("1e18", "9e17", "-1e18", "-9e17", "+500", ".5", "nan", "inf", "0x10", "1 # a comment", "1\t#", "1\r",
                  '"a" "b"', '"a" # b', "tru", "fals", "True"):
        yield r"^hop_ns = .*", f"hop_ns = {value}"
    for length in (62, 63, 64):
        yield r"^hop_ns = .*", length * "k" + " = 1"
        yield r"^\[mpi\]", f"[{length * 'k'}]"
    for text in ("[]", "[m pi]", "[mpi] x", "[ mpi ]", "\t [mpi] # here", "[mpi]\n# nothing\n \t\n"):
        yield r"^\[mpi\]", text
    yield r"^name = .*", ""
    yield r"^name = .*", "name = 3"
    yield r"^name = .*", 'name = ""'
    yield r"^name = .*", "nome = \"n\""
    yield r'^kind = "tofu"', 'kind = "tofu"\nports = 3'
    yield r'^kind = "tofu"', 'kind = "fat-tree"\nspines = 0\nnodes_a_leaf = 1'
    yield r'^kind = "tofu"', 'kind = "fat-tree"\nspines = 1\nnodes_a_leaf = 0'
    yield r'^kind = "tofu"', 'kind = "fat-tree"\nspines = 1\nnodes_a_leaf = 1'  # the torus is too much
    yield r'^kind = "tofu"', ""
    yield r"^torus = .*", ""
    yield r"^torus = .*", "torus = 3"
    yield r"^torus = .*", 'torus = "zx"'
    for number_of in ("1", "64"):
        yield r"^number = .*", f"number = {number_of}"
    yield r"^block_rate = .*", ""


def words():
    """Options."""
    yield from (
        ["--allocation", "1x1"], ["--allocation", "257x1x1"], ["--torus", "xq"], ["--compute", "x"],
        ["--what-if", "bytes=-1"], ["--what-if", "order=up"], ["--what-if", "map=/nothing"],
        ["--search", "tnis"], ["--seed", "x"], ["--seconds", "-1"], ["--noise", "-1"],
        ["--map", "/nothing"], ["--plot", "a'b"])
    for text in ("0", "1", "3072", "3073", "1x1x1x1", "1x1x1 ", "ax1x1", "1x0x1", "1x1x0", "1x257x1", "1x1x257", "-1",
                 "256x256x256", ""):
        yield ["--allocation", text]
    for text in ("tni", "order", "map", ",", "tni,,map", "ordermap", "tni,orders", ""):
        yield ["--search", text, "--json"]
    for text in ("tni=all", "order=xors", "orders=xor", "bytes=", "byte=1", "bytes=x", "allocations=1x1x1",
                 "link.hop_n=1", "link.hop_nss=1", "link.hop_ns=1x", "link.hop_ns=", "link.hop_ns=-1",
                 "tni.number=65", "tni.number=1.5", "hop_ns=1", "=", "tni"):
        yield ["--what-if", text]
    for letter in "\"\\`$":
        yield ["--plot", f"a{letter}b"]
    yield ["--map", "/nothing", "--allocation", "1x1x1"]
    yield ["-t", "/nothing/timeline"]
    yield ["-m", "/nothing.toml"]
