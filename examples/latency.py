#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Latency by size: two processes answer each notice with a put. Prints a table with bars.

    utofurun -n 2 python3 latency.py [--plot latency.png] [--rounds N]

--plot draws it with matplotlib, where that is installed.
"""
import argparse
import sys
import time

import utofu
from utofu import OnesidedFlag

REPEAT, MOST = 5, 1 << 20
SIZES = [8 << n for n in range(0, 18)]


def ping(vcq, lcl, rmt):
    vcq.put(lcl, rmt, flags=OnesidedFlag.REMOTE_MRQ_NOTICE)
    while vcq.poll_tcq() is not None:  # makes room for the next ones
        pass


def measure(vcq, memory, peer, first, rounds):
    """Microseconds from a put until its notice, the fewest of some rounds, for each size."""
    latency = {}
    for size in SIZES:
        lcl, rmt, times = memory.at(0, size), peer.at(MOST, size), []
        for _ in range(REPEAT):
            start = time.perf_counter()
            for _ in range(rounds):
                if first:
                    ping(vcq, lcl, rmt)
                    vcq.wait_mrq()
                else:
                    vcq.wait_mrq()
                    ping(vcq, lcl, rmt)
            times.append((time.perf_counter() - start) / (2 * rounds) * 1e6)
        latency[size] = min(times)
    return latency


def print_table(latency):
    longest = max(latency.values())
    print("   bytes  microseconds")
    for size, microseconds in latency.items():
        print(f"{size:8}{microseconds:12.2f}    {'#' * round(40 * microseconds / longest)}")


def plot(latency, path):
    try:
        import matplotlib
    except ImportError:
        sys.exit("latency.py: matplotlib is not installed: leave out --plot")
    matplotlib.use("Agg")  # no window
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    axes.loglog(list(latency), list(latency.values()), marker="o")
    axes.set_xlabel("bytes")
    axes.set_ylabel("microseconds from a put to its notice")
    axes.grid(True, which="both", alpha=0.3)
    figure.savefig(path)
    print(f"{path} is written")


def main():
    parser = argparse.ArgumentParser(description="draws the latency of puts by size")
    parser.add_argument("--plot", metavar="FILE", help="draw it with matplotlib, too")
    parser.add_argument("--rounds", type=int, default=100, metavar="N", help="N times there and back (100)")
    options = parser.parse_args()
    if utofu.query_job().size != 2:
        sys.exit("this program takes 2 processes: utofurun -n 2 python3 latency.py")
    with utofu.Meeting() as meeting, utofu.Vcq() as vcq:
        with vcq.reg_mem(utofu.aligned(2 * MOST)) as memory:  # the first half is sent, the other one is written
            peer = meeting.allgather(memory.remote)[1 - meeting.rank]
            latency = measure(vcq, memory, peer, meeting.rank == 0, options.rounds)
            meeting.barrier()
        if meeting.rank == 0:
            print_table(latency)
            if options.plot:
                plot(latency, options.plot)


if __name__ == "__main__":
    main()
