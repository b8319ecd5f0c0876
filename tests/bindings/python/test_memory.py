#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Registered memory is not freed or resized behind its back, and a Remote is no local memory. One process."""
import array
import ctypes
import gc
import mmap
import pickle
import unittest
import weakref

import utofu
from utofu import OnesidedFlag, ReturnCode

try:
    import numpy as np
except ImportError:
    np = None

NOTICE = OnesidedFlag.LOCAL_MRQ_NOTICE


class Held(unittest.TestCase):
    def setUp(self):
        self.vcq = utofu.Vcq()

    def tearDown(self):
        self.vcq.close()

    def put(self, lcl, rmt):
        self.vcq.put(lcl, rmt, flags=NOTICE)
        return self.vcq.wait_mrq(60)

    def test_what_would_move_it_is_refused(self):
        numbers, text, words = bytearray(5000), array.array("d", range(100)), mmap.mmap(-1, 4096)
        memories = [self.vcq.reg_mem(buffer) for buffer in (numbers, text, words)]
        with self.assertRaises(BufferError):
            numbers.append(1)
        with self.assertRaises(BufferError):
            text.append(1.0)
        with self.assertRaises(BufferError):
            words.close()
        with self.assertRaises(BufferError):
            del numbers[:]
        for memory in memories:
            memory.close()
        numbers.append(1)
        text.append(1.0)
        words.close()

    @unittest.skipUnless(np, "numpy is not installed")
    def test_an_array_is_not_resized(self):
        numbers = np.zeros(1000)
        memory = self.vcq.reg_mem(numbers)
        for refcheck in (True, False):
            with self.assertRaises(ValueError):
                numbers.resize(100000, refcheck=refcheck)
        memory.close()
        del memory
        numbers.resize(100000, refcheck=False)

    @unittest.skipUnless(np, "numpy is not installed")
    def test_it_lives_without_other_references(self):
        numbers = np.zeros(1000)
        watch = weakref.ref(numbers)
        remote = self.vcq.reg_mem(numbers).remote  # nobody keeps the Memory either
        del numbers
        gc.collect()
        self.assertIsNotNone(watch())
        with self.vcq.reg_mem(b"12345678") as source:
            self.put(source, remote.at(0, 8))
        self.assertEqual(watch()[:1].tobytes(), b"12345678")
        self.vcq.close()
        gc.collect()
        self.assertIsNone(watch())

    def test_a_vcq_that_is_closed_ends_the_registrations(self):
        numbers = bytearray(1000)
        memory = self.vcq.reg_mem(numbers)
        part, remote = memory.at(0, 8), memory.remote
        self.vcq.close()
        self.assertTrue(memory.closed)
        numbers.append(1)
        memory.close()  # nothing happens
        with utofu.Vcq() as other:
            for lcl in (memory, part):
                with self.assertRaises(ValueError):
                    other.put(lcl, remote)
        with self.assertRaises(ValueError):
            memory.at(0, 1)
        with self.assertRaises(ValueError):
            memory.remote

    def test_a_vcq_without_references_is_freed(self):
        vcq = utofu.Vcq()
        hdl, numbers = vcq.hdl, bytearray(100)
        vcq.reg_mem(numbers)
        with self.assertWarns(ResourceWarning):
            del vcq
            gc.collect()
        numbers.append(1)
        with self.assertRaises(utofu.Error) as caught:
            utofu.Vcq.adopt(hdl)
        self.assertEqual(caught.exception.code, ReturnCode.ERR_INVALID_VCQ_HDL)

    def test_a_handle_is_not_given_away_with_memory(self):
        memory = self.vcq.reg_mem(bytearray(10))
        with self.assertRaises(ValueError):
            self.vcq.release()
        memory.close()
        utofu.Vcq.adopt(self.vcq.release()).close()

    def test_a_registration_that_fails_holds_nothing(self):
        numbers = bytearray(100)
        with utofu.Vcq() as closed:
            pass
        with self.assertRaises(utofu.Error):
            closed.reg_mem(numbers)
        with self.assertRaises(utofu.Error):
            self.vcq.reg_mem_with_stag(numbers, 300)
        numbers.append(1)

    def test_a_deregistration_that_fails_keeps_the_memory(self):
        numbers = bytearray(100)
        memory = self.vcq.reg_mem(numbers)
        right, memory.stadd = memory.stadd, 5
        with self.assertRaises(utofu.Error) as caught:
            memory.close()
        self.assertEqual(caught.exception.code, ReturnCode.ERR_INVALID_STADD)
        with self.assertRaises(BufferError):
            numbers.append(1)
        memory.stadd = right
        memory.close()
        numbers.append(1)

    @unittest.skipUnless(np, "numpy is not installed")
    def test_only_memory_in_one_piece_is_taken(self):
        table = np.zeros((10, 10))
        with self.assertRaises(ValueError):
            self.vcq.reg_mem(table[:, 1])
        with self.assertRaises(TypeError):
            self.vcq.reg_mem("text")
        with self.vcq.reg_mem(table) as memory:
            part = memory.of(table[2:4])
            self.assertEqual((part.stadd - memory.stadd, part.size), (160, 160))
            with self.assertRaises(ValueError):
                memory.of(table[:, 1])
            with self.assertRaises(ValueError):
                memory.of(np.zeros(10))

    def test_a_view_is_within_the_registered_memory(self):
        whole = memoryview(bytearray(100))
        with self.vcq.reg_mem(whole[20:80]) as memory:
            for begin, end in ((20, 80), (20, 21), (79, 80), (30, 60)):
                part = memory.of(whole[begin:end])
                self.assertEqual((part.stadd - memory.stadd, part.size), (begin - 20, end - begin))
            for begin, end in ((20, 81), (79, 81), (50, 100), (19, 80), (19, 20), (0, 100), (80, 81), (0, 19)):
                with self.assertRaises(ValueError):
                    memory.of(whole[begin:end])

    def refuses_references(self, buffer):
        with self.assertRaisesRegex(TypeError, "references"):
            self.vcq.reg_mem(buffer)
        with self.assertRaisesRegex(TypeError, "references"):
            self.vcq.put_piggyback(buffer, utofu.Remote(1, 4096, 8))

    @unittest.skipUnless(np, "numpy is not installed")
    def test_references_to_objects_are_refused(self):
        fields = np.dtype([("O", np.int64), ("name", object)])
        within = np.dtype([("first", np.int32), ("rest", fields, (2,))])
        objects = np.array([[1], {}], dtype=object)
        for buffer in (objects, memoryview(objects), objects[:1], np.zeros(2, fields), memoryview(np.zeros(2, fields)),
                       np.zeros(3, within), (ctypes.py_object * 4)()):
            self.refuses_references(buffer)

    @unittest.skipUnless(np, "numpy is not installed")
    def test_numbers_are_no_references(self):
        named = np.dtype([("O", np.int64), ("xOx", np.float32, (2,))])
        for buffer in (np.zeros(2, named), memoryview(np.zeros(2, named)), np.zeros(2, "M8[s]"), np.zeros(2, "S3"),
                       np.zeros(2, "U3"), np.zeros(2, np.complex128), np.zeros(2, bool), np.zeros(2, "V5"),
                       (ctypes.c_double * 4)(), array.array("d", [1]), bytearray(b"OO"), b"O"):
            self.vcq.reg_mem(buffer).close()

    def test_flags_of_another_group_are_refused(self):
        memory = self.vcq.reg_mem(bytearray(8))
        remote, wrong = memory.remote, utofu.RegMemFlag.READ_ONLY
        calls = (lambda: self.vcq.put(memory, remote, flags=wrong), lambda: self.vcq.get(memory, remote, 0, wrong),
                 lambda: self.vcq.put(memory, remote, flags=wrong | NOTICE), lambda: self.vcq.nop(flags=wrong),
                 lambda: self.vcq.put_piggyback(b"12345678", remote, flags=wrong),
                 lambda: self.vcq.armw8(remote, utofu.ArmwOp.ADD, 1, flags=utofu.VcqFlag.EXCLUSIVE),
                 lambda: self.vcq.reg_mem(bytearray(8), NOTICE), lambda: utofu.Vcq(0, wrong),
                 lambda: utofu.Vcq.with_cmp_id(0, 1, NOTICE))
        for call in calls:
            with self.assertRaisesRegex(TypeError, "is no (OnesidedFlag|RegMemFlag|VcqFlag)"):
                call()
        self.vcq.put(memory, remote, flags=int(NOTICE))  # a number is what its bits are
        self.assertEqual(self.vcq.wait_mrq(60).notice_type, utofu.MrqType.LCL_PUT)

    def times_out(self, words):
        with self.assertRaisesRegex(TimeoutError, words):
            self.vcq.wait_mrq(0.01)

    def test_a_wait_says_whether_a_notice_will_come(self):
        memory = self.vcq.reg_mem(bytearray(8))
        none = "no communication of this VCQ that is under way asked for one"
        self.times_out(none)
        self.vcq.put(memory, memory.remote)
        self.times_out(none)
        self.put(memory, memory.remote)  # and its notice was polled
        self.times_out(none)
        self.vcq._asked += 2  # as if two were under way for long
        self.times_out("2 communications of this VCQ under way asked for one")
        self.vcq._asked -= 1
        self.times_out("1 communication of this VCQ under way asked for one")
        self.vcq._asked = 0
        descriptors = utofu.Descriptors(self.vcq)
        self.vcq.prepare_put(descriptors, memory, memory.remote, flags=NOTICE)
        self.vcq.post_toq(descriptors)
        self.assertEqual(self.vcq._asked, 1)
        self.vcq.wait_mrq(60)
        self.vcq.put_stride(memory, memory.remote, 2, 4, 2, flags=NOTICE)
        self.assertEqual(self.vcq._asked, 2)
        for _ in range(2):
            self.vcq.wait_mrq(60)
        self.times_out(none)

    def test_a_remote_is_no_local_memory(self):
        remote = self.vcq.reg_mem(bytearray(100)).remote
        self.assertEqual(pickle.loads(pickle.dumps(remote)), remote)
        self.assertEqual(utofu.Remote.unpack(remote.pack()), remote)
        self.assertEqual(len({remote, remote.at(0), remote.at(8)}), 2)
        self.assertFalse(remote == (remote.peer, remote.stadd, remote.size))
        for wrong in (lambda: memoryview(remote), lambda: bytes(remote), lambda: remote[0], lambda: len(remote),
                      lambda: self.vcq.reg_mem(remote), lambda: self.vcq.put(remote, remote)):
            with self.assertRaises(TypeError):
                wrong()
        for name in ("stadd", "more"):
            with self.assertRaises(AttributeError):
                setattr(remote, name, 1)
        for wrong in ((-1, 0, 0), (0, 1 << 64, 0)):
            with self.assertRaises(OverflowError):
                utofu.Remote(*wrong)
        with self.assertRaises(TypeError):
            utofu.Remote(1, 2, "3")

    def test_arguments_are_checked(self):
        memory = self.vcq.reg_mem(bytearray(8))
        remote = memory.remote
        for arguments, keywords in (((), {}), ((memory,), {}), ((memory, remote, 0, 0, 0, 0), {}),
                                    ((memory, remote, 0), {"edata": 1}), ((memory, remote), {"other": 1}),
                                    ((memory, memory), {}), ((memory, remote, "1"), {})):
            with self.assertRaises(TypeError):
                self.vcq.put(*arguments, **keywords)
        self.vcq.get(rmt=remote, lcl=memory, cbdata=4, flags=OnesidedFlag.TCQ_NOTICE)
        self.assertEqual(self.vcq.wait_tcq(60), 4)

    def test_errors_and_notices_can_be_sent_to_others(self):
        notice = utofu.MrqNotice(utofu.MrqType.LCL_ARMW, 1, 2, 3, 4, 5)
        for value in (notice, utofu.Error(-5, "utofu_x", "text"), utofu.TcqError(-131, "utofu_x", "text", 6),
                      utofu.MrqError(-199, "utofu_x", "text", notice)):
            again = pickle.loads(pickle.dumps(value))
            self.assertEqual((type(again), str(again)), (type(value), str(value)))
        self.assertEqual(pickle.loads(pickle.dumps(notice)), notice)
        self.assertEqual(utofu.name_of(-99), "unknown code")


if __name__ == "__main__":
    unittest.main()
