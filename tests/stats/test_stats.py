#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The output of UTOFU_STATS and UTOFU_TRACE for programs with a known list of communications.

usage: test_stats.py GROUP, with UTOFURUN, PERF, TRACE and KNOWN naming the programs.
"""
import bisect
import collections
import glob
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

failures = 0
RUN, PERF, TRACE, KNOWN, REGIONS = (
    os.environ.get(name) for name in ("UTOFURUN", "PERF", "TRACE", "KNOWN", "REGIONS"))


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
    """Waits until two processes write their timelines."""
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
TARGET = {"arrivals": 18, "rmt_put_notices": 8, "rmt_get_notices": 4, "rmt_armw_notices": 6}


# auto on one host is shm
PROVIDER = "verbs" if os.environ.get("UTOFU_PROVIDER") == "verbs" else "shm"


def unlike(got, want):
    """The counters that differ from `wanted`; one that is not in it has to be 0, that is, absent."""
    free = {"id", "tni", "cq", "cmp", "mode", "lives", "vcq", "of", "rank", "provider",
            "blocked_ms", "empty_polls", "retries", "most_under_way"}
    return [f"{name}={got.get(name, 0)}, not {want.get(name, 0)}"
            for name in sorted((set(got) | set(want)) - (free - set(want)))
            if got.get(name, "0") != str(want.get(name, 0))]


def judge_known(text):
    wrong = []
    found = stats(text)
    for rank, want, more in ((0, ORIGIN, {"nops": 2, "most_in_mrq": 16, "most_under_way": 8}),
                             (1, TARGET, {"most_in_mrq": 18})):
        vcqs = [v for v in found[rank, "vcq"] if v["cmp"] == "3"]
        peers = [p for p in found[rank, "peer"] if vcqs and p["of"] == vcqs[0]["id"]]
        if len(vcqs) != 1 or len(peers) != 1:
            return [f"rank {rank}: {len(vcqs)} VCQs and {len(peers)} peers"]
        wrong += [f"rank {rank}, VCQ: {w}" for w in unlike(vcqs[0], {**want, **more})]
        wrong += [f"rank {rank}, peer: {w}"
                  for w in unlike(peers[0], {**want, "rank": 1 - rank, "provider": PROVIDER})]
    return wrong


def group_counters():
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
    done = run(4, [PERF, "-q", "-n", "10", "-w", "0", "barrier"], UTOFU_STATS="1")
    gates = {(rank, g["gate"]): {n: v for n, v in g.items() if n != "blocked_ms"}
             for (rank, what), lines in stats(done.stderr).items() if what == "gate" for g in lines}
    sent = {"tni": "0", **dict.fromkeys(("signals_out", "packets_out", "signals_in", "packets_in"), "10")}
    want = {(rank, gate): {**sent, "gate": gate, **more} for rank in range(4)
            for gate, more in (("0", {"started": "10", "finished": "10"}), ("16", {}))}
    check("stats_of_gates_are_what_they_did", gates == want, gates)

    done = run(1, [REGIONS, "busy"], UTOFU_STATS="1")
    lines = "\n".join(line for line in done.stderr.splitlines() if " region " not in line)
    vcqs = [v for v in stats(lines)[0, "vcq"] if int(v.get("nops", 0)) >= 2048]
    check("calls_that_find_the_toq_full_are_counted",
          done.returncode == 0 and len(vcqs) == 1 and vcqs[0].get("busy") == "3", done.stdout + done.stderr)

    # a signal halfway prints the counters so far, which then continue
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
            [RUN, "-n", "2", PERF, "-q", "-s", "8", "-n", "30000000", "put-lat"],
            env={**os.environ, "UTOFU_STATS": "1",
                 "UTOFU_TRACE": os.path.join(folder, "t.json") + ",limit=1"},
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
# Regions
#

def regions(text):
    """{(rank, name): {name: value}}"""
    return {(int(rank), name): dict(pair.split("=", 1) for pair in rest.split())
            for rank, rest, name in
            re.findall(r'^utofu: stats: \[rank (\d+)\] region (.*) name="(.*)"$', text, re.M)}


# region: calls, puts
IN_REGIONS = {"before the first call": (1, 3), "step": (10, 40), "inner": (20, 30),
              "left": (1, 2), "right": (1, 2), "both threads": (2, 5)}


def group_regions():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t.json")
        done = run(2, [REGIONS], UTOFU_STATS="1", UTOFU_TRACE=path)
        found = regions(done.stderr)
        for rank in (0, 1):
            got = {name: (int(v["calls"]), int(v.get("puts", 0)), int(v.get("put_bytes", 0)))
                   for (r, name), v in found.items() if r == rank}
            want = {name: (calls, puts, 8 * puts) for name, (calls, puts) in IN_REGIONS.items()}
            check(f"regions_count_what_was_done_in_them_of_rank_{rank}",
                  done.returncode == 0 and got == want, (got, done.stdout, done.stderr))
        check("a_region_in_a_region_takes_less_time",
              0 < float(found[0, "inner"]["seconds"]) < float(found[0, "step"]["seconds"]), found)
        merged, _ = merge([os.path.join(folder, f"t.{r}.json") for r in (0, 1)])
        t = Timeline(merged)
        slices = [e for v in t.slices.values() for e in v if e.get("cat") == "region"]
        counts = collections.Counter(e["name"] for e in slices if e["pid"] == 1)
        check("each_time_in_a_region_is_a_slice",
              counts == {name: calls for name, (calls, _) in IN_REGIONS.items()}, counts)
        check("slices_of_regions_do_not_cross", not t.overlaps(), t.overlaps()[:2])
        named = {t.tracks.get((e["pid"], e["tid"])) for e in slices}
        check("tracks_of_regions_have_names", named == {"regions of thread 0, level 0",
              "regions of thread 0, level 1", "regions of thread 0, level 2",
              "regions of thread 1, level 0"}, named)

        done = run(1, [REGIONS, "open"], UTOFU_STATS="1", UTOFU_TRACE=path,
                   UTOFU_LOG_LEVEL="warning")
        found = regions(done.stderr)
        check("a_region_that_is_open_at_the_end_counts_and_is_told",
              found.get((0, "left open"), {}).get("puts") == "2" and
              "region 'left open' is open at the end" in done.stderr, done.stderr)
        with open(os.path.join(folder, "t.0.json")) as f:
            last = [e for e in json.load(f) if e["name"] == "left open"]
        check("and_is_drawn_as_unfinished",
              len(last) == 1 and last[0]["args"] == {"unfinished": True}, last)
    done = run(1, [REGIONS, "bad"], UTOFU_STATS="1", UTOFU_LOG_LEVEL="warning")
    check("wrong_regions_are_refused", done.returncode == 0, done.stdout)
    for text in ("is NULL", "is empty", "longer than 63 bytes", "a thread that is not inside the region",
                 "inside 64 regions already", "1000 other regions"):
        check(f"and_the_log_says_{text.replace(' ', '_')}", text in done.stderr, done.stderr[:2000])
    done = run(1, [REGIONS, "codes"], UTOFU_LOG_LEVEL="error")
    check("names_are_checked_when_nothing_is_counted", done.returncode == 0 and done.stderr == "",
          done.stdout + done.stderr)
    done = run(1, [REGIONS])
    check("nothing_is_printed_when_nothing_is_counted",
          done.returncode == 0 and done.stderr == "", done.stderr)


#
# The summary of a job
#

def group_job():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "job.json")
        done = run(3, [REGIONS, "uneven"], UTOFU_STATS="job,json,file=" + path)
        with open(path) as f:
            job = json.load(f)
        check("the_summary_is_in_the_file_and_nowhere_else",
              done.returncode == 0 and done.stderr == "", done.stderr)
        check("everybody_has_reported",
              (job["size"], job["reported"], job["missing"], job["ranks"]) == (3, 3, [], 3), job)
        check("least_mean_and_most_and_whose_they_are",
              job["counters"]["puts"] == {"total": 3 * 52 + 3, "least": 52, "least_rank": 0,
                                          "mean": 53.0, "most": 54, "most_rank": 2}, job)
        done = run(2, [PERF, "-q", "-n", "10", "-w", "0", "barrier"], UTOFU_STATS="job,json,file=" + path)
        with open(path) as f:
            barrier = json.load(f)["counters"]
        check("barriers_are_summed_up",
              barrier["barriers"]["total"] == 20 and barrier["barriers_failed"]["total"] == 0 and
              barrier["barrier_blocked_us"]["total"] > 0 and "started" not in barrier, barrier)
        check("counters_without_a_name_in_a_summary_are_left_out",
              not {"None", "null", "(null)", "finished", "signals_in"} & set(barrier), barrier)
        done = run(2, [PERF, "-q", "-n", "1000", "-s", "8", "put-lat"], UTOFU_STATS="job,json,file=" + path)
        with open(path) as f:
            latency = json.load(f)["counters"]
        check("peers_and_waits_are_summed_up",
              latency["peers"]["least"] >= 1 and latency["blocked_us"]["total"] > 0, latency)
        check("a_high_water_mark_has_no_total",
              "total" not in job["counters"]["most_under_way"], job["counters"])
        got = {r["name"]: (r["ranks"], r["counters"]["calls"]["total"],
                           r["counters"]["puts"]["total"]) for r in job["regions"]}
        check("regions_of_all_ranks_are_summed_up",
              got == {name: (3, 3 * calls, 3 * puts)
                      for name, (calls, puts) in IN_REGIONS.items()}, got)

        done = run(1, [REGIONS], UTOFU_STATS="job,file=" + folder)
        check("a_file_that_cannot_be_written_is_an_error_line_and_the_summary_not_lost",
              f"file={folder} of UTOFU_STATS" in done.stderr and
              "summary of 1 of 1 ranks" in done.stderr, done.stderr)
    done = run(20, [REGIONS], UTOFU_STATS="job")
    check("one_text_for_a_tree_of_two_levels",
          done.stderr.count("summary of") == 1 and "summary of 20 of 20 ranks\n" in done.stderr and
          re.search(r"^utofu: stats:   puts +1040 +52 +0 +52\.0 +52 +0$", done.stderr, re.M),
          done.stderr)
    done = run(4, [REGIONS, "leaves", "2"], UTOFU_STATS="job")
    check("who_has_gone_without_a_word_is_missing",
          "summary of 3 of 4 ranks; 1 missing: 2\n" in done.stderr, done.stderr)
    done = run(20, [REGIONS, "leaves", "1"], UTOFU_STATS="job")
    check("a_parent_that_is_gone_takes_no_child_along",
          "summary of 19 of 20 ranks; 1 missing: 1\n" in done.stderr, done.stderr)
    done = run(20, [REGIONS, "absent", "1"], UTOFU_STATS="job")
    check("nor_does_one_that_never_comes",
          "summary of 19 of 20 ranks; 1 missing: 1\n" in done.stderr, done.stderr)
    done = run(20, [REGIONS, "late", "18"], UTOFU_STATS="job")
    check("who_ends_later_than_its_parent_is_waited_for",
          "summary of 20 of 20 ranks\n" in done.stderr, done.stderr)
    # the time includes the start, which takes seconds on a busy machine
    done = run(3, [REGIONS, "late", "2", "16"], UTOFU_STATS="job", UTOFU_JOB_TIMEOUT="8")
    check("but_no_longer_than_the_timeout",
          re.search(r"summary of [12] of 3 ranks; [12] missing: (1, )?2\n", done.stderr),
          done.stderr)
    done = run(3, [REGIONS, "leaves", "0"], UTOFU_STATS="job", UTOFU_LOG_LEVEL="warning")
    check("without_rank_0_the_others_print_what_they_have",
          done.returncode == 0 and done.stderr.count("rank 0 has ended") == 2 and
          done.stderr.count("summary of 1 of 3 ranks") == 2, done.stderr)
    done = run(1, [REGIONS], UTOFU_STATS="jobs")
    check("another_value_is_refused", "'jobs' is not allowed" in done.stderr, done.stderr)
    done = run(1, [REGIONS], UTOFU_STATS="1,file=x", UTOFU_LOG_LEVEL="warning")
    check("a_file_without_a_summary_is_a_warning",
          "the file of UTOFU_STATS has no effect" in done.stderr and not os.path.exists("x"), done.stderr)
    done = run(1, [REGIONS], UTOFU_STATS="yes")
    check("yes_is_1", "stats: [rank 0] vcq" in done.stderr, done.stderr)


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
            # a wait and the arrival that ended it touch: take the later slice
            if end["ts"] <= e["ts"] + e["dur"] + 1e-4 and e["name"] not in ("barrier",
                                                                           "empty polls"):
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


def trace(folder, n, command, options="", **env):
    path = os.path.join(folder, "t.json")
    done = run(n, command, UTOFU_TRACE=path + options, **env)
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
    """The number of barriers where every start leads to every result."""
    starts = [[e for (pid, tid), s in t.slices.items() for e in s
               if pid == r and e["cat"] == "gate" and e["name"] == "start"] for r in range(n)]
    if any(len(s) != ROUNDS for s in starts):
        return 0
    good = 0
    for i in range(ROUNDS):
        good += all({e["pid"] for e in t.reach(starts[r][i]) if e["name"] == "result"} ==
                    set(range(n)) for r in range(n))
    return good


def as_of_another_host(path, seconds, drift=0):
    """The same file as if its host had been booted later, and had a clock that drifts."""
    with open(path) as f:
        events = json.load(f)
    clock = next(e["args"] for e in events if e["name"] == "utofu_clock")
    first = min(e["ts"] for e in events if "ts" in e)
    clock["host"] = "00000000deadbeef"
    clock["monotonic_to_realtime_ns"] += int(seconds * 1e9)
    for e in events:
        if "ts" in e:
            e["ts"] = round(first + (e["ts"] - first) * (1 + drift) - seconds * 1e6, 3)
    with open(path, "w") as f:
        json.dump(events, f)


def without(path, wanted):
    """The same file without the first line that has all words of `having`."""
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
        for seconds, drift in ((1000, 0), (-1000.3, 0), (1000, 1e-3), (1000, -1e-3)):
            as_of_another_host(files[1], seconds, drift)
            t = Timeline(merge(files)[0])
            check(f"another_host_is_moved_in_time, {seconds} s, drift {drift}",
                  chains(t) == ROUNDS, (chains(t), t.homeless[:3]))
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
                            options=",limit=1")
        for path in files:
            with open(path) as f:
                json.load(f)
        check("limit_is_kept", all(os.path.getsize(f) < (1 << 20) + 4096 for f in files) and
              "the limit of UTOFU_TRACE" in done.stderr and done.returncode == 0, done.stderr)
    with tempfile.TemporaryDirectory() as folder:
        # killed halfway: the events written so far can be read
        path = os.path.join(folder, "t.json")
        with subprocess.Popen([RUN, "-n", "2", PERF, "-q", "-s", "8", "-n", "30000000", "put-lat"],
                              env={**os.environ, "UTOFU_TRACE": path + ",limit=0"},
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


# Merging: timelines of simulated hosts with given clocks

class Host:
    """A host whose clock shows offset + time + drift(time), and whose time of day is wrong."""

    def __init__(self, number, offset, drift, day_wrong):
        self.number, self.offset, self.drift, self.day_wrong = number, offset, drift, day_wrong
        self.events = []

    def local(self, at):
        return self.offset + at + self.drift(at)

    def add(self, at, **more):
        self.events.append({"ph": "X", "pid": self.number, "tid": 1, "ts": self.local(at),
                            "cat": "test", **more})

    def write(self, folder, layout=None):
        path = os.path.join(folder, f"m.{self.number}.json")
        clock = {"job": "test", "rank": self.number, "size": 9, "host": f"{self.number:016x}",
                 "monotonic_to_realtime_ns": int((self.day_wrong - self.offset) * 1e3) + 10**18}
        head = {"ph": "M", "pid": self.number, "name": "utofu_clock", "args": clock}
        with open(path, "w") as f:
            if layout:
                events = [dict(reversed(e.items())) for e in [head, *self.events]]
                f.write("  \n" + json.dumps(events, **layout) + "\n\n")
            else:
                f.write("[\n" + ",\n".join(json.dumps(e) for e in [head, *self.events]) + "\n]\n")
        return path


def converse(hosts, routes, seconds, seed, latency=lambda r: 2 + r.expovariate(0.5)):
    """Messages along the routes, about one per ms; the true time is an argument of each event."""
    r = random.Random(seed)
    at, number = 0.0, 0
    while at < seconds * 1e6:
        at += r.expovariate(1e-3)
        time_ = at
        for a, b in r.choice(routes):
            number += 1
            arrival = time_ + latency(r)
            hosts[a].add(time_, dur=0.5, name="out", args={"true": time_})
            hosts[a].add(time_, ph="s", id=hex(number), name="message")
            hosts[b].add(arrival, dur=0.5, name="in", args={"true": arrival})
            hosts[b].add(arrival, ph="f", id=hex(number), name="message", bp="e")
            time_ = arrival + r.expovariate(1)


def judge_clocks(name, hosts, error_us):
    """No arrow and no time runs backwards, and times are right within the given microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        files = [h.write(folder) for h in hosts]
        events, done = merge(files)
        judged = trace_check(files)
    t = Timeline(events)
    check(f"{name}_arrows_run_forward", t.arrows and not t.loose and
          all(f["ts"] >= s["ts"] for s, f in t.arrows) and done.stderr == "" and
          judged.returncode == 0, (len(t.arrows), len(t.loose), done.stderr, judged.stderr))
    slices = [e for s in t.slices.values() for e in s]
    back = [1 for h in hosts
            for a, b in itertools.pairwise(sorted((e["args"]["true"], e["ts"]) for e in slices
                                                  if e["pid"] == h.number))
            if b[1] < a[1] - 1e-2]
    check(f"{name}_time_runs_forward", not back, len(back))
    first = hosts[0]
    worst = max(abs(e["ts"] - first.local(e["args"]["true"])) for e in slices)
    check(f"{name}_times_are_right", worst < error_us, worst)


