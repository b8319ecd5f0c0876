# SPDX-License-Identifier: Apache-2.0
"""Barrier gates"""
from __future__ import annotations

from typing import Any, Iterable, Optional, Sequence

from ._cffi import ffi, lib
from ._constants import ReduceOp, ReturnCode, VbgFlag, VbgSetting
from ._errors import check, check_flags, raise_error
from ._life import forget, remember
from ._vcq import deadline, slice_of

_NOT_COMPLETED = int(ReturnCode.ERR_NOT_COMPLETED)
_POLLS = 1000


class Vbg:
    """Barrier gates of a TNI: utofu_alloc_vbg(). The first one is the start/end gate. They are freed by close(), at the
    end of a with statement, or with the last reference. set_vbg() wires them.

    >>> with Vbg() as gate:
    ...     gate.set_vbg([VbgSetting(gate.id)])      # a circuit of one process: its own value
    ...     gate.reduce_double(ReduceOp.BFPSUM, [1.5, 2])
    ...     gate.wait_reduce_double()
    [1.5, 2.0]
    """

    __slots__ = ("ids", "_values", "__weakref__")

    def __init__(self, tni_id: int = 0, num_vbgs: int = 1, flags: VbgFlag = VbgFlag.NONE, *, thread_safe: bool = True):
        self.ids: tuple[int, ...] = ()
        ids = ffi.new("utofu_vbg_id_t[]", num_vbgs)
        check_flags(flags, VbgFlag)
        if thread_safe:
            flags |= VbgFlag.THREAD_SAFE
        check(lib.utofu_alloc_vbg(tni_id, num_vbgs, flags, ids), "utofu_alloc_vbg")
        self.ids = tuple(ids)
        self._values = 0
        remember(self)

    @property
    def id(self) -> int:
        """The start/end gate."""
        if not self.ids:
            raise ValueError("these gates are closed")
        return self.ids[0]

    @property
    def closed(self) -> bool:
        return not self.ids

    def close(self) -> None:
        """utofu_free_vbg(). Nothing happens the second time."""
        ids, self.ids = self.ids, ()
        if ids:
            forget(self)
            check(lib.utofu_free_vbg(ffi.new("utofu_vbg_id_t[]", list(ids)), len(ids)), "utofu_free_vbg")

    def _forget(self) -> None:
        """In a child made by fork()."""
        self.ids = ()

    def __enter__(self) -> Vbg:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<utofu.Vbg {', '.join(f'{gate:#x}' for gate in self.ids) or 'closed'}>"

    def set_vbg(self, settings: Iterable[VbgSetting]) -> None:
        """Some of the gates or all of them, the start/end gate first: utofu_set_vbg()."""
        rows = [setting._asdict() for setting in settings]
        check(lib.utofu_set_vbg(ffi.new("struct utofu_vbg_setting[]", rows), len(rows)), "utofu_set_vbg")

    # -- start: raise Busy while the one before is not at its end --

    def barrier(self) -> None:
        check(lib.utofu_barrier(self.id, 0), "utofu_barrier")

    def reduce_uint64(self, op: ReduceOp, values: Sequence[int]) -> None:
        data = ffi.new("uint64_t[]", [int(value) for value in values])
        check(lib.utofu_reduce_uint64(self.id, op, data, len(data), 0), "utofu_reduce_uint64")
        self._values = len(data)

    def reduce_double(self, op: ReduceOp, values: Sequence[float]) -> None:
        data = ffi.new("double[]", [float(value) for value in values])
        check(lib.utofu_reduce_double(self.id, op, data, len(data), 0), "utofu_reduce_double")
        self._values = len(data)

    # -- poll: False or None while it is not complete --

    def poll_barrier(self) -> bool:
        return _is_complete(lib.utofu_poll_barrier(self.id, 0), "utofu_poll_barrier")

    def poll_reduce_uint64(self) -> Optional[list[int]]:
        data = self._room("uint64_t[]")
        done = _is_complete(lib.utofu_poll_reduce_uint64(self.id, 0, data), "utofu_poll_reduce_uint64")
        return list(data[0:self._values]) if done else None

    def poll_reduce_double(self) -> Optional[list[float]]:
        data = self._room("double[]")
        done = _is_complete(lib.utofu_poll_reduce_double(self.id, 0, data), "utofu_poll_reduce_double")
        return list(data[0:self._values]) if done else None

    # -- wait: TimeoutError after timeout seconds --

    def wait_barrier(self, timeout: Optional[float] = None) -> None:
        until = deadline(timeout)
        while not _is_complete(lib.wait_barrier(self.id, _POLLS), "utofu_poll_barrier"):
            slice_of(until)

    def wait_reduce_uint64(self, timeout: Optional[float] = None) -> list[int]:
        data, until = self._room("uint64_t[]"), deadline(timeout)
        while not _is_complete(lib.wait_reduce_uint64(self.id, _POLLS, data), "utofu_poll_reduce_uint64"):
            slice_of(until)
        return list(data[0:self._values])

    def wait_reduce_double(self, timeout: Optional[float] = None) -> list[float]:
        data, until = self._room("double[]"), deadline(timeout)
        while not _is_complete(lib.wait_reduce_double(self.id, _POLLS, data), "utofu_poll_reduce_double"):
            slice_of(until)
        return list(data[0:self._values])

    def _room(self, kind: str) -> Any:
        """For the result of the reduction that was started last; never NULL."""
        return ffi.new(kind, max(self._values, 1))


def _is_complete(rc: int, call: str) -> bool:
    if rc and rc != _NOT_COMPLETED:
        raise_error(rc, call)
    return rc == 0
