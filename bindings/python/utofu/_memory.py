# SPDX-License-Identifier: Apache-2.0
"""Memory: registered here, or of a peer"""
from __future__ import annotations

import mmap
import re
import struct
import weakref
from typing import TYPE_CHECKING, Any, NoReturn, Optional

from . import _fast
from ._cffi import ffi, lib
from ._constants import RegMemFlag, ReturnCode
from ._errors import check, check_flags, raise_error

if TYPE_CHECKING:
    from ._vcq import Vcq

Buffer = Any  # whatever has the buffer protocol: NumPy arrays, bytearray, bytes, mmap, array.array, memoryview...


def part_of(size: int, offset: int, length: Optional[int]) -> int:
    """The length of a part, which has to lie in memory of this size."""
    if length is None:
        length = size - offset
    if offset < 0 or length < 0 or offset + length > size:
        raise ValueError(f"{length} bytes from offset {offset} on are not within {size} bytes")
    return length


class Remote(_fast.Remote):
    """Memory of a peer: its VCQ's id, the STADD and the size in bytes.

    It is no memory of this process, and cannot be read like one: get() brings its content, put() changes it. It can be
    sent to other processes, by pickle (mpi4py) or as 24 bytes.

    >>> memory = Remote(peer=1, stadd=4096, size=100)
    >>> memory.at(8, 16)
    Remote(peer=0x1, stadd=0x1008, size=16)
    >>> Remote.unpack(memory.pack()) == memory
    True
    >>> memory.at(90, 16)
    Traceback (most recent call last):
    ValueError: 16 bytes from offset 90 on are not within 100 bytes
    """

    __slots__ = ()

    _LAYOUT = struct.Struct("<QQQ")
    PACKED_SIZE = _LAYOUT.size

    def at(self, offset: int, size: Optional[int] = None) -> Remote:
        """A part of it: from this byte on, to its end or of this size."""
        return Remote(self.peer, self.stadd + offset, part_of(self.size, offset, size))

    def pack(self) -> bytes:
        return self._LAYOUT.pack(self.peer, self.stadd, self.size)

    @classmethod
    def unpack(cls, data: Buffer) -> Remote:
        return cls(*cls._LAYOUT.unpack(data))

    def __reduce__(self) -> tuple[type[Remote], tuple[int, int, int]]:
        return Remote, (self.peer, self.stadd, self.size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Remote):
            return NotImplemented
        return (self.peer, self.stadd, self.size) == (other.peer, other.stadd, other.size)

    def __hash__(self) -> int:
        return hash((self.peer, self.stadd, self.size))

    def __repr__(self) -> str:
        return f"Remote(peer={self.peer:#x}, stadd={self.stadd:#x}, size={self.size})"


class Local(_fast.Local):
    """Memory that is registered on a VCQ of this process, or a part of it: source of a put, destination of a get."""

    __slots__ = ()


class Part(Local):
    """A part of a Memory. It is not registered anew, and ends with the Memory: the library then reports a wrong STADD,
    unless the STADD has been given to other memory."""

    __slots__ = ("memory",)

    def __init__(self, memory: Memory, offset: int, size: int):
        self.memory = memory
        self.hdl, self.stadd, self.size = memory.hdl, memory.stadd + offset, size

    def __repr__(self) -> str:
        return f"Part(stadd={self.stadd:#x}, size={self.size})"


