#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lives of Python's objects: closed, left to the collector, and with an error. See lives.h.
Argument: the library lives_c."""
import ctypes
import gc
import sys

import utofu
from utofu import OnesidedFlag

lives = ctypes.CDLL(sys.argv[1])


def live(closed):
    vcq = utofu.Vcq()
    memory = vcq.reg_mem(bytearray(8192))
    vcq.put(memory.at(0, 4096), memory.remote.at(4096), flags=OnesidedFlag.TCQ_NOTICE)
    vcq.wait_tcq()
    try:
        vcq.put(memory.at(0, 4096), memory.remote.at(8192))
    except (utofu.Error, ValueError):
        pass
    if closed:
        memory.close()
        vcq.close()


# a Vcq and its Memory refer to each other: without close() only the collector frees them
lives.lives_c_begin(b"python_object", 0)
number = 0
while True:
    live(number % 2)
    if number % 2 == 0:
        gc.collect()
    number += 1
    if not lives.lives_c_next():
        break
if not lives.lives_c_end():
    sys.exit(1)
