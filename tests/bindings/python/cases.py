#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The main cases of the API by way of the package utofu, between two processes

usage: utofurun -n 2 cases.py [CASE...]
       utofurun -n 2 cases.py --twin CASE     the case with a binding that is wrong (TWINS): it has to fail

What the library does with a call is tested elsewhere; here it is that each function of the binding makes the right
call, and what becomes of its result.
"""
import itertools
import os
import sys
import time

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)

import utofu
from utofu import ArmwOp, MrqType, OnesidedFlag as F, ReduceOp, ReturnCode

ALL = F.TCQ_NOTICE | F.LOCAL_MRQ_NOTICE | F.REMOTE_MRQ_NOTICE
WAIT = 60 * float(os.environ.get("UT_TEST_TIMEOUT_SCALE", "1"))  # what is waited for comes, or the test has failed
meeting = None


def refuses(kind, words, call):
    """The exception of a call that has to raise this one, with these words in its text."""
    try:
        call()
    except kind as error:
        assert words in str(error), f"'{error}' does not say '{words}'"
        return error
    raise AssertionError(f"a call does not raise {kind.__name__}: {words}")


def fails(code, name, call):
    error = refuses(utofu.Error, f"UTOFU_{code.name} ({int(code)})", call)
    assert (error.code, error.name, error.call) == (code, "UTOFU_" + code.name, name), error.__dict__
    return error


def source(rank, at):
    return (rank + 1) * 1000 + at


class End:
    """A VCQ with 512 words; words from 256 on are written by the other process."""

    def __init__(self, flags=utofu.VcqFlag.NONE):
        self.words = np.zeros(512, np.uint64)
        self.words[:256] = [source(meeting.rank, i) for i in range(256)]
        self.vcq = utofu.Vcq(0, flags)
        self.memory = self.vcq.reg_mem(self.words)
        self.peer = meeting.allgather(self.memory.remote)[1 - meeting.rank]

    def __enter__(self):
        return self

    def __exit__(self, kind, *error):
        if kind is None:
            meeting.barrier()
            self.memory.close()
            self.vcq.close()

    def lcl(self, at, count):
        return self.memory.of(self.words[at:at + count])

    def rmt(self, at, count):
        return self.peer.at(8 * at, 8 * count)

    def finish(self, lcl, rmt, n, at, count):
        """Both ends of communication number n: notices, TCQ entry and data, in count words from at on."""
        wanted = {lcl, rmt}
        while wanted:
            notice = self.vcq.wait_mrq(WAIT)
            assert notice.vcq_id == self.peer.peer and notice.edata == n, notice
            wanted.remove(notice.notice_type)
            if notice.notice_type == MrqType.RMT_PUT:
                assert notice.rmt_stadd == self.memory.stadd + 8 * (at + count), notice
        assert self.vcq.wait_tcq(WAIT) == 100 + n
        got = self.words[at:at + count]
        assert (got == [source(1 - meeting.rank, at - 256 + i) for i in range(count)]).all(), got
        self.words[256:] = 0
        meeting.barrier()


def put_moves_memory():
    with End() as end:
        numbers = itertools.count(1)

        def done(n, at, count):
            end.finish(MrqType.LCL_PUT, MrqType.RMT_PUT, n, 256 + at, count)

        n = next(numbers)
        end.vcq.put(end.lcl(3, 5), end.rmt(259, 5), n, ALL, 100 + n)
        done(n, 3, 5)
        n = next(numbers)
        end.vcq.put_gap(end.lcl(0, 7), end.rmt(256, 7), n, ALL, mtu=256, gap=3, cbdata=100 + n)
        done(n, 0, 7)
        n = next(numbers)
        end.vcq.put_stride(end.lcl(1, 2), end.rmt(257, 2), 16, 80, 1, n, ALL, 100 + n)
        done(n, 1, 2)
        n = next(numbers)
        end.vcq.put_stride_gap(end.lcl(1, 2), end.rmt(257, 2), 16, 80, 1, n, ALL, gap=1, cbdata=100 + n)
        done(n, 1, 2)
        n = next(numbers)
        end.vcq.put_piggyback(end.words[9:12].tobytes(), end.rmt(265, 3), n, ALL, 100 + n)
        done(n, 9, 3)
        n = next(numbers)
        end.vcq.put_piggyback8(int(end.words[200]), end.rmt(456, 1), n, ALL, 100 + n)
        done(n, 200, 1)
        # the path is that of the id, named otherwise
        path = utofu.get_path_id(end.peer.peer, utofu.get_path_coords(end.peer.peer, utofu.get_path_id(end.peer.peer)))
        n = next(numbers)
        end.vcq.put(end.lcl(0, 1), end.rmt(256, 1), n, ALL | F.STRONG_ORDER | F.path(path), 100 + n)
        done(n, 0, 1)


def strides_are_in_bytes():
    with End() as end:
        end.vcq.put_stride(end.lcl(0, 61), end.rmt(256, 61), 8, 160, 4, flags=F.REMOTE_MRQ_NOTICE)
        for _ in range(4):
            assert end.vcq.wait_mrq(WAIT).notice_type == MrqType.RMT_PUT
        for i in range(80):
            assert end.words[256 + i] == (source(1 - meeting.rank, i) if i % 20 == 0 else 0)
        refuses(ValueError, "4 blocks", lambda: end.vcq.put_stride(end.lcl(0, 60), end.rmt(256, 61), 8, 160, 4))
        refuses(ValueError, "4 blocks", lambda: end.vcq.get_stride(end.lcl(0, 61), end.rmt(256, 60), 8, 160, 4))


def get_brings_memory():
    with End() as end:
        def done(n, at, count):
            end.finish(MrqType.LCL_GET, MrqType.RMT_GET, n, 256 + at, count)

        end.vcq.get(end.lcl(259, 5), end.rmt(3, 5), 1, ALL, 101)
        done(1, 3, 5)
        end.vcq.get_gap(end.lcl(256, 7), end.rmt(0, 7), 2, ALL, cbdata=102)
        done(2, 0, 7)
        end.vcq.get_stride(end.lcl(257, 2), end.rmt(1, 2), 16, 80, 1, 3, ALL, 103)
        done(3, 1, 2)
        end.vcq.get_stride_gap(end.lcl(257, 2), end.rmt(1, 2), 16, 80, 1, 4, ALL, cbdata=104)
        done(4, 1, 2)


def change_words(bits):
    with End() as end:
        word = end.peer.at(8 * 300, bits // 8)
        start = {"armw": getattr(end.vcq, f"armw{bits // 8}"), "cswap": getattr(end.vcq, f"cswap{bits // 8}")}
        now = 0

        def change(what, first, second, result):
            nonlocal now
            start[what](word, first, second, 9, F.LOCAL_MRQ_NOTICE)
            notice = end.vcq.wait_mrq(WAIT)
            assert (notice.notice_type, notice.edata) == (MrqType.LCL_ARMW, 9)
            assert notice.rmt_value == now % (1 << bits), (what, first, second, notice)
            now = result

        change("armw", ArmwOp.ADD, 7, 7)
        change("armw", ArmwOp.ADD, -2, 5)  # wraps around
        change("armw", ArmwOp.XOR, 6, 3)
        change("armw", ArmwOp.OR, 8, 11)
        change("armw", ArmwOp.AND, 9, 9)
        change("armw", ArmwOp.SWAP, -3, -3)
        change("cswap", 4, 1, -3)
        change("cswap", -3, 1, 1)
        meeting.barrier()
        assert end.words[300] == 1  # and the neighbour of 4 bytes is as it was
        meeting.barrier()
        refuses(ValueError, f"the word has {bits // 8}", lambda: start["armw"](end.peer.at(0, 6), ArmwOp.ADD, 1))
        refuses(OverflowError, f"{bits} bits", lambda: start["armw"](word, ArmwOp.ADD, 1 << bits))


def armw_is_of_4_or_8_bytes():
    change_words(32)
    change_words(64)


def prepared_descriptors_are_posted_again_and_again():
    with End() as end:
        vcq, to = end.vcq, utofu.Descriptors(end.vcq, 13)
        vcq.prepare_put(to, end.lcl(0, 2), end.rmt(256, 2))
        vcq.prepare_put_gap(to, end.lcl(10, 2), end.rmt(266, 2), gap=2)
        vcq.prepare_put_stride(to, end.lcl(20, 4), end.rmt(276, 4), 8, 24, 2)
        vcq.prepare_put_piggyback(to, end.words[40:42], end.rmt(296, 2))
        vcq.prepare_put_piggyback8(to, int(end.words[50]), end.rmt(306, 1))
        vcq.prepare_get(to, end.lcl(316, 2), end.rmt(60, 2), 3, F.LOCAL_MRQ_NOTICE)
        vcq.prepare_armw4(to, end.peer.at(8 * 500, 4), ArmwOp.ADD, 5)
        vcq.prepare_armw8(to, end.rmt(501, 1), ArmwOp.ADD, -1)
        vcq.prepare_cswap8(to, end.rmt(501, 1), -2, 100)
        vcq.prepare_nop(to)
        vcq.prepare_put_piggyback8(to, 77, end.peer.at(8 * 346, 1), 3,
                                   F.STRONG_ORDER | F.REMOTE_MRQ_NOTICE | F.LOCAL_MRQ_NOTICE)
        assert to.number == 12
        for _ in range(2):
            vcq.post_toq(to, 12345)
            for _ in range(3):
                assert vcq.wait_mrq(WAIT).edata == 3
        meeting.barrier()
        for i in (0, 1, 10, 11, 20, 23, 40, 41, 50, 60, 61):
            assert end.words[256 + i] == source(1 - meeting.rank, i), i
        assert list(end.words[[346, 500, 501, 277]]) == [77, 10, 100, 0]
        meeting.barrier()
        to.clear()  # the others, and no room for more
        vcq.prepare_put_stride_gap(to, end.lcl(0, 3), end.rmt(256, 3), 8, 16, 2)
        vcq.prepare_get_gap(to, end.lcl(256, 1), end.rmt(0, 1))
        vcq.prepare_get_stride(to, end.lcl(256, 3), end.rmt(0, 3), 8, 16, 2)
        vcq.prepare_get_stride_gap(to, end.lcl(256, 3), end.rmt(0, 3), 8, 16, 2)
        vcq.prepare_cswap4(to, end.peer.at(8 * 500, 4), 1, 2, flags=F.TCQ_NOTICE)
        vcq.post_toq(to, 1 << 63)
        assert vcq.wait_tcq(WAIT) == 1 << 63  # as great as a pointer may be
        size = to.size
        refuses(ValueError, "no room", lambda: vcq.prepare_put_stride(to, end.lcl(0, 61), end.rmt(256, 61), 8, 40, 6))
        assert (to.size, to.number) == (size, 8)
        with utofu.Vcq() as other:
            refuses(ValueError, "for another VCQ", lambda: other.prepare_nop(to))


def session_starts_what_waits():
    with End(utofu.VcqFlag.SESSION_MODE) as end, End() as free:
        # waits for the other process's put
        end.vcq.put(end.lcl(5, 3), end.rmt(261, 3), 8, F.TCQ_NOTICE | F.REMOTE_MRQ_NOTICE, 108)
        assert end.vcq.poll_tcq() is None
        meeting.barrier()
        assert end.vcq.poll_tcq() is None and end.vcq.poll_mrq() is None
        meeting.barrier()
        free.vcq.put(free.lcl(0, 1), end.rmt(400, 1), flags=F.sps(1))
        notice = end.vcq.wait_mrq(WAIT)
        assert (notice.notice_type, notice.edata) == (MrqType.RMT_PUT, 8)
        assert end.words[261] == source(1 - meeting.rank, 5)
        assert end.vcq.wait_tcq(WAIT) == 108


def barriers_and_reductions_complete():
    gate = utofu.Vbg(utofu.get_barrier_tnis()[0])
    theirs = meeting.allgather(gate.id)[1 - meeting.rank]
    gate.set_vbg([utofu.VbgSetting(gate.id, gate.id, theirs, gate.id, theirs)])
    meeting.barrier()
    pair = [10 + meeting.rank, meeting.rank]
    for _ in range(3):
        gate.barrier()
        gate.wait_barrier(WAIT)
        gate.reduce_uint64(ReduceOp.MAXLOC, pair)
        assert gate.wait_reduce_uint64(WAIT) == [11, 1]
        gate.reduce_double(ReduceOp.BFPSUM, np.array([1.5 + meeting.rank]))
        while (result := gate.poll_reduce_double()) is None:
            os.sched_yield()
        assert result == [4.0]
    refuses(utofu.Busy, "UTOFU_ERR_BUSY", gate.poll_barrier)
    fails(ReturnCode.ERR_INVALID_OP, "utofu_reduce_double", lambda: gate.reduce_double(ReduceOp.SUM, [1]))
    gate.reduce_uint64(ReduceOp.SUM, pair)
    refuses(utofu.Busy, "UTOFU_ERR_BUSY", lambda: gate.reduce_uint64(ReduceOp.SUM, pair))  # polled to its end first
    while (result := gate.poll_reduce_uint64()) is None:
        os.sched_yield()
    assert result == [21, 1]
    gate.barrier()
    while not gate.poll_barrier():
        os.sched_yield()
    assert utofu.query_vbg_info(gate.id).coords == utofu.query_my_coords()
    meeting.barrier()
    gate.close()
    gate.close()
    assert gate.closed
    refuses(ValueError, "closed", gate.barrier)
    meeting.barrier()


def errors_have_code_name_and_text():
    fails(ReturnCode.ERR_INVALID_TNI_ID, "utofu_create_vcq", lambda: utofu.Vcq(77))
    fails(ReturnCode.ERR_INVALID_FLAGS, "utofu_create_vcq", lambda: utofu.Vcq(0, utofu.VcqFlag(1 << 40)))
    with End() as end:
        vcq, one, two = end.vcq, end.rmt(256, 1), end.rmt(256, 2)
        fails(ReturnCode.ERR_INVALID_EDATA, "utofu_put", lambda: vcq.put(end.lcl(0, 1), one, 256))
        fails(ReturnCode.ERR_INVALID_SIZE, "utofu_put_piggyback", lambda: vcq.put_piggyback(bytes(4000),
                                                                                            end.rmt(0, 500)))
        fails(ReturnCode.ERR_INVALID_SIZE, "utofu_reg_mem", lambda: vcq.reg_mem(b""))
        refuses(ValueError, "8 bytes of local memory, and 16", lambda: vcq.put(end.lcl(0, 1), two))
        refuses(ValueError, "8 bytes of local memory, and 16", lambda: vcq.get(end.lcl(0, 1), two))
        refuses(ValueError, "3 bytes of data, and 8", lambda: vcq.put_piggyback(b"abc", one))
        refuses(OverflowError, "", lambda: vcq.put(end.lcl(0, 1), one, -1))
        refuses(OverflowError, "", lambda: vcq.put(end.lcl(0, 1), one, cbdata=1 << 64))
        refuses(ValueError, "not within", lambda: end.memory.at(4095, 2))
        with utofu.Vcq() as other:
            refuses(ValueError, "registered on another VCQ", lambda: other.put(end.lcl(0, 1), one))
        assert vcq.poll_mrq() is None and vcq.poll_tcq() is None  # no entry is no error
        refuses(TimeoutError, "", lambda: vcq.wait_mrq(0.001))
        # what the communication was, and the text of its failure
        beyond = utofu.Remote(end.peer.peer, end.peer.stadd + 8 * 511, 16)
        vcq.put(end.lcl(0, 2), beyond, 44)
        error = refuses(utofu.MrqError, "put of 16 bytes", lambda: vcq.wait_mrq(WAIT))
        assert error.code == ReturnCode.ERR_MRQ_RMT_LENGTH and error.call == "utofu_poll_mrq"
        assert (error.notice.edata, error.notice.notice_type) == (44, MrqType.LCL_PUT)
        part = end.lcl(0, 1)
        part.stadd = 0
        vcq.put(part, one, cbdata=(1 << 64) - 3)
        error = refuses(utofu.TcqError, "UTOFU_ERR_TCQ_STADD (-131): ", lambda: vcq.wait_tcq(WAIT))
        assert error.code == ReturnCode.ERR_TCQ_STADD and error.cbdata == (1 << 64) - 3
        assert utofu.get_last_error() == str(error)
        meeting.barrier()
    fails(ReturnCode.ERR_INVALID_VCQ_HDL, "utofu_poll_mrq", vcq.poll_mrq)
    fails(ReturnCode.ERR_INVALID_VCQ_HDL, "utofu_poll_tcq", vcq.poll_tcq)
    fails(ReturnCode.ERR_INVALID_VCQ_HDL, "utofu_put", lambda: vcq.put(end.memory, end.peer))
    refuses(ValueError, "no longer registered", lambda: end.memory.at(0))


def full_queue_raises_busy():
    with utofu.Vcq() as vcq:
        submitted = 0
        try:
            while True:
                vcq.nop(F.TCQ_NOTICE, submitted)
                submitted += 1
        except utofu.Busy as busy:
            assert busy.code == ReturnCode.ERR_BUSY
        assert [vcq.wait_tcq(WAIT) for _ in range(submitted)] == list(range(submitted)) and submitted > 0
        assert vcq.poll_tcq() is None
        vcq.nop()


def read_only_memory_is_not_written():
    with End() as end:
        numbers = np.arange(5, 8, dtype=np.uint64)
        numbers.flags.writeable = False
        for constant in (numbers, numbers.tobytes()):
            memory = end.vcq.reg_mem(constant)
            assert memory.read_only and not end.memory.read_only
            theirs = meeting.allgather(memory.remote)[1 - meeting.rank]
            end.vcq.put(memory, end.rmt(300, 3), 1, F.REMOTE_MRQ_NOTICE)
            assert end.vcq.wait_mrq(WAIT).notice_type == MrqType.RMT_PUT
            assert list(end.words[300:303]) == [5, 6, 7]
            end.words[300:303] = 0
            end.vcq.put(end.lcl(0, 3), theirs)
            error = refuses(utofu.MrqError, "", lambda: end.vcq.wait_mrq(WAIT))
            assert error.code in (ReturnCode.ERR_MRQ_RMT_MEMORY, ReturnCode.ERR_MRQ_RMT_STADD)
            meeting.barrier()
            memory.close()


def ids_and_queries_are_those_of_c():
    with utofu.Vcq.with_cmp_id(2, 5) as vcq:
        vcq_id = vcq.query_vcq_id()
        info = utofu.query_vcq_info(vcq_id)
        page = utofu.aligned(4096)
        assert info.coords == utofu.query_my_coords() and info.tni_id == vcq.tni_id == 2
        assert utofu.construct_vcq_id(info.coords, info.tni_id, info.cq_id, 5) == vcq_id
        moved = utofu.set_vcq_id_path(vcq_id, (1, 0, 1))
        assert moved != vcq_id and utofu.set_vcq_id_path(moved, info.coords[3:]) == vcq_id
        utofu.set_vcq_id_path(vcq_id)
        refuses(ValueError, "2 coordinates, not 3", lambda: utofu.get_path_id(vcq_id, (1, 2)))
        assert 0 in utofu.get_onesided_tnis() and 0 in utofu.get_barrier_tnis()
        assert utofu.OnesidedCapArmwOp.XOR in utofu.query_onesided_caps(0).armw_ops
        assert utofu.BarrierCapReduceOp.BFPSUM in utofu.query_barrier_caps(0).reduce_ops
        assert utofu.query_utofu_version() == (utofu.VERSION_MAJOR, utofu.VERSION_MINOR)
        assert utofu.query_tofu_version().major_ver == 3
        with vcq.reg_mem_with_stag(page, 7) as memory:
            assert memory.remote == utofu.query_stadd(vcq_id, 7, 4096)
            fails(ReturnCode.ERR_USED, "utofu_reg_mem_with_stag", lambda: vcq.reg_mem_with_stag(page, 7))
        assert vcq.query_num_unread_mrq() == 0 and vcq.query_num_unread_tcq() == 0
        assert utofu.query_job().size == 2 and utofu.compat_job().rank == meeting.rank
        assert utofu.query_rank_node(meeting.rank).coords == info.coords and utofu.compat_rank_node(0).node == 0
        again = utofu.Vcq.adopt(vcq.release())
        assert vcq.closed and again.query_vcq_id() == vcq_id and again.tni_id == 2
        again.close()


def waits_end():
    with utofu.region("waits_end"), utofu.Vcq() as vcq:
        assert not vcq.wait(0) and not vcq.wait(0.001)
        vcq.wake()
        assert vcq.wait() and not utofu.wait_vcqs([vcq], 0)
        vcq.nop(F.TCQ_NOTICE, 5)
        assert vcq.wait(WAIT) and vcq.wait_tcq(WAIT) == 5
        fails(ReturnCode.ERR_INVALID_NUMBER, "utofu_wait_vcqs", lambda: utofu.wait_vcqs([]))
        memory = vcq.reg_mem(bytearray(64))
        utofu.seen(memory)
        fails(ReturnCode.ERR_INVALID_SIZE, "utofu_profile_seen", lambda: utofu.seen(memory.at(8, 0)))
        memory.close()
        fails(ReturnCode.ERR_INVALID_ARG, "utofu_profile_start", lambda: utofu.region("").__enter__())


def meeting_carries_values_of_any_size():
    for size in (0, 1, 487, 488, 489, 2000, 100_000):
        value = {"rank": meeting.rank, "bytes": bytes([meeting.rank]) * size, "none": None, "list": [1.5, "x"]}
        other = dict(value, rank=1 - meeting.rank, bytes=bytes([1 - meeting.rank]) * size)
        got = meeting.allgather(value if meeting.rank == 0 or size < 2000 else {})
        assert got[meeting.rank] == (value if meeting.rank == 0 or size < 2000 else {}), size
        assert got[1 - meeting.rank] == (other if meeting.rank == 1 or size < 2000 else {}), size
    refuses(TypeError, "cannot be sent", lambda: meeting.allgather(object()))


def rounds_do_not_mix():
    """Rank 1's next row arrives in rank 0 before rank 0 has read those of this round."""
    put = meeting._put

    def put_and_wait(*arguments):
        put(*arguments)
        until = time.monotonic() + WAIT
        while utofu._meeting._HEAD.unpack_from(meeting._buffer, utofu._meeting._ROW)[2] == meeting._round:
            assert time.monotonic() < until, "rank 1 sends no next row"
            os.sched_yield()

    if meeting.rank == 0:
        meeting._put = put_and_wait
    first = meeting.allgather(["first", meeting.rank])
    meeting._put = put
    second = meeting.allgather(["second", meeting.rank])
    assert (first, second) == ([["first", 0], ["first", 1]], [["second", 0], ["second", 1]])


CASES = {
    "put": put_moves_memory, "stride": strides_are_in_bytes, "get": get_brings_memory,
    "armw": armw_is_of_4_or_8_bytes, "prepared": prepared_descriptors_are_posted_again_and_again,
    "session": session_starts_what_waits, "barrier": barriers_and_reductions_complete,
    "errors": errors_have_code_name_and_text, "full": full_queue_raises_busy,
    "read_only": read_only_memory_is_not_written, "ids": ids_and_queries_are_those_of_c, "waits": waits_end,
    "meeting": meeting_carries_values_of_any_size, "rounds": rounds_do_not_mix,
}


def main():
    global meeting
    names = sys.argv[1:]
    if names[:1] == ["--twin"]:
        import twins
        names = names[1:]
        twins.spoil(names[0])
    if utofu.query_job().size != 2:
        sys.exit("usage: utofurun -n 2 cases.py [--twin] [CASE...]")
    with utofu.Meeting() as meeting:
        for name in names or CASES:
            try:
                CASES[name]()
            except BaseException:
                print(f"rank {meeting.rank}: {name} fails", file=sys.stderr)
                raise
    print(f"rank {meeting.rank}: {len(names or CASES)} cases")


if __name__ == "__main__":
    main()
