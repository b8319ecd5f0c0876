#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What UTOFU_STATS and UTOFU_TRACE say of programs whose doings are known.

usage: test_watch.py GROUP, with UTOFURUN, PERF, TRACE and KNOWN naming the programs.
"""
import bisect
import collections
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

failures = 0
RUN, PERF, TRACE, KNOWN = (os.environ.get(name) for name in ("UTOFURUN", "PERF", "TRACE", "KNOWN"))


def check(name, good, text=""):
    global failures
    print(f"{'ok' if good else 'FAILED'}: {name}{'' if good else ': ' + str(text)}")
    failures += not good


def run(n, command, **env):
    return subprocess.run([RUN, "-n", str(n), *command], env={**os.environ, **env},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=200)


def children(pid):
    return [int(p) for p in subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], text=True,
                                           stdout=subprocess.PIPE).stdout.split()]


def await_timelines(folder):
    """Waits until two processes are at work: their timelines grow."""
    for _ in range(600):
        sizes = [os.path.getsize(f) for f in glob.glob(os.path.join(folder, "t.*.json"))]
        if len(sizes) == 2 and min(sizes) > 500000:
            return
        time.sleep(0.1)


#
# Counters
#

def stats(text):
    """{(rank, what): [{name: value}]} of the lines of UTOFU_STATS."""
    found = collections.defaultdict(list)
    for rank, what, rest in re.findall(r"^utofu: stats: \[rank (\d+)\] (\w+)(.*)$", text, re.M):
        found[int(rank), what].append(dict(pair.split("=", 1) for pair in rest.split()))
    return found


ORIGIN = {"puts": 19, "put_bytes": 10 * 100 + 5 * 1000 + 3 * 16 + 16, "gets": 4, "get_bytes": 800,
          "armws": 6, "lcl_put_notices": 6, "lcl_get_notices": 4, "lcl_armw_notices": 6,
          "failed": 1}
TARGET = {"arrivals": 14, "rmt_put_notices": 8, "rmt_armw_notices": 6}


# auto on one host is shm
PROVIDER = "verbs" if os.environ.get("UTOFU_PROVIDER") == "verbs" else "shm"


def unlike(got, want):
    """What is not as wanted; what is not wanted has to be 0, that is, not there."""
    free = {"id", "tni", "cq", "cmp", "mode", "lives", "vcq", "of", "rank", "provider",
            "blocked_ms", "polls_in_vain", "retries", "most_under_way"}
    return [f"{name}={got.get(name, 0)}, not {want.get(name, 0)}"
            for name in sorted((set(got) | set(want)) - (free - set(want)))
            if got.get(name, "0") != str(want.get(name, 0))]


def judge_known(text):
    wrong = []
    found = stats(text)
    for rank, want, more in ((0, ORIGIN, {"nops": 2, "most_in_mrq": 16, "most_under_way": 8}),
                             (1, TARGET, {"most_in_mrq": 14})):
        vcqs = [v for v in found[rank, "vcq"] if v["cmp"] == "3"]
        peers = [p for p in found[rank, "peer"] if vcqs and p["of"] == vcqs[0]["id"]]
        if len(vcqs) != 1 or len(peers) != 1:
            return [f"rank {rank}: {len(vcqs)} VCQs and {len(peers)} peers"]
        wrong += [f"rank {rank}, VCQ: {w}" for w in unlike(vcqs[0], {**want, **more})]
        wrong += [f"rank {rank}, peer: {w}"
                  for w in unlike(peers[0], {**want, "rank": 1 - rank, "provider": PROVIDER})]
    return wrong


def group_stats():
    done = run(2, [KNOWN], UTOFU_STATS="1")
    wrong = judge_known(done.stderr)
    check("stats_are_what_the_program_did", done.returncode == 0 and not wrong, wrong or done.stderr)
    wrong = judge_known(run(2, [KNOWN, "less"], UTOFU_STATS="1").stderr)
    check("stats_tell_one_put_less", [w for w in wrong if "puts=18" in w] and
          [w for w in wrong if "put_bytes=5964" in w], wrong)
    for off in ({}, {"UTOFU_STATS": "0"}):
        done = run(2, [KNOWN], **off)
        check(f"nothing_is_printed_with_{off}", done.returncode == 0 and done.stderr == "",
              done.stderr)
    done = run(2, [PERF, "-q", "-n", "10", "-w", "0", "barrier"], UTOFU_STATS="1")
    gates = {(rank, g["gate"]): {n: v for n, v in g.items() if n != "blocked_ms"}
             for (rank, what), lines in stats(done.stderr).items() if what == "gate" for g in lines}
    sent = {"tni": "0", "signals_out": "10", "signals_in": "10"}
    want = {(rank, gate): {**sent, "gate": gate, **more} for rank in (0, 1)
            for gate, more in (("0", {"packets_out": "10", "started": "10", "finished": "10"}),
                               ("16", {"packets_in": "10"}))}
    check("stats_of_gates_are_what_they_did", gates == want, gates)

    # a signal in the middle, and the same numbers go on
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
            [RUN, "-n", "2", PERF, "-q", "-s", "8", "-n", "30000000", "put-lat"],
            env={**os.environ, "UTOFU_STATS": "1", "UTOFU_TRACE": os.path.join(folder, "t.json"),
                 "UTOFU_TRACE_LIMIT": "1"},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as job:
        await_timelines(folder)
        for pid in children(job.pid):
            os.kill(pid, signal.SIGUSR1)
        time.sleep(1)
        alive = job.poll() is None
        job.terminate()
        text = job.communicate(timeout=60)[1]
    told = stats(text)
    check("sigusr1_prints_and_goes_on",
          alive and all(len(told[r, "job"]) == 1 and len(told[r, "vcq"]) >= 2 for r in (0, 1)),
          text)


#
# Timelines
#

class Timeline:
    """Slices, and arrows between them, of merged files."""

    def __init__(self, events):
        self.slices = collections.defaultdict(list)
        ends = collections.defaultdict(lambda: {"s": [], "f": []})
        self.tracks = {}
        for e in events:
            if e["ph"] == "X":
                self.slices[e["pid"], e["tid"]].append(e)
            elif e["ph"] in "sf":
                ends[e["id"]][e["ph"]].append(e)
            elif e["ph"] == "M" and e["name"] == "thread_name":
                self.tracks[e["pid"], e["tid"]] = e["args"]["name"]
        self.loose = [i for i, a in ends.items() if len(a["s"]) != 1 or len(a["f"]) != 1]
        self.arrows = [(a["s"][0], a["f"][0]) for i, a in ends.items() if i not in set(self.loose)]
        self.times = {}
        for track, slices in self.slices.items():
            slices.sort(key=lambda e: (e["ts"], -e["dur"]))
            self.times[track] = [e["ts"] for e in slices]
        self.next = collections.defaultdict(list)
        self.homeless = []
        for s, f in self.arrows:
            a, b = self.slice_at(s), self.slice_at(f)
            if a is None or b is None or f["ts"] < s["ts"]:
                self.homeless.append((s, f))
            else:
                self.next[id(a)].append((s["name"], b))

    def slice_at(self, end):
        """The innermost slice around an arrow's end."""
        slices = self.slices[end["pid"], end["tid"]]
        last = bisect.bisect_right(self.times[end["pid"], end["tid"]], end["ts"] + 1e-4)
        for e in reversed(slices[max(0, last - 100):last]):
            # a wait and the arrival that ended it touch: the later one is meant
            if end["ts"] <= e["ts"] + e["dur"] + 1e-4 and e["name"] not in ("barrier",
                                                                           "polls in vain"):
                return e
        return None

    def overlaps(self):
        """Slices of one track that neither follow nor contain each other."""
        bad = []
        for slices in self.slices.values():
            stack = []
            for e in slices:
                while stack and stack[-1]["ts"] + stack[-1]["dur"] <= e["ts"] + 2e-3:
                    stack.pop()
                if stack and e["ts"] + e["dur"] > stack[-1]["ts"] + stack[-1]["dur"] + 2e-3:
                    bad.append((stack[-1], e))
                stack.append(e)
        return bad

    def reach(self, slice_):
        seen, todo = {}, [slice_]
        while todo:
            e = todo.pop()
            if id(e) in seen:
                continue
            seen[id(e)] = e
            todo += [b for _, b in self.next[id(e)]]
        return seen.values()


