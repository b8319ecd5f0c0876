# SPDX-License-Identifier: Apache-2.0
"""How the processes of a job learn each other's ids, by uTofu alone

The id of a VCQ with a component id follows from the coordinates of its process, and the STADD of memory with an STag
from the id: so every process can put to rank 0, which sends to all what all have sent. With MPI this is not needed:
what allgather() takes can be given to mpi4py's allgather(), too.
"""
from __future__ import annotations

import json
import os
import struct
import time
from typing import Any, Optional

from ._constants import MrqType, OnesidedFlag, ReturnCode
from ._errors import Busy, MrqError
from ._memory import Remote, aligned
from ._notice import MrqNotice
from ._query import construct_vcq_id, query_job, query_rank_node, query_stadd
from ._vcq import Vcq

_STAG = 255
_ROW = 512                             # bytes from each process in a round
_HEAD = struct.Struct("<QQQ")          # VCQ id, size of the whole text, round
_TEXT = _ROW - _HEAD.size
_PROBE_SECONDS = 1.0                   # between two questions to a process that is waited for
_PROBE = 64                            # more than a word, which may be read without the process
_NOTICES = OnesidedFlag.LOCAL_MRQ_NOTICE | OnesidedFlag.REMOTE_MRQ_NOTICE


class Meeting:
    """The processes of the job, started by utofurun, mpirun, mpiexec or srun: each of them makes one.

    with Meeting() as meeting:
        peers = meeting.allgather(memory.remote)    # of all ranks

    It uses a VCQ of its own, on the first CQ of TNI 0 with component id cmp_id. Each process waits up to timeout
    seconds (None: UTOFU_JOB_TIMEOUT, or 60) for the others to make theirs; a process that ends is noticed: MrqError.
    allgather(), barrier() and close() are called by all processes in the same order.

    >>> with Meeting() as meeting:
    ...     meeting.rank, meeting.size, meeting.allgather({"size": 100, "memory": Remote(1, 2, 3)})
    (0, 1, [{'size': 100, 'memory': Remote(peer=0x1, stadd=0x2, size=3)}])
    """

    def __init__(self, cmp_id: int = 0, timeout: Optional[float] = None):
        job = query_job()
        self.rank, self.size = job.rank, job.size
        self._timeout = timeout if timeout is not None else float(os.environ.get("UTOFU_JOB_TIMEOUT") or 60)
        self._round = 0
        self._early: list[MrqNotice] = []
        self._vcq = Vcq.with_cmp_id(0, cmp_id)
        self._id = self._vcq.query_vcq_id()
        # rows that come; rows that are sent, all to all or one to rank 0; what probes read, and where to
        self._table_size = _ROW * self.size
        self._buffer = aligned(2 * self._table_size + 2 * _PROBE)
        self._memory = self._vcq.reg_mem_with_stag(self._buffer, _STAG)
        coords = query_rank_node(0).coords
        self._peers: dict[int, int] = {0: construct_vcq_id(coords, 0, 0, cmp_id)}  # by rank, as far as known

    def close(self) -> None:
        """Waits for all processes."""
        if not self._vcq.closed:
            self.barrier()
            self._vcq.close()

    def __enter__(self) -> Meeting:
        return self

    def __exit__(self, kind: Optional[type], *error: object) -> None:
        if kind is None:
            self.close()
        else:  # the others do not come to a barrier that this process leaves out
            self._vcq.close()

    def barrier(self) -> None:
        self.allgather(None)

    def allgather(self, value: Any) -> list[Any]:
        """The values of all ranks: whatever JSON has, bytes, and Remote. A tuple becomes a list."""
        text = json.dumps(value, default=_encode).encode()
        parts: list[list[bytes]] = [[] for _ in range(self.size)]
        sent, most = 0, 1
        while sent < most:
            most = max(self._exchange(text, sent, parts), 1)
            sent += _TEXT
        return [json.loads(b"".join(part), object_hook=_decode) for part in parts]

    def _exchange(self, text: bytes, start: int, parts: list[list[bytes]]) -> int:
        """One round: a row of each process. Returns the size of the longest text."""
        self._round += 1
        row = _HEAD.pack(self._id, len(text), self._round) + text[start:start + _TEXT].ljust(_TEXT, b"\0")
        if self.rank == 0:
            self._collect_and_answer(row)
        else:
            self._send_row(row)
            self._wait_for_remote(1, [0])
        longest = 0
        rows = self._rows()
        for rank in range(self.size):
            got = rows[rank * _ROW:(rank + 1) * _ROW]
            self._peers[rank], size, number = _HEAD.unpack_from(got)
            if number != self._round:
                raise RuntimeError(f"rank {rank} is at exchange {number} of the meeting, and this process at "
                                   f"{self._round}: all processes have to call the same functions")
            parts[rank].append(got[_HEAD.size:_HEAD.size + max(0, min(_TEXT, size - start))])
            longest = max(longest, size)
        return longest

    def _rows(self) -> bytes:
        """Of this round. In rank 0, where rows of the next one may have arrived, those that it has sent to all."""
        at = self._table_size if self.rank == 0 else 0
        return self._buffer[at:at + self._table_size]

    def _send_row(self, row: bytes) -> None:
        """Rank 0 may not have registered its memory yet: then the put fails, and is repeated."""
        at = self._table_size
        self._buffer[at:at + _ROW] = row
        until = time.monotonic() + self._timeout
        while True:
            try:
                self._put(at, _ROW, 0, self.rank * _ROW)
                return
            except MrqError as error:
                wait = error.code in (ReturnCode.ERR_MRQ_RMT_STADD, ReturnCode.ERR_MRQ_PEER) and self._round == 1
                if not wait or time.monotonic() > until:
                    raise
                time.sleep(0.001)

    def _collect_and_answer(self, row: bytes) -> None:
        others = range(1, self.size)
        self._wait_for_remote(len(others), [rank for rank in others if rank in self._peers])
        self._buffer[:_ROW] = row
        at = self._table_size
        self._buffer[at:at + self._table_size] = self._buffer[:self._table_size]
        for rank in others:
            self._peers[rank] = _HEAD.unpack_from(self._buffer, at + rank * _ROW)[0]
            self._put(at, self._table_size, rank, 0)

    def _put(self, source: int, size: int, rank: int, target: int) -> None:
        """Puts, and waits until it has arrived."""
        remote = query_stadd(self._peers[rank], _STAG, 2 * self._table_size + 2 * _PROBE).at(target, size)
        while True:
            try:
                self._vcq.put(self._memory.at(source, size), remote, flags=_NOTICES)
                break
            except Busy:
                self._vcq.poll_tcq()
        while True:
            notice = self._vcq.wait_mrq()
            if notice.notice_type == MrqType.LCL_PUT:
                return
            self._early.append(notice)

    def _wait_for_remote(self, number: int, ranks: list[int]) -> None:
        """Waits for puts of others, and asks from time to time whether these ranks are alive."""
        until = time.monotonic() + self._timeout
        while number > 0:
            if self._early:
                number -= self._early.pop().notice_type == MrqType.RMT_PUT
                continue
            try:
                number -= self._vcq.wait_mrq(_PROBE_SECONDS).notice_type == MrqType.RMT_PUT
            except TimeoutError:
                if self._round == 1 and time.monotonic() > until:
                    raise TimeoutError(f"{number} of {self.size} processes have not come to the meeting in "
                                       f"{self._timeout} seconds (UTOFU_JOB_TIMEOUT)") from None
                self._probe(ranks)

    def _probe(self, ranks: list[int]) -> None:
        """Reads memory of these ranks: MrqError if one of them has ended."""
        place = 2 * self._table_size
        for rank in ranks:
            remote = query_stadd(self._peers[rank], _STAG, place + _PROBE).at(place, _PROBE)
            try:
                self._vcq.get(self._memory.at(place + _PROBE, _PROBE), remote, flags=OnesidedFlag.LOCAL_MRQ_NOTICE)
            except Busy:
                self._vcq.poll_tcq()


def _encode(value: Any) -> dict[str, Any]:
    if isinstance(value, Remote):
        return {"utofu.Remote": [value.peer, value.stadd, value.size]}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"utofu.bytes": bytes(value).hex()}
    raise TypeError(f"{type(value).__name__} cannot be sent: JSON does not have it")


def _decode(value: dict[str, Any]) -> Any:
    if value.keys() == {"utofu.Remote"}:
        return Remote(*value["utofu.Remote"])
    if value.keys() == {"utofu.bytes"}:
        return bytes.fromhex(value["utofu.bytes"])
    return value