def slewed(at):
    """100 ppm for three seconds, -200 ppm for two, then right."""
    return 1e-4 * min(at, 3e6) - 2e-4 * min(max(at - 3e6, 0), 2e6)


def group_clocks():
    there_and_back = [[(0, 1)], [(1, 0)]]
    ring = [[(0, 1), (1, 2), (2, 3), (3, 0)]]
    to_all = [[(a, b)] for a in range(4) for b in range(4) if a != b]

    def hosts(n, *drifts):
        return [Host(i, 1e9 * i + 777.7, drifts[i % len(drifts)], 3000.0 * i) for i in range(n)]

    def still(at):
        return 0

    def ppm50(at):
        return 5e-5 * at

    def ppm_20(at):
        return -2e-5 * at

    for name, h, routes, seconds, error in (
            ("two_hosts", hosts(2, still), there_and_back, 2, 3),
            ("two_drifting", hosts(2, still, ppm50), there_and_back, 4, 5),
            ("two_slewed", hosts(2, still, slewed), there_and_back, 6, 10),
            ("ring", hosts(4, still), ring, 2, 10),
            ("drifting_ring", hosts(4, still, ppm50, ppm_20), ring, 4, 20),
            ("all_to_all", hosts(4, still), to_all, 2, 3),
            ("drifting_all_to_all", hosts(4, still, ppm50, slewed, ppm_20), to_all, 6, 20),
            ("one_way", hosts(2, still), [[(0, 1)]], 2, 3010)):
        converse(h, routes, seconds, 1)
        judge_clocks(name, h, error)

    # delays that no clock explains are reported
    h = hosts(2, still)
    converse(h, [[(0, 1), (1, 0)]], 0.1, 2, lambda r: -5)
    with tempfile.TemporaryDirectory() as folder:
        done = trace_check([x.write(folder) for x in h])
    check("contradiction_is_told", done.returncode == 1 and "end before they begin" in done.stderr,
          done.stderr)