def trace(folder, n, command, **env):
    path = os.path.join(folder, "t.json")
    done = run(n, command, UTOFU_TRACE=path, **env)
    files = [os.path.join(folder, f"t.{r}.json") for r in range(n)]
    return done, files


def merge(files):
    done = subprocess.run([TRACE, *files], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)
    return json.loads(done.stdout), done


def well_formed(name, files, n):
    for path in files:
        with open(path) as f:
            json.load(f)
    events, done = merge(files)
    t = Timeline(events)
    check(f"{name}_arrows_have_both_ends", not t.loose and not t.homeless and t.arrows and
          done.stderr == "", (t.loose[:3], t.homeless[:3], done.stderr))
    check(f"{name}_slices_nest", not t.overlaps(), t.overlaps()[:3])
    check(f"{name}_has_all_ranks", {pid for pid, _ in t.tracks} == set(range(n)), t.tracks)
    return t


ROUNDS = 12


def chains(t):
    """Complete journeys of a put round four ranks, following the arrows."""
    first = [track for track, name in t.tracks.items()
             if track[0] == 0 and "component" in name and
             any(e["cat"] == "arrival" and e["name"] == "put from rank 3"
                 for e in t.slices[track])]
    whole = 0
    for track in first:
        for e in t.slices[track]:
            if e["cat"] != "put" or e["name"] != "put 8 B to rank 1":
                continue
            ranks, kinds = [0], []
            while True:
                links = t.next[id(e)]
                if len(links) != 1:
                    break
                kind, e = links[0]
                kinds.append(kind)
                ranks.append(e["pid"])
            whole += (ranks == [0, 1, 1, 2, 2, 3, 3, 0] and
                      kinds == ["message", "relay"] * 3 + ["message"])
    return whole


