#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dump of a hanging program, on the signal of UTOFU_DUMP_SIGNAL and from a debugger.

usage: test_dump.py GROUP, with UTOFURUN, HANG and SCRIPT naming the programs and the file for
gdb.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

failures = 0
RUN, HANG, SCRIPT = (os.environ.get(name) for name in ("UTOFURUN", "HANG", "SCRIPT"))
LONG = 100


def check(name, good, text=""):
    global failures
    print(f"{'ok' if good else 'FAILED'}: {name}{'' if good else ': ' + str(text)}")
    failures += not good


class Job:
    """Two processes of which rank 0 hangs."""

    def __init__(self, what, where, **env):
        self.err = tempfile.NamedTemporaryFile("a")
        self.process = subprocess.Popen(
            [RUN, "-n", "2", "--timeout", str(LONG), HANG, what, where], text=True, stderr=self.err,
            stdout=subprocess.PIPE, env={**os.environ, "UTOFU_LOG_LEVEL": "warning", **env})
        self.pids = {}
        while len(self.pids) < 2:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"FAILED: {what} ended: {self.text()}")
            _, rank, pid = line.split()
            self.pids[int(rank)] = int(pid)

    def text(self):
        with open(self.err.name) as text:
            return text.read()

    def await_line(self, pattern, times=1):
        """The complete output, once the line has come."""
        end = time.monotonic() + LONG
        while time.monotonic() < end and self.process.poll() is None:
            text = self.text()
            if len(re.findall(pattern, text, re.M)) >= times:
                return text
            time.sleep(0.05)
        return self.text()

    def dump(self, times=1):
        os.kill(self.pids[0], signal.SIGUSR2)
        return self.await_line(r"^utofu: dump: \[rank 0\] end$", times)

    def end(self):
        self.process.terminate()
        self.process.wait()


def says(name, text, *patterns):
    for pattern in patterns:
        check(f"{name}: {pattern}", re.search(pattern, text, re.M), text)


def put():
    for where in "poll", "sleep":
        job = Job("put", where, UTOFU_DUMP_SIGNAL="USR2")
        text = job.dump()
        says(f"put {where}", text, r"^utofu: dump: \[rank 0\] vcq id=\w{16} .* mode=free toq=1/2048 ",
             r"oldest slot=0 kind=put state=waits stage=none bytes=256 to=\w{16} likely_rank=1 waits for its link$",
             r"link to=\w{16} likely_rank=1 state=resolving waiting=1 posted=0 .*"
             r"waits for the peer's process to call the library.* \(gives up in \d+ s\)$")
        text = job.dump(2)
        check(f"put {where}: as often as wanted", text.count("[rank 0] begin\n") == 2, text)
        check(f"put {where}: the others say nothing", "[rank 1]" not in text, text)
        check(f"put {where}: polled", ("polls the TCQ of VCQ" in text) == (where == "poll"), text)
        job.end()


def notice():
    """No communication is under way: the dump shows what the program polls."""
    for where, line in (("poll", r"polls the MRQ of VCQ \w{16} for \d+ s, empty \(\d+ polls\)$"),
                        ("leave", r"does not poll VCQ \w{16} any more: the last poll, \d+ s ago, found the MRQ empty$"),
                        ("wait", r"a thread sleeps in utofu_wait_vcqs\(\) until VCQ \w{16} has an entry, "
                                 r"for \d+ s so far$")):
        begin = time.monotonic()
        job = Job("notice", where, UTOFU_DUMP_SIGNAL="USR2")
        time.sleep(2.5)  # longer than it takes to be "not any more"
        text = job.dump()
        says(f"notice {where}", text, r"^utofu: dump: \[rank 0\]   " + line)
        seconds = re.search(r"(\d+) s[ ,]", text)
        check(f"notice {where}: not for longer than the process is there",
              seconds and int(seconds[1]) <= time.monotonic() - begin + 1, text)
        job.end()


def unread_errors():
    """The program polls one queue, and the error is in the other."""
    for polls, other, code, where in (("MRQ", "TCQ", "TCQ_STADD", "local"),
                                      ("TCQ", "MRQ", "MRQ_RMT_STADD", "remote")):
        has = (rf"UTOFU_ERR_{code}: put of 8 bytes with EDATA 7 .*: "
               rf"{where} STADD \w+: it lies 1 bytes behind the last byte of its region$")
        job = Job(f"{other.lower()}_error", "poll", UTOFU_DUMP_SIGNAL="USR2")
        text, dumps, polled = "", 0, []
        while dumps < LONG and int((polled or [0])[-1]) < 5:
            time.sleep(1)
            dumps += 1
            text = job.dump(dumps)
            polled = re.findall(r"polls the ... of VCQ \w{16} for (\d+) s", text)
        says(f"{other} error", text, rf"^utofu: warning: .*the program polls the {polls} of VCQ \w{{16}} "
             rf"for \d+ s, empty, and does not poll its {other}, which has an error: "
             rf"utofu_poll_{other.lower()}\(\) will return {has}")
        says(f"{other} error", text, rf"^utofu: dump: \[rank 0\]   error in the {other}, "
             rf"which the program has not polled: {has}")
        job.end()


