#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The part of "scripts/rxe-vm tests" that runs in each guest: runs a list of tests one after the other.

Usage: guest.py PLAN, a file of JSON that scripts/rxe-vm has written. Prints the tests'
output, and lines for scripts/rxe-vm that begin with MARK: "ready SLOWNESS", "begin NAME", "end
NAME STATUS SECONDS REASON".
"""
import contextlib
import json
import mmap
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

MARK = "@@rxe-vm "
HOST, HOSTS = int(os.environ["RXE_HOST"]), int(os.environ["RXE_HOSTS"])
NETDEV = os.environ["RXE_NETDEV"]
SHARED = pathlib.Path(os.environ["RXE_SHARED"])
# The guest has everything that a test needs: a skipped test is an error.
SKIPPED = re.compile(r"^skipped: |Passing: (\x1b\[[\d;]*m)*0 ", re.M)
PROCESS = "UT_RXE_TESTS_PROCESS=1"  # in the environment of every process of a test
ELSEWHERE = "the test failed on the other host"
GRACE = 30  # seconds for one host after the test has failed on the other one
BOOT = 12  # seconds that a start takes at most, without acceleration, where the host's CPUs are free


def slowness():
    """How much longer than on a free host things take: the limits of the tests are that much longer."""
    uptime = os.environ.get("RXE_UPTIME") or pathlib.Path("/proc/uptime").read_text().split()[0]
    return min(max(1.0, float(uptime) / BOOT), 10.0)


def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def mark(*words):
    # with an empty line, as rxe-vm prints a line when the next one comes
    say("\n" + MARK + " ".join(str(w) for w in words) + "\n\n")


def command(line):
    """Runs a command; its output is shown if it fails. Returns an error or None."""
    done = subprocess.run(line.split(), capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"{line}: {done.stdout}{done.stderr}".strip()


def kill_processes():
    """Kills every process that a test has left."""
    for _ in range(50):
        found = False
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if PROCESS.encode() in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)
                    found = True
        if not found:
            return
        time.sleep(0.05)


class Step:
    """One command of a test, whose output goes to standard output."""

    def __init__(self, step, environment):
        self.child = subprocess.Popen(step["argv"], cwd=step["cwd"], env=environment | step["env"],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      start_new_session=True)
        self.said = []
        self.reader = threading.Thread(target=self.copy, daemon=True)
        self.reader.start()

    def copy(self):
        for line in self.child.stdout:
            text = line.decode(errors="replace")
            self.said.append(text)
            say(text)

    def wait(self, until, failed_elsewhere):
        """Waits for the end; returns an error or None."""
        error = None
        while self.child.poll() is None:
            now = time.monotonic()
            if failed_elsewhere and failed_elsewhere.exists():
                until, failed_elsewhere = min(until, now + GRACE), None
                error = ELSEWHERE
            if now > until:
                error = error or "its time had run out"
                break
            time.sleep(0.02)
        if error and self.child.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(self.child.pid, signal.SIGTERM)  # a test may clean up
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(3)
        kill_processes()
        status = self.child.wait()
        self.reader.join(5)
        if error:
            return error
        if status:
            return f"signal {-status}" if status < 0 else f"exit status {status}"
        return None


class Test:
    def __init__(self, plan, slow):
        self.plan, self.name = plan, plan["name"]
        self.limit = plan["limit"] * slow
        self.folder = SHARED / self.name
        self.environment = os.environ | plan["env"] | {"RXE_SHARED": str(self.folder)}
        key, value = PROCESS.split("=")
        self.environment[key] = value
        if plan["hosts"] > 1:
            self.environment |= {"UT_TEST_SHARED_MEMORY": os.environ["RXE_SHARED_MEMORY"],
                                 "UT_TEST_ROOT_ADDRESS": "10.77.0.1", "UT_TEST_HOST": str(HOST),
                                 "UT_TEST_HOSTS": str(HOSTS)}

    def meet(self, what):
        """Waits for the other host; False if the test has failed there."""
        (self.folder / f"{what}.{HOST}").touch()
        while not all((self.folder / f"{what}.{k}").exists() for k in range(HOSTS)):
            if (self.folder / "failed").exists():
                return False
            time.sleep(0.02)
        return True

    def set_up(self):
        errors = [command("rdma link del rxe0")] if not self.plan["rxe"] else []
        if self.plan["netem"]:
            errors.append(command(f"tc qdisc add dev eth0 root netem {self.plan['netem']}"))
        if self.plan["hosts"] > 1:
            if HOST == 0:
                with open(os.environ["RXE_SHARED_MEMORY"], "r+b") as file, mmap.mmap(file.fileno(), 4 << 20) as memory:
                    memory[:] = bytes(4 << 20)
            self.meet("set-up")
        return next(filter(None, errors), None)

    def restore(self):
        """Restores the machine after a test; returns an error or None."""
        if self.plan["netem"]:
            command("tc qdisc del dev eth0 root")
        links = subprocess.run(["rdma", "link", "show"], capture_output=True, text=True, check=False).stdout
        if "link rxe0/1 state ACTIVE" in links:
            return None
        # the device was removed, or its network device was taken down and lost its address
        command("rdma link del rxe0")
        command(f"ip link set {NETDEV} up")
        command(f"sysctl -qw net.ipv6.conf.{NETDEV}.disable_ipv6=0")
        command(f"ip addr add 10.77.0.{HOST + 1}/24 dev {NETDEV}")
        error = command(f"rdma link add rxe0 type rxe netdev {NETDEV}")
        gid = pathlib.Path("/sys/class/infiniband/rxe0/ports/1/gids/1")
        for _ in range(200):
            with contextlib.suppress(OSError):
                if ":ffff:" in gid.read_text():
                    return error
            time.sleep(0.05)
        return error or f"rxe0 on {NETDEV} got no IPv4 GID"

    def steps(self):
        until = time.monotonic() + self.limit
        said = ""
        failed = self.folder / "failed"
        for number, step in enumerate(self.plan["steps"]):
            if self.plan["hosts"] > 1 and not self.meet(f"step{number}"):
                return ELSEWHERE
            say(f"== {step['title']}\n")
            running = Step(step, self.environment)
            error = running.wait(until, failed if self.plan["hosts"] > 1 else None)
            text = "".join(running.said)
            if not error and SKIPPED.search(text):
                error = "was skipped"
            if not error and self.plan["expect"] and not re.search(self.plan["expect"], text):
                error = f"nothing in its output is like this: {self.plan['expect']}"
            if error:
                said = said or f"{step['title']}: {error}"
                failed.touch()
                if self.plan["hosts"] > 1:
                    break  # the processes of both hosts end together
        return said or None

    def run(self):
        self.folder.mkdir(exist_ok=True)
        if self.plan["hosts"] > 1:
            self.meet("ready")
        begun = time.monotonic()
        mark("begin", self.name)
        error = self.set_up() or self.steps()
        error = self.restore() or error
        mark("end", self.name, "FAIL" if error else "OK", f"{time.monotonic() - begun:.2f}", error or "")


def main():
    plan = json.loads(pathlib.Path(sys.argv[1]).read_text())
    slow = slowness()
    mark("ready", f"{slow:.2f}")
    for one in plan:
        Test(one, slow).run()


main()
