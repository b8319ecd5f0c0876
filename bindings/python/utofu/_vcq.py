# SPDX-License-Identifier: Apache-2.0
"""VCQs"""
from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Iterable, Optional

from . import _fast
from ._cffi import ffi, lib
from ._constants import MrqType, OnesidedFlag, RegMemFlag, ReturnCode, VcqFlag
from ._errors import check, check_flags, raise_error, raise_mrq, raise_tcq
from ._life import forget, remember
from ._memory import Buffer, Descriptors, Memory, refuse_pair
from ._notice import MrqNotice
from ._start import StartFunctions

if TYPE_CHECKING:
    from ._cffi import CData

_NOT_FOUND = int(ReturnCode.ERR_NOT_FOUND)
_SLICE_US = 100_000  # Python handles signals between two calls


_fast.set_hooks(refuse_pair, raise_error, raise_tcq, raise_mrq, MrqNotice, tuple(MrqType), OnesidedFlag, check_flags)


def deadline(timeout: Optional[float]) -> Optional[float]:
    return None if timeout is None else time.monotonic() + timeout


def slice_of(until: Optional[float]) -> int:
    """Microseconds to sleep at most. Raises TimeoutError where there are none left."""
    if until is None:
        return _SLICE_US
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("nothing came in time")
    return min(_SLICE_US, int(left * 1e6) + 1)