class Memory(Local):
    """A registration of memory, made by Vcq.reg_mem().

    It ends by close(), at the end of a with statement, or with its Vcq: not when nobody refers to the Memory any more,
    as peers may still write to it. Until then it holds the buffer: the memory is not freed, and what would change its
    size (bytearray.append(), numpy.ndarray.resize()) raises BufferError or ValueError.
    """

    __slots__ = ("vcq", "buffer", "flags", "_held", "_watch", "__weakref__")

    def __init__(self, vcq: Vcq, buffer: Buffer, flags: RegMemFlag, stag: Optional[int]):
        check_flags(flags, RegMemFlag)
        self._held, writable = hold(buffer)
        self.vcq, self.buffer, self.size = vcq, buffer, len(self._held)
        self.flags = flags if writable else flags | RegMemFlag.READ_ONLY
        self.hdl, self.stadd = 0, 0
        stadd = ffi.new("utofu_stadd_t *")
        try:
            # numpy.ndarray.resize(refcheck=False) does not look for buffers, but for weak references
            self._watch: Optional[weakref.ref[Any]] = weakref.ref(buffer)
        except TypeError:
            self._watch = None
        if stag is None:
            rc, call = lib.utofu_reg_mem(vcq.hdl, self._held, self.size, self.flags, stadd), "utofu_reg_mem"
        else:
            rc = lib.utofu_reg_mem_with_stag(vcq.hdl, self._held, self.size, stag, self.flags, stadd)
            call = "utofu_reg_mem_with_stag"
        if rc:
            self._release()
            raise_error(rc, call)
        self.hdl, self.stadd = vcq.hdl, stadd[0]

    @property
    def closed(self) -> bool:
        return self.hdl == 0

    @property
    def address(self) -> int:
        return address_of(self._held)

    @property
    def read_only(self) -> bool:
        """Memory that cannot be written is registered with READ_ONLY: no peer writes it either."""
        return bool(self.flags & RegMemFlag.READ_ONLY)

    @property
    def remote(self) -> Remote:
        """What a peer needs to reach this memory: to be sent to it."""
        memory = self._opened()
        return Remote(memory.vcq.query_vcq_id(), memory.stadd, memory.size)

    def at(self, offset: int, size: Optional[int] = None) -> Part:
        """A part of it: from this byte on, to its end or of this size."""
        return Part(self._opened(), offset, part_of(self.size, offset, size))

    def of(self, view: Buffer) -> Part:
        """The part that a view has: memory.of(array[10:20])"""
        held, _ = hold(view)
        offset, size = address_of(held) - self._opened().address, len(held)
        ffi.release(held)
        if offset < 0 or offset + size > self.size:
            raise ValueError("this is no view of the memory that was registered")
        return Part(self, offset, size)

    def close(self) -> None:
        """Ends the registration: utofu_dereg_mem(). Nothing happens where it has ended."""
        if not self.vcq._take(self):
            return
        rc = lib.utofu_dereg_mem(self.hdl, self.stadd, 0)
        if rc and rc != ReturnCode.ERR_INVALID_VCQ_HDL:  # still registered, perhaps: the memory is kept
            self.vcq._give(self)
            raise_error(rc, "utofu_dereg_mem")
        self._release()

    def _opened(self) -> Memory:
        if self.closed:
            raise ValueError("this memory is no longer registered")
        return self

    def _release(self) -> None:
        self.hdl = 0
        ffi.release(self._held)
        self.buffer = self._watch = None

    def _forget(self) -> None:
        """In a child made by fork()."""
        self.hdl = 0
        _fast.keep_object(self._held)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<utofu.Memory of {self.size} bytes, {'closed' if self.closed else f'STADD {self.stadd:#x}'}>"


