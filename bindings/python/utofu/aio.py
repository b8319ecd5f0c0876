# SPDX-License-Identifier: Apache-2.0
"""asyncio: the entries of a VCQ's queues as what a coroutine waits for

The library has no file descriptor for an event loop: a thread sleeps in utofu_wait_vcqs(), and tells the loop.
"""
from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Deque, Generic, Optional, TypeVar, Union

from ._errors import Error, MrqError, TcqError
from ._notice import MrqNotice
from ._vcq import Vcq

T = TypeVar("T")
_AT_ONCE = 256  # entries that are taken before the loop does something else


class _Queue(Generic[T]):
    """Entries that nobody has asked for yet, or the coroutines that wait for some."""

    def __init__(self) -> None:
        self.entries: Deque[Union[T, Error]] = deque()
        self.waiting: Deque[asyncio.Future[None]] = deque()

    def add(self, entry: Union[T, Error]) -> None:
        self.entries.append(entry)
        self.wake()

    def wake(self) -> None:
        while self.waiting:
            future = self.waiting.popleft()
            if not future.done():
                future.set_result(None)
                return

    async def take(self, end: _End) -> T:
        while not self.entries:
            end.check()
            future = asyncio.get_running_loop().create_future()
            self.waiting.append(future)
            try:
                await future
            except asyncio.CancelledError:
                if future.done() and not future.cancelled():
                    self.wake()  # this one does not take the entry that it was told of
                raise
        entry = self.entries.popleft()
        if isinstance(entry, Error):
            raise entry
        return entry


class _End:
    """Why there are no further entries."""

    def __init__(self) -> None:
        self.error: Optional[Error] = None
        self.closed = False

    def check(self) -> None:
        if self.error is not None:
            raise self.error
        if self.closed:
            raise ValueError("this AsyncVcq is closed")


class AsyncVcq:
    """The queues of a VCQ for coroutines of one event loop. Until close(), nobody else polls the VCQ.

    async with AsyncVcq(vcq) as queues:
        vcq.put(memory, peer, flags=OnesidedFlag.LOCAL_MRQ_NOTICE)
        notice = await queues.mrq()
    """

    def __init__(self, vcq: Vcq):
        self.vcq = vcq
        self._loop = asyncio.get_running_loop()
        self._tcq: _Queue[int] = _Queue()
        self._mrq: _Queue[MrqNotice] = _Queue()
        self._end = _End()
        self._drained = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._watch, name=f"utofu-{vcq.hdl:x}", daemon=True)
        self._thread.start()

    async def tcq(self) -> int:
        """The callback data of the next entry of the TCQ. Raises TcqError for an entry with an error."""
        return await self._tcq.take(self._end)

    async def mrq(self) -> MrqNotice:
        """The next notice of the MRQ. Raises MrqError for a notice with an error."""
        return await self._mrq.take(self._end)

    async def close(self) -> None:
        """Ends the thread. Coroutines that wait get a ValueError; entries that nobody has taken are lost."""
        if self._end.closed:
            return
        self._end.closed = True
        self._drained.release()
        if not self.vcq.closed:
            self.vcq.wake()
        await self._loop.run_in_executor(None, self._thread.join)
        self._tell_all()

    async def __aenter__(self) -> AsyncVcq:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def _tell_all(self) -> None:
        while self._tcq.waiting:
            self._tcq.wake()
        while self._mrq.waiting:
            self._mrq.wake()

    def _watch(self) -> None:
        """The thread: sleeps, has the loop poll both queues, and sleeps again."""
        while not self._end.closed and self._end.error is None:
            try:
                self.vcq.wait()
                task = self._drain
            except Error as error:  # the VCQ was freed
                self._end.error = error
                task = self._tell_all
            try:
                self._loop.call_soon_threadsafe(task)
            except RuntimeError:  # the loop was closed
                return
            if self._end.error is None:
                self._drained.acquire()

    def _drain(self) -> None:
        """In the loop: takes what is there. What is left ends the next wait at once."""
        try:
            for _ in range(_AT_ONCE):
                if not self._poll_one():
                    break
        except Error as error:
            self._end.error = error
            self._tell_all()
        self._drained.release()

    def _poll_one(self) -> bool:
        cbdata, notice = None, None
        try:
            cbdata = self.vcq.poll_tcq()
            if cbdata is not None:
                self._tcq.add(cbdata)
        except TcqError as error:
            self._tcq.add(error)
            return True
        try:
            notice = self.vcq.poll_mrq()
            if notice is not None:
                self._mrq.add(notice)
        except MrqError as error:
            self._mrq.add(error)
            return True
        return cbdata is not None or notice is not None
