#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_real_time.py UTOFURUN MEET POLLS

Jobs with a real-time policy on one core (chrt -f 10 taskset -c 1 utofurun...) end: by themselves, by
--timeout and by SIGKILL of utofurun, also while their processes spin and never yield. Needs two
cores and the right to real-time priorities; else it is skipped (77). This program runs on the other
core with a higher priority, and takes a job that hangs out of that policy before it kills it: the
kernel may spin in a process that waits for another one on the same core.
"""
import ctypes
import os
import signal
import sys
import time

PRIORITY, OWN_PRIORITY, SKIPPED = 10, 50, 77
PR_SET_CHILD_SUBREAPER = 36
DEADLINE_S = 20  # not scaled: longer would disturb the machine
STARVED = 0.01  # a process with SCHED_IDLE that runs for a smaller part of the time has not got the core; it gets 0.05,
# the share that the kernel keeps from real-time processes, if the test has the machine for itself
OTHER_POLICY = '[ "$UTOFU_RANK" != "$1" ] || chrt $2 $$; exec "$0"'
SPIN = ["sh", "-c", "while :; do :; done"]


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def prepare():
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        skip("there is one CPU")
    try:
        with open("/proc/sys/kernel/sched_rt_runtime_us", encoding="ascii") as file:
            if int(file.read()) < 0:
                skip("nothing limits real-time processes here")
        os.sched_setaffinity(0, {cpus[0]})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(OWN_PRIORITY))
    except (OSError, ValueError) as error:
        skip(f"no real-time priorities: {error}")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return cpus[1]


def fields_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        text = file.read()
    return text[text.rindex(")") + 2:].split()


def descendants(of):
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                children.setdefault(int(fields_of(name)[1]), []).append(int(name))
            except (OSError, ValueError):
                continue
    found = list(children.get(of, []))
    for pid in found:
        found += children.get(pid, [])
    return found


def threads_of(pid):
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def end_all():
    """The real-time policy goes first."""
    for _ in range(100):
        left = descendants(os.getpid())
        for pid in left:
            for thread in threads_of(pid):
                try:
                    os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
                except OSError:
                    pass
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.02)


def start(cpu, command):
    pid = os.fork()
    if pid == 0:
        try:
            os.sched_setaffinity(0, {cpu})
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
            os.execvp(command[0], command)
        finally:
            os._exit(99)
    return pid


def await_end(pid, look=None):
    """The exit status, or None after the deadline."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if look:
            look()
        time.sleep(0.01)
    return None


def await_ranks(pid, name):
    """The processes of the job that run their program."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        ranks = []
        for child in descendants(pid):
            try:
                with open(f"/proc/{child}/comm", encoding="utf-8") as file:
                    if file.read().strip() == name:
                        ranks.append(child)
            except OSError:
                continue
        if ranks:
            return ranks
        time.sleep(0.01)
    return []


class IdleProcess:
    """Of a job: the process that runs only when nobody else does. How long has it run?"""

    def __init__(self):
        self.begun, self.seconds = time.monotonic(), None

    def look(self):
        for pid in descendants(os.getpid()):
            try:
                if os.sched_getscheduler(pid) == os.SCHED_IDLE:
                    fields = fields_of(pid)
                    self.seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            except (OSError, ValueError):
                continue

    def is_starved(self):
        """Have other programs taken the core from it?"""
        return self.seconds is not None and self.seconds < STARVED * (time.monotonic() - self.begun)


def check(name, holds, found):
    print(f"{'ok' if holds else 'FAIL'}: {name}: {found}", flush=True)
    return 0 if holds else 1


def main():
    utofurun, meet, polls = sys.argv[1:]
    cpu = prepare()
    failed = 0
    for i in range(3):
        status = await_end(start(cpu, [utofurun, "-n", "2", meet]))
        end_all()
        if check(f"job {i} ends", status == 0, status):
            return 1
    for rank in "0", "1":
        for policy in "-f -p 5", "-i -p 0":
            idle = IdleProcess()
            job = start(cpu, [utofurun, "-n", "2", "sh", "-c", OTHER_POLICY, polls, rank, policy])
            status = await_end(job, idle.look)
            starved = idle.is_starved()
            end_all()
            if status != 0 and starved:
                print(f"not judged: chrt {policy} of rank {rank}, as other programs leave it no time", flush=True)
                continue
            if check(f"ends while rank {rank} has chrt {policy}", status == 0, status):
                return 1
    status = await_end(start(cpu, [utofurun, "--timeout", "1", "-n", "2"] + SPIN))
    end_all()
    failed += check("--timeout ends processes that spin", status == 124, status)
    job = start(cpu, [utofurun, "-n", "2"] + SPIN)
    ranks = await_ranks(job, SPIN[0])
    policies = [os.sched_getscheduler(rank) for rank in ranks]
    failed += check("processes have the policy", policies and set(policies) == {os.SCHED_FIFO}, policies)
    own = os.sched_getscheduler(job)
    failed += check("utofurun has not", own == os.SCHED_OTHER, own)
    os.kill(job, signal.SIGKILL)
    status = await_end(job)
    end = time.monotonic() + DEADLINE_S
    while descendants(os.getpid()) and time.monotonic() < end:
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        time.sleep(0.01)
    left = descendants(os.getpid())
    end_all()
    failed += check("SIGKILL ends utofurun and its job", status == -signal.SIGKILL and not left, (status, left))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
