#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a put takes in Python: by the package utofu, and by mpi4py's Put, in one run on the same machine

usage: mpirun -n 2 python3 -m mpi4py bench/python_put.py [BYTES]...

PYTHONPATH=build/bindings/python takes the package from the build folder.

Rank 0 puts to memory of rank 1, and waits for each put. "sent" ends when the source may be changed: the TCQ entry, and
for MPI Flush_local(); "arrived" when the data is in place: the local MRQ notice, and Flush(). The figure is the least
of several rounds, in nanoseconds of a put.
"""
import sys
import time

import numpy as np
import utofu
from mpi4py import MPI
from utofu import OnesidedFlag

ROUNDS, PUTS = 100, 500
comm = MPI.COMM_WORLD


def least(one_round):
    """Nanoseconds of a put in the fastest round."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        one_round()
        times.append((time.perf_counter_ns() - start) / PUTS)
    return min(times)


def rounds_of_utofu(vcq, lcl, rmt):
    put, poll_tcq, poll_mrq = vcq.put, vcq.poll_tcq, vcq.poll_mrq

    def sent():
        for _ in range(PUTS):
            put(lcl, rmt, 0, OnesidedFlag.TCQ_NOTICE)
            while poll_tcq() is None:
                pass

    def arrived():
        for _ in range(PUTS):
            put(lcl, rmt, 0, OnesidedFlag.LOCAL_MRQ_NOTICE)
            while poll_mrq() is None:
                pass
        while poll_tcq() is not None:
            pass

    return sent, arrived


def rounds_of_mpi(window, source):
    put, flush, flush_local = window.Put, window.Flush, window.Flush_local

    def sent():
        for _ in range(PUTS):
            put(source, 1)
            flush_local(1)

    def arrived():
        for _ in range(PUTS):
            put(source, 1)
            flush(1)

    return sent, arrived


def main():
    sizes = [int(size) for size in sys.argv[1:]] or [8, 64, 1024, 8192]
    if comm.size != 2:
        sys.exit("usage: mpirun -n 2 python3 python_put.py [BYTES]...")
    source, target = (np.frombuffer(utofu.aligned(max(sizes)), np.uint8) for _ in range(2))
    source[:] = 1
    window = MPI.Win.Allocate_shared(max(sizes), comm=comm)  # the fastest that MPI has within a node
    with utofu.Vcq() as vcq, vcq.reg_mem(source) as lcl, vcq.reg_mem(target) as rmt:
        peer = comm.allgather(rmt.remote)[1]
        if comm.rank == 0:
            name, version = MPI.get_vendor()
            print(f"ns of a put          utofu      mpi4py ({name} {'.'.join(map(str, version))})")
            window.Lock_all()
            for size in sizes:
                ours = [least(one) for one in rounds_of_utofu(vcq, lcl.at(0, size), peer.at(0, size))]
                theirs = [least(one) for one in rounds_of_mpi(window, source[:size])]
                for what, one, other in zip(("sent", "arrived"), ours, theirs):
                    print(f"{size:6} bytes, {what:8}{one:8.0f}{other:12.0f}   {other / one:.2f} times as long")
            window.Unlock_all()
        comm.Barrier()
    if comm.rank == 1:
        window_memory = np.frombuffer(window.tomemory(), np.uint8)
        for memory in (target, window_memory):
            assert (memory[:max(sizes)] == 1).all(), "a put has not arrived"
    window.Free()


if __name__ == "__main__":
    main()