class Descriptors:
    """Prepared descriptors, one after the other. The prepare functions append to it, Vcq.post_toq() submits all of it,
    any number of times. room: how many it holds at most"""

    __slots__ = ("hdl", "size", "number", "_memory", "_most", "_room", "_written", "_asked")

    def __init__(self, vcq: Vcq, room: int = 16):
        caps = ffi.new("struct utofu_onesided_caps **")
        check(lib.utofu_query_onesided_caps(vcq.tni_id, caps), "utofu_query_onesided_caps")
        self._most = (caps[0].max_toq_desc_size + 7) // 8 * 8
        self.hdl, self.size, self.number, self._room = vcq.hdl, 0, 0, room
        self._asked = 0  # local MRQ notices
        self._memory = ffi.new("uint64_t[]", room * self._most // 8)
        self._written = ffi.new("size_t *")

    def clear(self) -> None:
        self.size = self.number = self._asked = 0

    def _room_for(self, vcq: Any, number: int) -> Any:
        if vcq.hdl != self.hdl:
            raise ValueError("these descriptors are for another VCQ")
        if number < 0 or self.size + number * self._most > self._room * self._most:
            raise ValueError(f"no room for {number} more descriptors: there are {self.number}, and room for "
                             f"{self._room} (Descriptors(vcq, room=...))")
        return ffi.cast("char *", self._memory) + self.size

    def _add(self, number: int) -> None:
        self.number += number
        self.size += self._written[0]


def has_references(buffer: Buffer) -> bool:
    """Does it hold references to Python objects? They mean nothing in another process, which would follow them.

    >>> has_references(b"ab"), has_references(memoryview(b"O"))
    (False, False)
    """
    of_numpy = getattr(getattr(buffer, "dtype", None), "hasobject", None)
    if of_numpy is not None:
        return bool(of_numpy)
    try:
        with memoryview(buffer) as view:
            return "O" in re.sub(":[^:]*:", "", view.format)  # without the names of fields
    except (BufferError, TypeError, ValueError):  # no buffer, or no format
        return False


def refuse_references(buffer: Buffer) -> None:
    if type(buffer) not in (bytes, bytearray) and has_references(buffer):
        raise TypeError("the buffer holds references to Python objects (dtype=object, or a field of it): "
                        "they mean nothing in another process")


def count_asked(queue: Any, number: int) -> None:
    """A VCQ, or descriptors for one, ask for this number of local MRQ notices more."""
    queue._asked += number


def source_of(buffer: Buffer) -> Any:
    """The bytes of a buffer, for a call that copies them."""
    refuse_references(buffer)
    return ffi.from_buffer("char[]", buffer)


def hold(buffer: Buffer) -> tuple[Any, bool]:
    """The memory of a buffer, and whether it may be written. The buffer is exported until ffi.release()."""
    refuse_references(buffer)
    try:
        return ffi.from_buffer("char[]", buffer, require_writable=True), True
    except (BufferError, TypeError, ValueError):  # each kind of object has its own error for "read-only"
        return ffi.from_buffer("char[]", buffer), False


def address_of(held: Any) -> int:
    return int(ffi.cast("uintptr_t", held))


def aligned(size: int) -> mmap.mmap:
    """Zeroed memory in whole pages: for reg_mem_with_stag(), and for memory that processes of the same node reach
    fastest, as they map it (shared memory that Python's mmap makes otherwise is not mapped).

    >>> len(aligned(100)) % mmap.PAGESIZE
    0
    """
    whole = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
    return mmap.mmap(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def as_unsigned(value: int, bits: int) -> int:
    """A negative number as the word that has its bits.

    >>> hex(as_unsigned(-2, 32))
    '0xfffffffe'
    """
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise OverflowError(f"{value} has no room in {bits} bits")
    return value & ((1 << bits) - 1)


# What a method of StartFunctions refuses.

def refuse_pair(vcq: Any, lcl: Local, rmt: Remote) -> None:
    if vcq.hdl == 0:
        raise ValueError("this VCQ is closed")
    if lcl.hdl == 0:
        raise ValueError("this memory is no longer registered")
    if lcl.hdl != vcq.hdl:
        raise ValueError("the local memory is registered on another VCQ")
    raise ValueError(f"{lcl.size} bytes of local memory, and {rmt.size} of remote memory: at() gives parts")


def check_blocks(vcq: Any, lcl: Local, rmt: Remote, length: int, stride: int, num_blocks: int) -> None:
    if lcl.hdl != vcq.hdl:
        refuse_pair(vcq, lcl, rmt)
    size = (num_blocks - 1) * stride + length if num_blocks > 0 else 0
    if min(length, stride, num_blocks) < 0 or size > lcl.size or size > rmt.size:
        raise ValueError(f"{num_blocks} blocks of {length} bytes at distances of {stride} are not within "
                         f"{lcl.size} bytes of local and {rmt.size} of remote memory")


def refuse_data(size: int, rmt: Remote) -> NoReturn:
    raise ValueError(f"{size} bytes of data, and {rmt.size} of remote memory: at() gives parts")


def refuse_word(rmt: Remote, size: int) -> NoReturn:
    raise ValueError(f"{rmt.size} bytes of remote memory: the word has {size}, at(offset, {size}) gives it")