class Vcq(_fast.Vcq, StartFunctions):
    """A VCQ: utofu_create_vcq(). It is freed by close(), at the end of a with statement, or with the last reference to
    it; the registrations of its memory end before that.

    It is thread-safe, as Python runs other threads during calls; thread_safe=False saves some nanoseconds where no
    other thread uses it or a VCQ of the same CQ.

    >>> vcq = Vcq(tni_id=0)
    >>> numbers = bytearray(100)
    >>> with vcq.reg_mem(numbers) as memory:
    ...     numbers.append(1)
    Traceback (most recent call last):
    BufferError: Existing exports of data: object cannot be re-sized
    >>> vcq.close()
    """

    __slots__ = ("tni_id", "_memories", "__weakref__")

    def __init__(self, tni_id: int = 0, flags: VcqFlag = VcqFlag.NONE, *, thread_safe: bool = True):
        self.hdl = 0
        check_flags(flags, VcqFlag)
        hdl = ffi.new("utofu_vcq_hdl_t *")
        if thread_safe:
            flags |= VcqFlag.THREAD_SAFE
        check(lib.utofu_create_vcq(tni_id, flags, hdl), "utofu_create_vcq")
        self._own(hdl[0], tni_id)

    @classmethod
    def with_cmp_id(cls, tni_id: int, cmp_id: int, flags: VcqFlag = VcqFlag.NONE, *, thread_safe: bool = True) -> Vcq:
        """A VCQ with a component id: utofu_create_vcq_with_cmp_id()."""
        check_flags(flags, VcqFlag)
        hdl = ffi.new("utofu_vcq_hdl_t *")
        if thread_safe:
            flags |= VcqFlag.THREAD_SAFE
        check(lib.utofu_create_vcq_with_cmp_id(tni_id, cmp_id, flags, hdl), "utofu_create_vcq_with_cmp_id")
        return cls.adopt(hdl[0])

    @classmethod
    def adopt(cls, hdl: int) -> Vcq:
        """Becomes the owner of a VCQ that C has created."""
        vcq = cls.__new__(cls)
        vcq.hdl = 0
        vcq_id = ffi.new("utofu_vcq_id_t *")
        place = ffi.new("uint8_t[6]"), ffi.new("uint16_t[3]")
        check(lib.utofu_query_vcq_id(hdl, vcq_id), "utofu_query_vcq_id")
        check(lib.utofu_query_vcq_info(vcq_id[0], place[0], place[1], place[1] + 1, place[1] + 2),
              "utofu_query_vcq_info")
        vcq._own(hdl, place[1][0])
        return vcq

    def _own(self, hdl: int, tni_id: int) -> None:
        self.hdl, self.tni_id = hdl, tni_id
        self._memories: dict[int, Memory] = {}
        remember(self)

    def release(self) -> int:
        """No longer the owner: returns the handle, for C. Memory that is registered has to be closed before."""
        if self._memories:
            raise ValueError(f"{len(self._memories)} Memory objects are registered: close() them first")
        forget(self)
        hdl, self.hdl = self.hdl, 0
        return hdl

    @property
    def closed(self) -> bool:
        return self.hdl == 0

    def close(self) -> None:
        """Ends the registrations of memory, and frees the VCQ: utofu_free_vcq(). Nothing happens the second time."""
        hdl, self.hdl = self.hdl, 0
        if hdl == 0:
            return
        forget(self)
        memories = list(self._memories.values())
        self._memories.clear()
        codes = [lib.utofu_dereg_mem(hdl, memory.stadd, 0) for memory in memories]
        rc = lib.utofu_free_vcq(hdl)
        for memory in memories:  # only now, as a registration that does not end otherwise ends with the VCQ
            memory._release()
        check(rc, "utofu_free_vcq")
        for code in codes:
            check(code, "utofu_dereg_mem")

    def _take(self, memory: Memory) -> bool:
        return self._memories.pop(id(memory), None) is not None

    def _give(self, memory: Memory) -> None:
        self._memories[id(memory)] = memory

    def _forget(self) -> None:
        """In a child made by fork()."""
        self.hdl = 0
        for memory in self._memories.values():
            memory._forget()
        self._memories.clear()

    def __enter__(self) -> Vcq:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self.hdl:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self)
            self.close()

    def __repr__(self) -> str:
        return "<utofu.Vcq, closed>" if self.closed else f"<utofu.Vcq {self.hdl:#x} on TNI {self.tni_id}>"

    def query_vcq_id(self) -> int:
        vcq_id = ffi.new("utofu_vcq_id_t *")
        check(lib.utofu_query_vcq_id(self.hdl, vcq_id), "utofu_query_vcq_id")
        return int(vcq_id[0])

    # -- memory --

    def reg_mem(self, buffer: Buffer, flags: RegMemFlag = RegMemFlag.NONE) -> Memory:
        """Registers a NumPy array, or whatever has the buffer protocol and lies in one piece: utofu_reg_mem().

        Memory that cannot be written, of bytes for instance, is registered with READ_ONLY.
        """
        return self._registered(Memory(self, buffer, flags, None))

    def reg_mem_with_stag(self, buffer: Buffer, stag: int, flags: RegMemFlag = RegMemFlag.NONE) -> Memory:
        """The same with an STag: utofu_reg_mem_with_stag(). aligned() gives memory for it."""
        return self._registered(Memory(self, buffer, flags, stag))

    def _registered(self, memory: Memory) -> Memory:
        self._give(memory)
        return memory

    # -- completion --

    def post_toq(self, descriptors: Descriptors, cbdata: int = 0) -> None:
        """Submits prepared descriptors: utofu_post_toq()."""
        rc = lib.start_post_toq(self.hdl, descriptors._memory, descriptors.size, cbdata)
        if rc:
            raise_error(rc, "utofu_post_toq")
        self._asked += descriptors._asked

    def wait_tcq(self, timeout: Optional[float] = None) -> int:
        """As poll_tcq(), and waits for it: polls for some microseconds, then sleeps. Raises TimeoutError after timeout
        seconds. An entry of the other queue, if nobody polls it, keeps it from sleeping."""
        until = deadline(timeout)
        while True:
            found = self._wait_tcq(slice_of(until))
            if found is not None:
                return found

    def wait_mrq(self, timeout: Optional[float] = None) -> MrqNotice:
        """As poll_mrq(), and waits for it, as wait_tcq() does. TimeoutError says whether a communication under way
        asked for a notice."""
        until = deadline(timeout)
        while True:
            try:
                limit = slice_of(until)
            except TimeoutError:
                raise TimeoutError(f"no notice came within {timeout} s; {self._notices_to_come()}") from None
            notice = self._wait_mrq(limit)
            if notice is not None:
                return notice

    def _notices_to_come(self) -> str:
        if self._asked == 0:
            return ("no communication of this VCQ that is under way asked for one "
                    "(flags=OnesidedFlag.LOCAL_MRQ_NOTICE): only a peer's communication with REMOTE_MRQ_NOTICE ends "
                    "this wait")
        number = f"{self._asked} communications" if self._asked > 1 else "1 communication"
        return f"{number} of this VCQ under way asked for one (LOCAL_MRQ_NOTICE)"

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Sleeps until there is something to poll: wait_vcqs() of this one."""
        return wait_vcqs([self], timeout)

    def wake(self) -> None:
        """Ends the waits of other threads for this VCQ, or the next one: utofu_wake_vcq()."""
        check(lib.utofu_wake_vcq(self.hdl), "utofu_wake_vcq")

    def query_num_unread_tcq(self) -> int:
        count = ffi.new("size_t *")
        check(lib.utofu_query_num_unread_tcq(self.hdl, count), "utofu_query_num_unread_tcq")
        return int(count[0])

    def query_num_unread_mrq(self) -> int:
        count = ffi.new("size_t *")
        check(lib.utofu_query_num_unread_mrq(self.hdl, count), "utofu_query_num_unread_mrq")
        return int(count[0])


def wait_vcqs(vcqs: Iterable[Vcq], timeout: Optional[float] = None) -> bool:
    """Sleeps until one of the VCQs has something to poll: utofu_wait_vcqs(). False: nothing came within timeout
    seconds. Without a timeout there is no limit."""
    hdls = ffi.new("utofu_vcq_hdl_t[]", [vcq.hdl for vcq in vcqs])
    if timeout == 0:
        return _wait_once(hdls, 0)
    until = deadline(timeout)
    while True:
        try:
            limit = slice_of(until)
        except TimeoutError:
            return False
        if _wait_once(hdls, limit):
            return True


def _wait_once(hdls: CData, limit: int) -> bool:
    rc = lib.utofu_wait_vcqs(hdls, len(hdls), limit)
    if rc and rc != _NOT_FOUND:
        raise_error(rc, "utofu_wait_vcqs")
    return rc == 0