def group_bad():
    for env, words in (({"UTOFU_TRACE": "/nowhere/t.json"}, ("UTOFU_TRACE", "cannot write /nowhere/t.",
                                                             "No such file")),
                       ({"UTOFU_TRACE": "/tmp/"}, ("UTOFU_TRACE", "Is a directory")),
                       ({"UTOFU_STATS": "2"}, ("UTOFU_STATS", "'2' is not allowed")),
                       ({"UTOFU_TRACE": "limit=-1"}, ("UTOFU_TRACE,limit", "is not allowed"))):
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


def tool(*args, **more):
    return subprocess.run([TRACE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          **more)


def contents(path):
    with open(path) as f:
        return f.read()


def group_merge():
    with tempfile.TemporaryDirectory() as folder:
        hosts = [Host(i, 1e6, lambda at: 0, 0) for i in range(3)]
        converse(hosts, [[(0, 1)], [(1, 2)], [(2, 0)]], 0.05, 3)
        files = [h.write(folder) for h in hosts]
        want, done = merge(files)
        check("timelines_merge", done.returncode == 0 and done.stderr == "" and
              len(want) == sum(len(h.events) + 1 for h in hosts), done.stderr)

        # in any layout of the JSON
        for layout in ({"indent": 4}, {"separators": (",", ":")}, {"sort_keys": True, "indent": 1}):
            got, done = merge([h.write(folder, layout) for h in hosts])
            check(f"layout_{layout}_does_not_matter", got == want, done.stderr)
        files = [h.write(folder) for h in hosts]

        # an output is written as a whole, or left as it was
        out = os.path.join(folder, "all.json")
        done = tool("-o", out, *files)
        check("output_is_a_file", done.returncode == 0 and json.loads(contents(out)) == want)
        check("merged_files_are_not_merged_again",
              "is merged already" in tool("-o", os.path.join(folder, "no"), out).stderr)
        link = os.path.join(folder, "link.json")
        os.link(files[1], link)
        before = [contents(f) for f in files]
        cut, bad, other = (os.path.join(folder, n) for n in ("cut.json", "bad.json", "other.json"))
        with open(cut, "w") as f:
            f.write(before[0][:len(before[0]) * 2 // 3])
        with open(bad, "w") as f:
            f.write(before[0].replace('"dur": 0.5', '"dur" 0.5', 1))
        with open(other, "w") as f:
            f.write('{"benchmark": "put-lat", "results": [1, 2]}\n')
        events = os.path.join(folder, "events.json")
        with open(events, "w") as f:
            f.write('[{"ph": "X", "ts": 1, "dur": 2, "pid": 1, "tid": 1, "name": "a"}]\n')
        empty = os.path.join(folder, "empty.json")
        with open(empty, "w"):
            pass
        job = os.path.join(folder, "job.json")
        with open(job, "w") as f:
            f.write(before[1].replace('"job": "test"', '"job": "another"'))
        smaller = os.path.join(folder, "smaller.json")
        with open(smaller, "w") as f:
            f.write(before[1].replace('"size": 9', '"size": 3'))
        for name, args, status, words in (
                ("one_file_twice", files + [files[1]], 1, (files[1], "both the timeline of rank 1")),
                ("a_link", files + [link], 1, (files[1], link, "both the timeline of rank 1")),
                ("no_json", [bad], 1, (bad, "no timeline", "at byte")),
                ("another_program", [files[0], other], 1, (other, "no timeline", "array")),
                ("other_events", [events], 1, (events, "no timeline", "utofu_clock")),
                ("nothing", [empty], 1, (empty, "no timeline")),
                ("two_jobs", [files[0], job], 1, (files[0], job, "of job test", "of job another")),
                ("two_sizes", [files[0], smaller], 1, (files[0], smaller, "9 ranks", "with 3"))):
            new = os.path.join(folder, "new.json")
            done = tool("-o", new, *args)
            check(f"{name}_is_refused", done.returncode == status and
                  all(w in done.stderr for w in words) and done.stderr.count("\n") == 1 and
                  not os.path.exists(new), done.stderr)
            tool("-o", out, *args)
            check(f"{name}_leaves_the_output", json.loads(contents(out)) == want)
        for name, path in (("an_input", files[1]), ("a_link_to_one", link)):
            done = tool("-o", path, *files)
            check(f"{name}_is_no_output", done.returncode == 2 and "to be written" in done.stderr and
                  [contents(f) for f in files] == before, done.stderr)
        with open(files[1], "a") as f:
            done = subprocess.run([TRACE, *files], stdout=f, stderr=subprocess.PIPE, text=True)
        check("an_input_is_no_standard_output", done.returncode == 2 and
              [contents(f) for f in files] == before, done.stderr)
        # before any input is read
        done = tool("-o", os.path.join(folder, "none", "all.json"), bad)
        check("output_is_opened_first", done.returncode == 1 and "cannot write" in done.stderr,
              done.stderr)
        if os.path.exists("/dev/full"):
            done = tool("-o", "/dev/full", *files)
            check("full_disk_is_an_error", done.returncode == 1 and "No space" in done.stderr,
                  done.stderr)

        # the file of a killed process: all complete events
        got, done = merge([cut, *files[1:]])
        check("a_file_that_ends_early_is_closed", done.returncode == 0 and
              "1 of 3 files end early" in done.stderr and 100 < len(got) < len(want), done.stderr)
        for size in range(1, 400, 7):
            with open(cut, "w") as f:
                f.write(before[0][:size])
            done = tool("--check", cut)
            if done.returncode != 1 or ("end early" in done.stderr) == ("no timeline" in done.stderr):
                check(f"cut_after_{size}_is_an_error", False, done.stderr)
        check("help_has_80_columns", max(map(len, tool("--help").stdout.split("\n"))) <= 80)


groups = {name[6:]: f for name, f in globals().items() if name.startswith("group_")}
if len(sys.argv) != 2 or sys.argv[1] not in groups:
    sys.exit(f"usage: test_stats.py {'|'.join(groups)}")
groups[sys.argv[1]]()
sys.exit(failures != 0)