def session():
    job = Job("session", "poll", UTOFU_DUMP_SIGNAL="usr2")
    says("session", job.dump(), r"mode=session toq=1/2048 not_started=1 ",
         r"session scheduled=0 started=0$",
         r"oldest slot=0 kind=put state=not_started .*waits for a put with an SPS")
    job.end()


def barrier():
    for where in "poll", "sleep":
        job = Job("barrier", where, UTOFU_DUMP_SIGNAL="USR2")
        says(f"barrier {where}", job.dump(), r"vcq .* mode=barrier ",
             r"gate tni=0 gate=0 state=started epoch=\d+ ",
             r"waits for a (signal|packet) of tni=[01] gate=\d+ (likely_)?rank=[01], w",
             r"waits for a packet of tni=1 gate=\d+ (likely_)?rank=1, wh(ose|ich) ",
             r"link to=\w{16} (likely_)?rank=1 state=up ")
        job.end()


def locked():
    job = Job("locked", "sleep", UTOFU_DUMP_SIGNAL="USR2")
    text = job.dump()
    says("locked", text, r"toq=1/2048 .* locked: a thread is inside a call on it")
    check("locked: what may change is not read", "  link" not in text and "oldest" not in text, text)
    job.end()


def unasked():
    job = Job("put", "sleep")
    os.kill(job.pids[0], signal.SIGUSR2)
    job.process.wait()
    text = job.text()
    check("unasked: the signal ends the process", job.process.returncode != 0, text)
    check("unasked: nothing is said", "utofu: dump" not in text, text)
    job = Job("own", "sleep", UTOFU_DUMP_SIGNAL="USR2")
    os.kill(job.pids[0], signal.SIGUSR2)
    text = job.await_line("^the program's own$")
    says("own", text, "^the program's own$", "warning: .*UTOFU_DUMP_SIGNAL has no effect")
    check("own: nothing else is said", "begin" not in text, text)
    job.end()
    done = subprocess.run([RUN, "-n", "1", HANG, "put", "sleep"], stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "UTOFU_DUMP_SIGNAL": "KILL"}, timeout=LONG)
    check("bad: refused", done.returncode != 0 and "none|HUP|QUIT|USR1|USR2" in done.stderr, done.stderr)


def with_counters():
    """Both variables use SIGUSR1: then it prints both."""
    job = Job("put", "sleep", UTOFU_DUMP_SIGNAL="USR1", UTOFU_STATS="1")
    os.kill(job.pids[0], signal.SIGUSR1)
    job.await_line(r"^utofu: dump: \[rank 0\] end$")
    text = job.await_line(r"^utofu: stats: \[rank 0\] vcq ")
    says("with counters", text, r"^utofu: dump: \[rank 0\] end$", r"^utofu: stats: \[rank 0\] vcq ")
    check("with counters: no warning", "warning" not in text, text)
    job.end()


def gdb():
    if not shutil.which("gdb"):
        print("skipped: gdb is not installed")
        sys.exit(77)
    job = Job("put", "sleep")
    done = subprocess.run(
        ["gdb", "-nx", "-batch", "-p", str(job.pids[0]), "-x", SCRIPT, "-ex", "call (void)ut_dump()",
         "-ex", "utofu-vcqs", "-ex", "utofu-toq 2", "-ex", "utofu-links 2", "-ex", "utofu-toq 1000",
         "-ex", "detach"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LONG)
    if "ptrace: Operation not permitted" in done.stdout:
        job.end()
        print("skipped: processes may not be traced here")
        sys.exit(77)
    says("gdb: call ut_dump()", job.text(), r"oldest slot=0 kind=put .*likely_rank=1 ",
         r"^utofu: dump: \[rank 0\] end$")
    says("gdb: macros", done.stdout, r"^vcq 2 handle 0x\w+ tni 0 cq \d+ toq 1/2048 mrq 0/131072",
         r"^slot 0 UT_DESC_PUT UT_SLOT_WAITING UT_STAGE_NONE .*to 0x\w+", r"^link to 0x\w+ UT_LINK_RESOLVING",
         r"^there is no VCQ in place 1000")
    job.end()


{"put": put, "session": session, "barrier": barrier, "locked": locked, "unasked": unasked,
 "notice": notice, "unread_errors": unread_errors, "gdb": gdb, "with_counters": with_counters}[sys.argv[1]]()
sys.exit(failures != 0)
