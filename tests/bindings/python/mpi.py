#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes of an MPI program exchange addresses by mpi4py, and put around a ring

usage: mpirun -n N python3 -m mpi4py mpi.py
"""
import sys

try:
    import numpy as np
    from mpi4py import MPI
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import utofu
from utofu import OnesidedFlag


def main():
    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    job = utofu.query_job()
    assert (job.rank, job.size) == (rank, size), job
    mine, left = np.full(1000, rank), np.full(1000, -1)
    with utofu.Vcq() as vcq, vcq.reg_mem(mine) as source, vcq.reg_mem(left) as target:
        peers = comm.allgather(target.remote)
        vcq.put(source, peers[(rank + 1) % size], flags=OnesidedFlag.REMOTE_MRQ_NOTICE | OnesidedFlag.LOCAL_MRQ_NOTICE)
        assert {vcq.wait_mrq(60).notice_type.name for _ in range(2)} == {"LCL_PUT", "RMT_PUT"}
        assert (left == (rank - 1) % size).all(), left
        comm.Barrier()
    print(f"rank {rank} of {size}: ok")


if __name__ == "__main__":
    main()
