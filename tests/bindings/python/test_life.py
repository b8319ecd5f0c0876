#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Threads, the end of the interpreter, fork. Each part that ends a process is a program of its own."""
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import utofu
from utofu import OnesidedFlag

SCALE = float(os.environ.get("UT_TEST_TIMEOUT_SCALE", "1"))

HEAD = """
import gc, os, sys, threading, utofu
from utofu import OnesidedFlag as F
vcq = utofu.Vcq()
source, target = bytearray(b"x" * 70000), bytearray(70000)
lcl, rmt = vcq.reg_mem(source), vcq.reg_mem(target)
"""
# the end of the interpreter, with VCQs, memory and gates that are still there
ENDS = {
    "nothing is closed": "vcq.put(lcl, rmt.remote)",
    "an exception": "raise SystemExit(0)",
    "a cycle": "vcq_list = [vcq]; vcq_list.append(vcq_list); sys.cycle = vcq_list; gate = utofu.Vbg()",
    "modules are gone": "sys.modules.clear()",
    "a class that is destroyed late": """
class Late:
    def __init__(self, *memories): self.memories = memories
    def __del__(self, write=os.write):
        for memory in self.memories:
            if not memory.closed:
                write(2, b"memory is freed while it is registered")
sys.late = Late(lcl, rmt)
""",
    "a thread that polls": """
def poll():
    try:
        while True: vcq.poll_mrq()
    except utofu.Error as error:
        assert error.name == "UTOFU_ERR_INVALID_VCQ_HDL", error
threading.Thread(target=poll, daemon=True).start()
""",
    "a thread that waits": """
def wait():
    try:
        vcq.wait()
        vcq.wait_mrq()
    except utofu.Error as error:
        assert error.name == "UTOFU_ERR_INVALID_VCQ_HDL", error
threading.Thread(target=wait, daemon=True).start()
""",
}
# in a child made by fork(): there are no VCQs, and memory is not freed
CHILD = """
gate = utofu.Vbg()
child = os.fork()
if child == 0:
    assert vcq.closed and lcl.closed and rmt.closed and gate.closed
    for call in (lambda: vcq.poll_tcq(), lambda: vcq.nop(), lambda: utofu.Vcq()):
        try:
            call()
        except utofu.Error as error:
            print(error.name)
        else:
            raise AssertionError("the child has a VCQ")
    vcq.close(); lcl.close(); gate.close()
    del vcq, lcl, rmt, source, target
    gc.collect()
    more = [bytearray(70000) for _ in range(50)]  # not the memory that the child has lost
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
vcq.put(lcl, rmt.remote, flags=F.LOCAL_MRQ_NOTICE)  # the parent goes on
vcq.wait_mrq(60)
assert target == source
assert os.system("true") == 0
vcq.close()
"""


def run(program, **variables):
    return subprocess.run([sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", HEAD + program], text=True,
                          capture_output=True, timeout=100 * SCALE, check=False,
                          env=dict(os.environ, UTOFU_LOG_LEVEL="none", **variables))


class Life(unittest.TestCase):
    def test_the_interpreter_ends(self):
        for name, program in ENDS.items():
            with self.subTest(name):
                done = run(program)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_child_of_fork_has_no_vcqs(self):
        done = run(CHILD)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.split()[:2], 2 * ["UTOFU_ERR_INVALID_VCQ_HDL"])

    def test_ctrl_c_ends_a_wait(self):
        done = run("""
import signal
signal.setitimer(signal.ITIMER_REAL, 0.2)
signal.signal(signal.SIGALRM, signal.default_int_handler)
try:
    vcq.wait_mrq()
except KeyboardInterrupt:
    print("interrupted")
""")
        self.assertEqual((done.returncode, done.stdout), (0, "interrupted\n"), done.stderr)


class Threads(unittest.TestCase):
    PUTS = 300

    def circulate(self, vcq, failures):
        """Puts to itself, each of which has an entry and a notice."""
        try:
            with vcq, vcq.reg_mem(bytearray(b"y" * 64)) as lcl, vcq.reg_mem(bytearray(64)) as rmt:
                remote = rmt.remote
                for i in range(self.PUTS):
                    vcq.put(lcl, remote, i % 256, OnesidedFlag.TCQ_NOTICE | OnesidedFlag.LOCAL_MRQ_NOTICE, i)
                    if i % 2:
                        got = vcq.wait_tcq(60 * SCALE), vcq.wait_mrq(60 * SCALE).edata
                    else:
                        while (entry := vcq.poll_tcq()) is None:
                            pass
                        while (notice := vcq.poll_mrq()) is None:
                            pass
                        got = entry, notice.edata
                    if got != (i, i % 256):
                        failures.append(f"{got} instead of {i}")
                if bytes(rmt.buffer) != b"y" * 64:
                    failures.append("other data")
        except Exception as error:
            failures.append(repr(error))

    def test_two_threads_poll_two_vcqs(self):
        failures = []
        threads = [threading.Thread(target=self.circulate, args=(utofu.Vcq(tni), failures)) for tni in (0, 0)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_two_threads_poll_one_vcq(self):
        """Each entry is given once, to either of them."""
        with utofu.Vcq() as vcq:
            got, total = [[], []], 2000
            stop = threading.Event()

            def take(mine):
                while not stop.is_set() or vcq.query_num_unread_tcq():
                    entry = vcq.poll_tcq()
                    if entry is not None:
                        mine.append(entry)

            threads = [threading.Thread(target=take, args=(mine,)) for mine in got]
            for thread in threads:
                thread.start()
            for i in range(total):
                while True:
                    try:
                        vcq.nop(OnesidedFlag.TCQ_NOTICE, i)
                        break
                    except utofu.Busy:
                        time.sleep(0)
            while len(got[0]) + len(got[1]) < total and all(thread.is_alive() for thread in threads):
                time.sleep(0.001)
            stop.set()
            for thread in threads:
                thread.join()
            self.assertEqual(sorted(got[0] + got[1]), list(range(total)))

    def test_a_thread_that_waits_leaves_the_others_alone(self):
        """The wait has given up Python's lock: otherwise this thread would not get to wake it."""
        with utofu.Vcq() as vcq:
            ended = []
            thread = threading.Thread(target=lambda: ended.append(vcq.wait_tcq(60 * SCALE)))
            thread.start()
            while thread.ident is None:
                pass
            vcq.nop(OnesidedFlag.TCQ_NOTICE, 17)
            thread.join()
            self.assertEqual(ended, [17])


if __name__ == "__main__":
    signal.alarm(int(280 * SCALE))
    unittest.main()