def barriers(t, n):
    """Barriers where every start leads to every result."""
    starts = [[e for (pid, tid), s in t.slices.items() for e in s
               if pid == r and e["cat"] == "gate" and e["name"] == "start"] for r in range(n)]
    if any(len(s) != ROUNDS for s in starts):
        return 0
    good = 0
    for i in range(ROUNDS):
        good += all({e["pid"] for e in t.reach(starts[r][i]) if e["name"] == "result"} ==
                    set(range(n)) for r in range(n))
    return good


def as_of_another_host(path, seconds):
    """The same file as if its host had been booted so much later."""
    with open(path) as f:
        text = f.read()
    us = seconds * 1e6
    text = re.sub(r'"host":"[0-9a-f]+"', '"host":"00000000deadbeef"', text)
    text = re.sub(r'"monotonic_to_realtime_us":([0-9.]+)',
                  lambda m: f'"monotonic_to_realtime_us":{float(m[1]) + us:.3f}', text)
    text = re.sub(r'"ts":([0-9.]+)', lambda m: f'"ts":{float(m[1]) - us:.3f}', text)
    with open(path, "w") as f:
        f.write(text)


def without(path, wanted):
    """The same file without the first line that has all of this."""
    with open(path) as f:
        lines = f.read().split("\n")
    for i, line in enumerate(lines):
        if all(w in line for w in wanted):
            del lines[i]
            break
    with open(path, "w") as f:
        f.write("\n".join(lines))


def trace_check(files):
    return subprocess.run([TRACE, "--check", *files], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)


def group_chain():
    with tempfile.TemporaryDirectory() as folder:
        done, files = trace(folder, 4, [PERF, "-q", "-w", "0", "-n", str(ROUNDS), "session-chain"])
        check("chain_runs", done.returncode == 0, done.stderr)
        t = well_formed("chain", files, 4)
        check("chain_of_four_is_linked", chains(t) == ROUNDS, chains(t))
        check("check_finds_nothing", trace_check(files).returncode == 0, trace_check(files).stderr)

        with open(files[1]) as f:
            before = f.read()
        as_of_another_host(files[1], 1000)
        t = Timeline(merge(files)[0])
        check("another_host_is_moved_in_time", chains(t) == ROUNDS, (chains(t), t.homeless[:3]))
        with open(files[1], "w") as f:
            f.write(before)

        without(files[2], ['"ph":"f"', '"name":"relay"'])
        t = Timeline(merge(files)[0])
        check("chain_with_an_arrow_less_is_not", chains(t) == ROUNDS - 1, chains(t))
        loose = trace_check(files)
        check("check_finds_the_loose_end",
              loose.returncode == 1 and "have only one end" in loose.stderr, loose.stderr)


