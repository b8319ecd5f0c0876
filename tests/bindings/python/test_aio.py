#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""asyncio: coroutines get the entries of a VCQ's queues, in order, and the loop goes on meanwhile. One process."""
import asyncio
import os
import threading
import unittest

import utofu
from utofu import OnesidedFlag

LIMIT = 60 * float(os.environ.get("UT_TEST_TIMEOUT_SCALE", "1"))
BOTH = OnesidedFlag.TCQ_NOTICE | OnesidedFlag.LOCAL_MRQ_NOTICE


class Aio(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.vcq = utofu.Vcq()
        self.lcl, self.rmt = self.vcq.reg_mem(bytearray(64)), self.vcq.reg_mem(bytearray(64))

    def tearDown(self):
        self.vcq.close()

    def put(self, n):
        self.vcq.put(self.lcl, self.rmt.remote, n, BOTH, n)

    async def test_entries_come_in_order(self):
        async with utofu.AsyncVcq(self.vcq) as queues:
            for start in (0, 50, 100):
                for n in range(start, start + 50):
                    self.put(n)
                got = []
                for _ in range(50):
                    cbdata = await asyncio.wait_for(queues.tcq(), LIMIT)
                    got.append((cbdata, (await asyncio.wait_for(queues.mrq(), LIMIT)).edata))
                self.assertEqual(got, [(n, n) for n in range(start, start + 50)])

    async def test_the_loop_goes_on_while_a_coroutine_waits(self):
        async with utofu.AsyncVcq(self.vcq) as queues:
            waiting = [asyncio.create_task(queues.mrq()) for _ in range(3)]
            for _ in range(10):
                await asyncio.sleep(0.001)
            self.assertFalse(any(task.done() for task in waiting))
            for n in range(3):
                self.put(n)
            self.assertEqual([(await asyncio.wait_for(task, LIMIT)).edata for task in waiting], [0, 1, 2])

    async def test_an_error_is_raised_where_it_is_awaited(self):
        async with utofu.AsyncVcq(self.vcq) as queues:
            part = self.lcl.at(0, 8)
            beyond = utofu.Remote(self.rmt.remote.peer, self.rmt.stadd + 60, 8)
            self.vcq.put(part, beyond, 9)
            with self.assertRaises(utofu.MrqError) as caught:
                await asyncio.wait_for(queues.mrq(), LIMIT)
            self.assertEqual(caught.exception.notice.edata, 9)
            part.stadd = 0
            self.vcq.put(part, self.rmt.remote.at(0, 8), cbdata=8)
            with self.assertRaises(utofu.TcqError) as caught:
                await asyncio.wait_for(queues.tcq(), LIMIT)
            self.assertEqual(caught.exception.cbdata, 8)
            self.put(3)  # it goes on after them
            self.assertEqual((await asyncio.wait_for(queues.mrq(), LIMIT)).edata, 3)

    async def test_a_coroutine_that_is_cancelled_takes_no_entry(self):
        async with utofu.AsyncVcq(self.vcq) as queues:
            first, second = asyncio.create_task(queues.mrq()), asyncio.create_task(queues.mrq())
            await asyncio.sleep(0)
            notice = utofu.MrqNotice(utofu.MrqType.LCL_PUT, 1, 2, 3, 4, 5)
            queues._mrq.add(notice)  # the first one is told of it, and does not run before it is cancelled
            first.cancel()
            self.assertEqual(await asyncio.wait_for(second, LIMIT), notice)
            self.assertTrue(first.cancelled())

    async def test_waits_end_when_it_is_closed(self):
        queues = utofu.AsyncVcq(self.vcq)
        waiting = asyncio.create_task(queues.tcq())
        await asyncio.sleep(0)
        before = threading.active_count()
        await queues.close()
        await queues.close()
        with self.assertRaises(ValueError):
            await asyncio.wait_for(waiting, LIMIT)
        with self.assertRaises(ValueError):
            await asyncio.wait_for(queues.mrq(), LIMIT)
        self.assertFalse(queues._thread.is_alive())
        self.assertGreater(before, 1)
        self.put(2)  # the VCQ is as it was
        self.assertEqual(self.vcq.wait_mrq(LIMIT).edata, 2)

    async def test_waits_end_when_the_vcq_is_freed(self):
        queues = utofu.AsyncVcq(self.vcq)
        waiting = asyncio.create_task(queues.mrq())
        await asyncio.sleep(0)
        self.vcq.close()
        with self.assertRaises(utofu.Error) as caught:
            await asyncio.wait_for(waiting, LIMIT)
        self.assertEqual(caught.exception.code, utofu.ReturnCode.ERR_INVALID_VCQ_HDL)
        await queues.close()


if __name__ == "__main__":
    unittest.main()