def group_barrier():
    with tempfile.TemporaryDirectory() as folder:
        done, files = trace(folder, 8, [PERF, "-q", "-w", "0", "-n", str(ROUNDS), "barrier"])
        check("barrier_runs", done.returncode == 0, done.stderr)
        t = well_formed("barrier", files, 8)
        check("barrier_of_eight_is_linked", barriers(t, 8) == ROUNDS, barriers(t, 8))
        packets = sum(1 for s, _ in t.arrows if s["name"] == "packet")
        check("barrier_has_its_packets", packets == 8 * 3 * ROUNDS, packets)

        without(files[5], ['"ph":"f"', '"name":"packet"'])
        t = Timeline(merge(files)[0])
        check("barrier_with_an_arrow_less_is_not", barriers(t, 8) < ROUNDS, barriers(t, 8))


def group_more():
    with tempfile.TemporaryDirectory() as folder:
        # threads and TNIs, and more events than a buffer takes
        done, files = trace(folder, 2, [PERF, "-q", "-n", "300", "-t", "3", "-T", "0,1",
                                        "-s", "8,4K", "put-lat", "put-bibw", "stride", "get-lat",
                                        "armw-lat"])
        check("threads_run", done.returncode == 0, done.stderr)
        well_formed("threads", files, 2)
    with tempfile.TemporaryDirectory() as folder:
        done, files = trace(folder, 2, [PERF, "-q", "-n", "20000", "-s", "8", "put-lat"],
                            UTOFU_TRACE_LIMIT="1")
        for path in files:
            with open(path) as f:
                json.load(f)
        check("limit_is_kept", all(os.path.getsize(f) < (1 << 20) + 4096 for f in files) and
              "UTOFU_TRACE_LIMIT" in done.stderr and done.returncode == 0, done.stderr)
    with tempfile.TemporaryDirectory() as folder:
        # killed in the middle: what was written so far can be read
        path = os.path.join(folder, "t.json")
        with subprocess.Popen([RUN, "-n", "2", PERF, "-q", "-s", "8", "-n", "30000000", "put-lat"],
                              env={**os.environ, "UTOFU_TRACE": path, "UTOFU_TRACE_LIMIT": "0"},
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as job:
            await_timelines(folder)
            for pid in children(job.pid):
                os.kill(pid, signal.SIGKILL)
            job.wait(timeout=60)
        files = sorted(glob.glob(os.path.join(folder, "t.*.json")))
        with open(files[0]) as f:
            text = f.read()
        json.loads(text[:text.rindex("}") + 1].rsplit(",\n", 1)[0] + "]")
        events, done = merge(files)
        check("killed_processes_leave_a_timeline", len(files) == 2 and not text.endswith("]\n") and
              not Timeline(events).loose and len(events) > 1000 and "end early" in done.stderr,
              (len(events), done.stderr))
        check("check_finds_the_early_end", trace_check(files).returncode == 1)


def group_bad():
    for env, words in (({"UTOFU_TRACE": "/nowhere/t.json"}, ("UTOFU_TRACE", "cannot write /nowhere/t.",
                                                             "No such file")),
                       ({"UTOFU_TRACE": "/tmp/"}, ("UTOFU_TRACE", "Is a directory")),
                       ({"UTOFU_STATS": "2"}, ("UTOFU_STATS", "'2' is not allowed")),
                       ({"UTOFU_TRACE_LIMIT": "-1"}, ("UTOFU_TRACE_LIMIT", "is not allowed"))):
        done = run(2, [KNOWN], **env)
        lines = [line for line in done.stderr.splitlines() if all(w in line for w in words)]
        check(f"bad_{env}_is_told", done.returncode != 0 and lines, done.stderr)
    with tempfile.TemporaryDirectory() as folder:
        other = os.path.join(folder, "other.json")
        with open(other, "w") as f:
            f.write("{}\n")
        for args, status, words in (([], 2, "name the files"), (["--nothing"], 2, "no option"),
                                    (["-o"], 2, "takes a value"),
                                    (["-o", other, other], 2, "to be written"),
                                    (["/nowhere"], 1, "cannot read"), ([other], 1, "no timeline")):
            done = subprocess.run([TRACE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True)
            check(f"bad_usage_{args and args[0]}_is_told",
                  done.returncode == status and words in done.stderr and
                  done.stderr.count("\n") == 1, done.stderr)


groups = {name[6:]: f for name, f in globals().items() if name.startswith("group_")}
if len(sys.argv) != 2 or sys.argv[1] not in groups:
    sys.exit(f"usage: test_watch.py {'|'.join(groups)}")
groups[sys.argv[1]]()
sys.exit(failures != 0)
