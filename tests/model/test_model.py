#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""utofu-model: its figures for programs that run here, and properties of recordings made up here.

usage: test_model.py GROUP, with UTOFURUN, MODEL, TABLES and PATTERNS naming the programs, MACHINE the
file of Fugaku's parameters, and HEADER utofu.h.
"""
import glob
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import recordings  # noqa: E402

failures = 0
RUN, MODEL, TABLES, PATTERNS, MACHINE, HEADER, EXAMPLES, ADAPTER = (
    os.environ.get(name)
    for name in ("UTOFURUN", "MODEL", "TABLES", "PATTERNS", "MACHINE", "HEADER", "EXAMPLES", "ADAPTER"))


def check(name, good, text=""):
    global failures
    print(f"{'ok' if good else 'FAILED'}: {name}{'' if good else ': ' + str(text)}")
    failures += not good


def near(name, got, want, part):
    check(f"{name}: {got:.3f}, expected {want:.3f}", abs(got - want) <= part * want,
          f"{100 * (got / want - 1):.1f} % off")


def model(paths, *options, machine=None):
    return subprocess.run([MODEL, "-m", machine or MACHINE, *options, *paths], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=500)


def predict(paths, *options, machine=None):
    run = model(paths, "--json", *options, machine=machine)
    if run.returncode != 0:
        check("utofu-model", False, run.stderr)
        sys.exit(1)
    return json.loads(run.stdout)


def regions(result):
    return {r["name"]: r for r in result["regions"]}


def record(folder, name, ranks, command, before=(), **env):
    for old in glob.glob(os.path.join(folder, f"{name}.*.rec")):
        os.unlink(old)
    run = subprocess.run([*before, RUN, "-n", str(ranks), "--nodes", str(ranks), *command], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, timeout=500,
                         env={**os.environ, "UTOFU_TRACE": f"{folder}/{name}.rec,record=1", **env})
    paths = sorted(glob.glob(os.path.join(folder, f"{name}.*.rec")))
    if run.returncode != 0 or len(paths) != ranks:
        check(f"recording {' '.join(command)}", False, f"{len(paths)} recordings; {run.stdout}")
        sys.exit(1)
    return paths


def changed_machine(folder, *changes):
    """A machine file with (pattern, replacement) changes."""
    with open(MACHINE, encoding="utf-8") as file:
        text = file.read()
    for old, new in changes:
        text, n = re.subn(old, new, text, flags=re.M)
        assert n, old
    path = os.path.join(folder, "machine.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


#
# Figures of Fugaku: docs/guide/model.md has their source
#

ROUNDS = 12


def test_tables(folder):
    def run(case):
        return regions(predict(record(folder, case, 12, [TABLES, case, str(ROUNDS)])))
    put, get, armw, windows, ring = map(run, ("put", "get", "armw", "windows", "ring"))
    for distance, low, high in ((1, 0.97, 0.99), (2, 1.04, 1.08), (3, 1.13, 1.13)):
        near(f"put over {distance} links", put[f"put distance {distance}"]["mean_us"] / ROUNDS / 2,
             (low + high) / 2, 0.1)
    for distance, value in ((1, 1.495), (2, 1.65), (3, 1.80)):
        near(f"get over {distance} links", get[f"get distance {distance}"]["mean_us"] / ROUNDS, value, 0.1)
    for distance, value in ((1, 1.335), (2, 1.49), (3, 1.63)):
        near(f"armw8 over {distance} links", armw[f"armw distance {distance}"]["mean_us"] / ROUNDS, value, 0.1)
    # the recorded times between the calls decide how full the window is: on a busy machine it is empty at times
    again = [run("windows") for _ in range(2)]
    for size, puts, gets in ((1024, 3.49, 3.48), (4096, 6.18, 6.12), (16384, 6.32, 6.31), (65536, 6.32, 6.31)):
        for kind, value in (("put", puts), ("get", gets)):
            took = min(r[f"{kind} window {size}"]["mean_us"] for r in (windows, *again))
            near(f"{kind}s of {size} B, 8 in flight, GB/s", 8 * ROUNDS * size / took / 1e3, value, 0.15)
    for size, value in ((2080, 1.56), (4160, 1.83), (8320, 2.49), (16640, 3.81), (33280, 6.75), (66560, 11.70)):
        near(f"hop of a ring of {size} B", ring[f"ring {size}"]["mean_us"] / ROUNDS / 12, value, 0.1)


def test_patterns(folder):
    links = regions(predict(record(folder, "links", 3, [PATTERNS, "links", "10", "65536"])))
    one = links["one put"]["max_us"]
    check("two puts over one link take twice as long",
          1.75 < links["two puts, one link"]["max_us"] / one < 2.05, links)
    check("two puts over two links take hardly longer",
          links["two puts, two links"]["max_us"] / one < 1.15, links)
    stripe = regions(predict(record(folder, "stripe", 2, [PATTERNS, "stripe", "10", "65536"])))
    rate = [n * 10 * 65536 / stripe[f"stripe {n}"]["max_us"] / 1e3 for n in range(1, 7)]
    check("several TNIs to a neighbour get no more than the link has", max(rate) < 6.5, rate)
    check("and no less than one TNI", min(rate[1:]) > rate[0], rate)
    result = predict(record(folder, "lengths", 2, [PATTERNS, "lengths", "1000", "60000"]))
    received = sum(t["bytes"] for t in result["tnis"] if "receiving" in t["name"] and "node 1" in t["name"])
    check("puts of different lengths to one address are told apart", 30e6 < received < 31e6, received)
    barrier = {}
    for ranks in (2, 4, 8):
        paths = record(folder, "barrier", ranks, [PATTERNS, "barrier", "20"])
        barrier[ranks] = regions(predict(paths))["barrier"]["mean_us"]
    check("a barrier takes longer the deeper its circuit is", barrier[2] < barrier[4] < barrier[8], barrier)


def time_in(folder, command, region, ranks=12, **how):
    """Of the rank that begins the region first: when the others begin depends on the meeting before, which
    looks at the clock. Without a region: of the job. On a machine in which puts do not meet: where they do, the time
    also depends on how far ranks are apart."""
    apart = changed_machine(folder, (r"^rate = 6.8", "rate = 1e9"), (r"^queued = \d+", "queued = 1e9"))
    result = predict(record(folder, "same", ranks, command, **how), machine=apart)
    return regions(result)[region]["max_us"] if region else result["time_us"]


def usual_time_in(*args, **how):
    """Of three recordings: on a busy machine one has times up to 4 % above and below others."""
    return sorted(time_in(*args, **how) for _ in range(3))[1]


def providers():
    """How to record over each provider that is here."""
    yield "", {}
    yield " over libfabric", {"UTOFU_PROVIDER": "ofi"}
    if ADAPTER:
        yield " over verbs", {"UTOFU_PROVIDER": "verbs", "before": (ADAPTER, "--profile", "rxe", "--")}


def test_told(folder):
    """What is concluded from repetitions is what the program says itself."""
    for case in ("halo", "allgather", "doubling"):
        command = [PATTERNS, case, "60", "4096"]
        told = usual_time_in(folder, command + ["tell"], case)
        for name, how in providers():
            near(f"{case}{name}: concluded as told", usual_time_in(folder, command, case, **how), told, 0.05)


FLOWS = ("chain", "pipeline", "broadcast", "reduce", "sweep", "master")


def test_flows(folder):
    """Where little or nothing flows back, what is concluded is not faster than what the program says."""
    for case in FLOWS:
        command = [PATTERNS, case, "12", "16640"]
        told = regions(predict(record(folder, case, 12, command + ["tell"])))
        concluded = regions(predict(record(folder, case, 12, command)))
        for name in (case, case + " half"):
            ratio = concluded[name]["mean_us"] / told[name]["mean_us"]
            check(f"{name}: concluded {ratio:.3f} times as long as told", ratio >= 0.95)
        ratio = concluded["chain"]["mean_us"] / told["chain"]["mean_us"] if case == "chain" else 1
        check(f"a chain with two lengths is concluded rightly: {ratio:.3f}", ratio < 1.03)


def same_everywhere(folder, name, *what):
    """The schedule of this machine, and the provider, have no influence."""
    shm = time_in(folder, *what)
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(20)]
    try:
        loaded = time_in(folder, *what)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    near(f"{name} beside 20 other processes", loaded, shm, 0.03)
    for provider, how in list(providers())[1:]:
        near(name + provider, time_in(folder, *what, **how), shm, 0.03)


def test_same(folder):
    for name, command, region in (("ring", [TABLES, "ring", "6"], "ring 8320"),
                                  ("halo", [PATTERNS, "halo", "60", "4096"], "halo"),
                                  ("halo, told", [PATTERNS, "halo", "12", "4096", "tell"], "halo"),
                                  ("allgather", [PATTERNS, "allgather", "60", "4096"], "allgather"),
                                  ("doubling", [PATTERNS, "doubling", "60", "4096"], "doubling"),
                                  ("doubling, told", [PATTERNS, "doubling", "60", "4096", "tell"], "doubling")):
        same_everywhere(folder, name, command, region)
    for name in ("pingpong_notice", "halo_exchange", "session_ring", "barrier_sum"):
        same_everywhere(folder, name, [os.path.join(EXAMPLES, name)], None, EXAMPLE_RANKS[name])


EXAMPLE_RANKS = {"pingpong_notice": 2, "halo_exchange": 4, "session_ring": 4,
                 "progress_by_get": 2, "reserved_stag": 2, "barrier_sum": 5, "reduction": 4, "work_queue": 3}


def test_record(folder):
    """Programs that were not written for it are recorded and replayed."""
    polls_in_vain(folder)
    for name, ranks in EXAMPLE_RANKS.items():
        paths = record(folder, name, ranks, [os.path.join(EXAMPLES, name)], UTOFU_STATS="job,json,file=" + folder
                       + "/stats.json")
        run = model(paths, "--json")
        check(f"{name} is replayed", run.returncode == 0, run.stderr)
        if name == "session_ring":
            ops = [r.op for path in paths for r in recordings.read(path)]
            started, puts = ops.count(recordings.STARTED), ops.count(recordings.PUT)
            check(f"session mode has started {started} of {puts} puts", 0 < started <= puts)
        with open(folder + "/stats.json", encoding="utf-8") as file:
            counted = json.load(file)["counters"]
        comms = sum(counted.get(kind, {}).get("total", 0) for kind in ("puts", "gets", "armws", "nops", "barriers"))
        size = sum(os.path.getsize(path) - recordings.size_of(path, b"L") for path in paths)
        check(f"{name}: {size} bytes of {comms} communications are at most 100 each",
              size <= 100 * comms + 1000 * ranks)
    check("a recording that reaches its limit is not a whole one", limited(folder))


def polls_in_vain(folder):
    """A rank that waits for an answer has polled before it comes, and after its last call."""
    paths = record(folder, "vain", 2, [os.path.join(EXAMPLES, "pingpong_notice")])
    for path in paths:
        notices = [r for r in recordings.read(path) if r.op == recordings.MRQ_POLL]
        vain = [r for r in notices if r.polled]
        check(f"{len(vain)} of {len(notices)} notices were polled before they came", vain)
        check("and since the call before them", all(r.polled <= r.since for r in vain), vain)


def limited(folder):
    run = subprocess.run([RUN, "-n", "12", TABLES, "windows", "2500"], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, timeout=500,
                         env={**os.environ, "UTOFU_TRACE": f"{folder}/limit.rec,record=1,limit=1"})
    refused = model([f"{folder}/limit.0.rec"])
    return "the limit of UTOFU_TRACE is reached" in run.stdout and refused.returncode == 1 and \
        "the recording ends here, without its end" in refused.stderr


#
# Properties, of recordings that are made up
#

def one_put(flags, length=8, to=1, size=12):
    job = recordings.Job(size, HEADER)
    t = job.threads[0]
    t.put((0, 0, 0), (to, 0, 0), length, job.flag(*flags))
    return job


def parameters():
    with open(MACHINE, encoding="utf-8") as file:
        return {k: float(v) for k, v in re.findall(r"^(\w+) = ([\d.]+)", file.read(), re.M)}


def time_of(folder, job, *options, machine=None):
    return predict(job.write(folder), *options, machine=machine)["time_us"] * 1e3


def put_and_see(length, to, size=12):
    """Rank 0 puts to another rank, which has seen it."""
    job = one_put((), length, to, size)
    job.threads[to].seen(0, length)
    return job


def test_sums(folder):
    p = parameters()
    for length, packets in ((8, 1), (1920, 1), (1921, 2), (19200, 10)):
        wire = (length + packets * p["overhead"]) / 6.8
        first = min(length, 1920) / p["packet_rate"]
        want = p["call_ns"] + p["send_ns"] + first + p["hop_ns"] + wire + p["receive_ns"] + p["see_ns"]
        near(f"put of {length} B without contention, the sum of its parts",
             time_of(folder, put_and_see(length, 1)), want, 0.001)
    hops = {1: 1, 2: 1, 3: 2, 4: 1, 9: 3, 11: 3}
    base = time_of(folder, put_and_see(8, 1)) - p["hop_ns"]
    for to, links in hops.items():
        near(f"put from node 0 to node {to} passes {links} links", time_of(folder, put_and_see(8, to)),
             base + links * p["hop_ns"], 0.001)
    wait = recordings.Job(12, HEADER)
    wait.threads[0].timed(recordings.NOP, number_of_nop(wait), compute=5000)
    near("compute counts as often as asked", time_of(folder, wait, "--compute", "2")
         - time_of(folder, wait), 10000, 0.001)
    took = [time_of(folder, nop_beside_a_relay(sps)) for sps in (0, 3)]
    check("a NOP that says SPS allows nobody to start", took[0] == took[1], took)


def number_of_nop(job, rank=0, sps=0):
    """The body of a NOP."""
    index = job.threads[rank].define_vcq((rank, 0, 0))
    return index + index + recordings.number(0) * 2 + bytes([sps]) + recordings.number(0) * 3


def nop_beside_a_relay(sps):
    """Rank 0 has a session-mode VCQ relay a put, and starts a NOP."""
    job = recordings.Job(12, HEADER)
    job.session[1, 0, 0] = recordings.SESSION
    job.threads[1].put((1, 0, 0), (2, 0, 0), 8, job.flag("REMOTE_MRQ_NOTICE"))
    job.threads[0].put((0, 0, 0), (1, 0, 0), 8, 0, sps=1).timed(recordings.NOP, number_of_nop(job, sps=sps))
    job.threads[2].mrq((2, 0, 0), "RMT_PUT", (1, 0, 0))
    return job


def timed_puts(measured, count=20):
    """Puts of 8 bytes to another node, each with its local notice so many ns later."""
    job = recordings.Job(12, HEADER)
    thread = job.threads[0]
    thread.region("all", at=1000)
    for i in range(count):
        at = 2000 + i * 10000
        thread.put((0, 0, 0), (1, 0, 0), 8, job.flag("LOCAL_MRQ_NOTICE"), at=at)
        thread.mrq((0, 0, 0), "LCL_PUT", (1, 0, 0), at=at + measured)
    return job


def compared(paths, *options):
    """The row of the puts: measured and told, in ns; and all of the text."""
    run = model(paths, *options)
    check("utofu-model compares", run.returncode == 0, run.stderr)
    row = re.search(r"^ +([\d.]+) +([\d.]+) .* put to local notice +8  all +(.*)$", run.stdout, re.M)
    check("puts have a row", row, run.stdout)
    return float(row.group(1)) * 1000, float(row.group(2)) * 1000, row.group(3), run.stdout


def test_compare(folder):
    with open(MACHINE, encoding="utf-8") as file:
        before = file.read()
    paths = timed_puts(3000).write(folder)
    measured, told, keys, text = compared(paths, "--compare")
    near("measured", measured, 3000, 0.001)
    check("keys that would explain the difference", re.match(r"\w+\.\w+ = [\d.]+, ", keys), keys)
    name, value = re.match(r"(\S+) = ([\d.e+]+)", keys).groups()
    again = compared(paths, "--compare", "-m", changed_machine(folder, (rf"^{name.partition('.')[2]} = \S+",
                                                                        f"{name.partition('.')[2]} = {value}")))
    near(f"with {name} = {value} the model tells what was measured", again[1], 3000, 0.15)
    fit = compared(paths, "--fit")[3]
    errors = re.search(r"mean difference of \d+ medians: ([\d.]+) % before, ([\d.]+) % after", fit)
    check("--fit makes the difference smaller", errors and float(errors.group(2)) < 2 < float(errors.group(1)), fit)
    check("and proposes keys", re.search(r"^\[tni\]\n(?:\w+ = [\d.e+-]+    # \S+\n)+", fit, re.M), fit)
    with open(MACHINE, encoding="utf-8") as file:
        check("the machine's file stays as it is", file.read() == before)
    twin = timed_puts(round(told)).write(folder)
    measured, told, keys, text = compared(twin, "--fit")
    near("where the model is right it tells what was measured", told, measured, 0.01)
    check("and nothing is proposed", " = " not in text.partition("% after")[2], text)
    check("options that do not fit are refused", model(paths, "--fit", "--wrong").returncode == 2)


def test_bytes(folder):
    job = recordings.Job(12, HEADER)
    lengths = {}
    for rank in range(12):
        for k, to in enumerate(range(12)):
            lengths[rank, to] = 100 * rank + 5000 * k + 8
            job.threads[rank].put((rank, 0, 0), (to, 0, 0), lengths[rank, to], 0)
    result = predict(job.write(folder))
    sent = sum(lengths[rank, to] for rank in range(12) for to in range(12))
    tnis = {t["name"]: t["bytes"] for t in result["tnis"]}
    check("TNIs receive what was put to them",
          all(bytes_ == sum(lengths[rank, int(re.search(r"node (\d+)", name)[1])] for rank in range(12))
              for name, bytes_ in tnis.items() if "receiving" in name), tnis)
    check("no link carries more than was put", all(link["bytes"] <= sent for link in result["links"]))
    single = predict(one_put((), 5000, 9).write(folder))
    check("each link of the route carries the bytes once", [link["bytes"] for link in single["links"]] == [5000] * 3,
          single["links"])


def two_puts(targets, length=100000, paths=None):
    """From rank 0, by two TNIs; the local notices are waited for."""
    job = recordings.Job(12, HEADER)
    job.paths = paths or {}
    t = job.threads[0]
    for tni, to in enumerate(targets):
        t.put((0, tni, 0), (to, tni, 0), length, job.flag("LOCAL_MRQ_NOTICE"))
    for tni, to in enumerate(targets):
        t.mrq((0, tni, 0), "LCL_PUT", (to, tni, 0))
    return job


def test_contention(folder):
    one, same, other = (time_of(folder, two_puts(targets)) for targets in ([1], [1, 1], [1, 2]))
    near("two long puts over one link", same / one, 2, 0.06)
    near("two long puts over two links", other / one, 1, 0.04)
    job = recordings.Job(12, HEADER)  # two senders, one TNI that receives
    for rank in (1, 2):
        job.threads[rank].put((rank, 0, 0), (0, 0, 0), 100000, job.flag("LOCAL_MRQ_NOTICE"))
        job.threads[rank].mrq((rank, 0, 0), "LCL_PUT", (0, 0, 0))
    near("two senders to one TNI, over two links", time_of(folder, job) / one, 2, 0.06)
    job = two_puts([1, 1], paths={(0, (1, 1, 0)): (1, 1, 0)})  # by way of the node at b = 1
    near("two long puts to one neighbour by two paths", time_of(folder, job) / one, 1, 0.06)


def streams(transfers, ranks=12, length=400000, kind=recordings.PUT, same=1, **more):
    """Each of (from, TNI, to, TNI[, path]): `same` long transfers at once, whose local notices are waited for. CQs are
    numbered by ranks, as processes of a node have different ones."""
    job = recordings.Job(ranks, HEADER, **more)
    notice = {recordings.PUT: "LCL_PUT", recordings.GET: "LCL_GET", recordings.ARMW: "LCL_ARMW"}[kind]
    for rank, tni, to, far, *path in transfers:
        for _ in range(same):
            job.threads[rank].comm(kind, (rank, tni, rank), (to, far, to), length, job.flag("LOCAL_MRQ_NOTICE"),
                                   path=path[0] if path else None)
    for rank, tni, to, far, *path in transfers:
        for _ in range(same):
            job.threads[rank].mrq((rank, tni, rank), notice, (to, far, to))
    return job


def six_neighbours(rank):
    """Rank 0 in the middle, with one neighbour at each of the ports a, b+, b-, c, y+, z+."""
    return ((0,) * 6, (0, 0, 0, 1, 0, 0), (0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 2, 0), (0, 0, 0, 0, 0, 1),
            (0, 1, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0))[rank]


def test_tnis(folder):
    """Several TNIs, and several flights on one of them."""
    one = time_of(folder, streams([(0, 0, 1, 0)]))
    for n in (2, 4, 6):
        same = time_of(folder, streams([(0, t, 1, t) for t in range(n)]))
        near(f"{n} TNIs to a neighbour share the link", same / one, n, 0.06)
        gets = time_of(folder, streams([(0, t, 1, t) for t in range(n)], kind=recordings.GET))
        near(f"so do gets by {n} TNIs", gets / one, n, 0.06)
    ways = [(0, t, 1, t, path) for t, path in enumerate(((1, 0, 0), (0, 1, 0), (0, 2, 0), (0, 0, 1)))]
    near("four paths that share no link are four times as fast", time_of(folder, streams(ways)) / one, 1, 0.08)
    near("with one TNI they are no faster than its rate",
         time_of(folder, streams([(0, 0, 1, 0, way[4]) for way in ways])) / one, 4, 0.06)
    out = [(0, t, t + 1, 0) for t in range(6)]
    near("six TNIs by six links", time_of(folder, streams(out, 7, coords=six_neighbours)) / one, 1, 0.06)
    near("six senders to six TNIs of a node",
         time_of(folder, streams([(t + 1, 0, 0, t) for t in range(6)], 7, coords=six_neighbours)) / one, 1, 0.06)
    near("six senders to one TNI have its rate",
         time_of(folder, streams([(t + 1, 0, 0, 0) for t in range(6)], 7, coords=six_neighbours)) / one, 6, 0.06)
    far = [(0, t, 3, t, path) for t, path in enumerate(((0, 0, 0), (1, 0, 1)))]
    near("two paths that end on one link", time_of(folder, streams(far)) / one, 2, 0.1)
    turns(folder)
    processes(folder)
    rates(folder)


def gather(size, tnis, rounds=1, late=(), ranks=12):
    """Each rank puts to all others, by TNIs for two peers each, and polls the TCQ at the end; or by one TNI, and polls
    it after each put. Then it has seen all that came. late: ns of CPU time of each rank before."""
    job = recordings.Job(ranks, HEADER)
    flags = job.flag("TCQ_NOTICE", "STRONG_ORDER")
    for rank, ns in enumerate(late):
        job.threads[rank].timed(recordings.NOP, number_of_nop(job, rank), compute=ns)
    for thread in job.threads:
        thread.region("all")
    for _ in range(rounds):
        job.clock += 100000
        for i in range(ranks - 1):
            for rank, thread in enumerate(job.threads):
                to, tni = (rank + 1 + i) % ranks, i * tnis // (ranks - 1)
                thread.put((rank, tni, 0), (to, tni, 0), size, flags, stadd=rank << 20)
                if tnis == 1:
                    thread.tcq((rank, tni, 0))
        for rank, thread in enumerate(job.threads):
            for i in range(ranks - 1 if tnis > 1 else 0):
                thread.tcq((rank, i * tnis // (ranks - 1), 0))
            for i in range(ranks):
                if i != rank:
                    thread.seen(i << 20, size)
    for thread in job.threads:
        thread.region("all", False)
    return job


def test_many(folder):
    """Measured values of all-gathers to 11 peers, us: docs/guide/model.md."""
    for size, tnis, measured in ((1024, 6, 4.93), (262144, 6, 436), (1024, 1, 14.99)):
        got = regions(predict(gather(size, tnis).write(folder)))["all"]["max_us"]
        near(f"all-gather of {size} B by {tnis} TNIs", got, measured, 0.15)
    drift(folder)
    blocked(folder)
    circles(folder)


LATE = (6229, 7418, 7952, 9425, 7399, 9223, 290, 4656, 9434, 6490, 9009, 1132)  # ns by which ranks begin later


def drift(folder):
    """Ranks that put to one after the other meet no other put while they are in step; once they are not, it gets worse
    from round to round, since puts that wait block others."""
    rounds = 30
    step = time_of(folder, gather(262144, 1, rounds)) / rounds / 1e3
    check(f"in step: {step:.0f} us a round", step < 480)
    job = gather(262144, 1, rounds, LATE)
    ways = time_of(folder, job, "--compute", "1") / rounds / 1e3
    near("out of step: us a round, as measured", ways, 1160, 0.15)
    room = changed_machine(folder, (r"^queued = \d+", "queued = 1e9"))
    check("with room for all that waits they stay in step",
          time_of(folder, job, "--compute", "1", machine=room) / rounds / 1e3 < 0.6 * ways)


def exchange(ranks, peers, size, rounds=1, shuffled=True):
    """Each rank puts to its peers by one TNI, polls the TCQ, and has seen what came; ranks at places drawn by lot in
    12 nodes, or 2 x 2 x 2 times 12."""
    import random
    places = [(x, y, z, a, b, c) for x in range(ranks // 12 and 1 + (ranks > 12)) for y in range(1 + (ranks > 12))
              for z in range(1 + (ranks > 12)) for a in range(2) for b in range(3) for c in range(2)]
    if shuffled:
        random.Random(7).shuffle(places)
    job = recordings.Job(ranks, HEADER, coords=lambda rank: places[rank])
    flags = job.flag("TCQ_NOTICE")
    for _ in range(rounds):
        job.clock += 100000
        for rank, thread in enumerate(job.threads):
            for to in peers(rank):
                thread.put((rank, 0, 0), (to, 0, 0), size, flags, stadd=rank << 20)
            for to in peers(rank):
                thread.tcq((rank, 0, 0))
        for rank in range(ranks):
            for to in peers(rank):
                job.threads[to].seen(rank << 20, size)
    return job


def grid_peers(rank, extents):
    """The neighbours in a grid, not round it."""
    at = (rank % extents[0], rank // extents[0] % extents[1], rank // extents[0] // extents[1])
    step = (1, extents[0], extents[0] * extents[1])
    return [rank + d * step[i] for i in range(3) for d in (-1, 1) if 0 <= at[i] + d < extents[i]]


def found(run):
    """Of each of the best three: time, what was changed, and the list."""
    parts = re.split(r"^\d\. ", run.stdout.partition("search: ")[2], flags=re.M)[1:]
    return [(float(p.split()[0]), dict(re.findall(r"(\w+)=(\S+)", p.split("\n")[0])), p) for p in parts]


def test_search(folder):
    """From a bad start to the best that is known."""
    for ranks in (12, 96):
        extents = (2, 3, 2) if ranks == 12 else (4, 6, 4)
        for name, peers, size, changes in (
                ("ring", lambda r: [(r + 1) % ranks], 65536, "map"),
                ("all-gather", lambda r: [to for to in range(ranks) if to != r], 65536 if ranks == 12 else 2048,
                 "tni,order"),
                ("halo", lambda r: grid_peers(r, extents), 32768, "tni,map")):
            paths = exchange(ranks, peers, size).write(folder)
            before = predict(paths)
            run = model(paths, "--search", changes, "--seconds", "300")
            best = found(run)
            check(f"{name} of {ranks}: something better is found", best and best[0][0] < before["time_us"], run.stdout)
            print(f"{name} of {ranks}: {before['time_us']:.1f} us, found {best[0][0]:.1f}: {best[0][1]}")
            if "map" in changes:
                hops = re.search(r"passes ([\d.]+) links", best[0][2])
                check(f"{name} of {ranks}: neighbours are neighbours in the torus", hops and float(hops[1]) <= 1.011,
                      best[0][2][:200])
            if "tni" in changes:
                check(f"{name} of {ranks}: TNIs for distinct peers", best[0][1]["tni"] in ("pairs", "spread"), best[0])
            by_hand(folder, paths, name, best)
            check("the same seed finds the same", found(model(paths, "--search", changes, "--seconds", "300")) == best)
    few = model(paths, "--search", "map", "--seconds", "0")
    check("the limit ends it, and that is told", "ended by the time limit" in few.stdout, few.stdout[-500:])
    check("other words are refused", model(paths, "--search", "tnis").returncode == 2)


def by_hand(folder, paths, name, best):
    """What is found takes as long in --what-if."""
    time, change, text = best[0]
    coords = re.findall(r"^    (\d+(?:,\d+){5})$", text, re.M)
    with open(os.path.join(folder, "found"), "w", encoding="utf-8") as file:
        file.write("\n".join(coords) + "\n")
    options = ["--map", os.path.join(folder, "found")] if coords else []
    told = [change["tni"] != "own", change["order"] != "own"]
    if sum(told) < 2:
        options += ["--what-if", f"tni={change['tni']}"] if told[0] else []
        options += ["--what-if", f"order={change['order']}"] if told[1] else []
        result = predict(paths, *options)
        near(f"{name}: found, and in what-if", result.get("what_if", result)["time_us"], time, 1e-4)


def test_noise(folder):
    paths = gather(65536, 1, 5).write(folder)
    best = predict(paths)
    check("without noise, ranks in step are the best case", best["best_case"] and "best case" in model(paths).stdout)
    one, again, two = (predict(paths, "--noise", seed) for seed in ("1", "1", "2"))
    check("a seed gives the same again", one == again)
    check("another one something else", one["noise"] != two["noise"])
    deciles = one["noise"]["deciles_us"]
    check("deciles in order, the median among them",
          deciles == sorted(deciles) and len(deciles) == 9 and deciles[4] == one["noise"]["median_us"], deciles)
    check("and above the best case", deciles[0] > best["time_us"], deciles)
    check("regions, too", one["noise"]["regions"][0]["median_us"] > best["regions"][0]["mean_us"], one["noise"])
    check("a result with noise is not called the best case", not one["best_case"])
    quiet = changed_machine(folder, (r"^late_ns = 10000", "late_ns = 0"), (r"^interval_ns = .*", "interval_ns = 0"))
    check("a quiet machine has no noise", set(predict(paths, "--noise", "1", machine=quiet)["noise"]["deciles_us"])
          == {best["time_us"]})
    often = changed_machine(folder, (r"^late_ns = 10000", "late_ns = 0"), (r"^interval_ns = .*", "interval_ns = 1e5"))
    busy = predict(paths, "--noise", "1", machine=often)["noise"]["deciles_us"]
    check("interruptions take time", busy[0] > best["time_us"] + 20, busy)
    check("a seed is a number", model(paths, "--noise", "x").returncode == 2)


def blocked(folder):
    """What waits for a busy TNI blocks what comes behind it by the same link, and goes elsewhere."""
    def time(*others):
        return predict(streams([(3, 1, 1, 1), *others], length=100000).write(folder))["per_rank"][3]["end_us"]
    busy = [(rank, 0, 0, 0) for rank in (2, 4, 6)]
    shared, behind = time((3, 0, 0, 0)), time((3, 0, 0, 0), *busy)
    check(f"a put behind one that waits: {behind} us, and {shared} where that does not wait", behind > 1.7 * shared)


def circles(folder):
    """Long puts round three tori at once, each as far as possible: no circle of links waits for itself."""
    size = 4

    def coords(rank):
        return (rank % size, rank // size % size, rank // size // size, 0, 0, 0)

    def far(rank):
        x, y, z = coords(rank)[:3]
        return (x + 2) % size + size * ((y + 2) % size) + size * size * ((z + 2) % size)
    ranks = size ** 3
    job = streams([(rank, tni, far(rank), tni) for rank in range(ranks) for tni in range(3)], ranks, 200000,
                  coords=coords)
    run = model(job.write(folder), "--torus", "xyz")
    check("puts round tori end", run.returncode == 0, run.stderr)


def turns(folder):
    """VCQs of a TNI take turns."""
    job = recordings.Job(12, HEADER)
    t = job.threads[0]
    t.put((0, 0, 0), (1, 0, 0), 1000000, 0).region("short")
    t.put((0, 0, 1), (2, 0, 0), 8, job.flag("LOCAL_MRQ_NOTICE")).mrq((0, 0, 1), "LCL_PUT", (2, 0, 0))
    t.region("short", False)
    short = regions(predict(job.write(folder)))["short"]["mean_us"]
    check("a short put is not behind a long one of another VCQ", short < 4, short)
    t = recordings.Job(12, HEADER)
    t.threads[0].put((0, 0, 0), (1, 0, 0), 1000000, 0).region("short")
    t.threads[0].put((0, 0, 0), (2, 0, 0), 8, t.flag("LOCAL_MRQ_NOTICE")).mrq((0, 0, 0), "LCL_PUT", (2, 0, 0))
    t.threads[0].region("short", False)
    short = regions(predict(t.write(folder)))["short"]["mean_us"]
    check("it is behind one of its own VCQ", short > 140, short)


def processes(folder):
    """48 processes on a node, 8 on each of its TNIs, send to processes of the nodes around it."""
    def coords(rank):
        return six_neighbours(0 if rank < 48 else rank - 47)
    one = time_of(folder, streams([(0, 0, 48, 0)], 54, coords=coords))
    job = streams([(rank, rank % 6, 48 + rank % 6, 0) for rank in range(48)], 54, coords=coords)
    result = predict(job.write(folder))
    near("48 processes share six TNIs", result["time_us"] * 1e3 / one, 8, 0.06)
    waits = [r["wait_us"] for r in result["per_rank"][:48]]
    check("and are served alike", min(waits) > 0.85 * max(waits), (min(waits), max(waits)))


def rates(folder):
    """Short messages."""
    p = parameters()
    threads = 8
    put = [(rank, 0, 48, 0) for rank in range(threads)]

    def coords(rank):
        return six_neighbours(0 if rank < 48 else 1)
    one = time_of(folder, streams(put[:1], 49, 8, same=100, coords=coords))
    near("one process: calls and polls", one, 100 * (p["call_ns"] + p["poll_ns"]), 0.06)
    all_ = time_of(folder, streams(put, 49, 8, same=100, coords=coords))
    near("eight on one TNI: its gap", all_, 800 * p["gap_ns"], 0.06)
    atomic = streams([(rank, 0, 0, 0) for rank in range(1, 7)], 7, 8, recordings.ARMW, 100, coords=six_neighbours)
    near("six processes add to one word: what its TNI answers", time_of(folder, atomic), 600 * p["gap_ns"], 0.06)


def test_latency(folder):
    job = recordings.Job(2, HEADER)
    for i in range(50):
        for rank in (0, 1):
            t = job.threads[rank]
            t.put((rank, 0, 0), (1 - rank, 0, 0), 8, job.flag("REMOTE_MRQ_NOTICE"))
            job.threads[1 - rank].mrq((1 - rank, 0, 0), "RMT_PUT", (rank, 0, 0))
    slow = changed_machine(folder, (r"^(\w+_ns = )([\d.]+)", lambda m: m[1] + str(2 * float(m[2]))),
                           (r"^overhead = 133", "overhead = 0"), (r"^rate = 6.8", "rate = 1e9"),
                           (r"^packet_rate = 8.0", "packet_rate = 1e9"))
    double = time_of(folder, job, machine=slow)
    fast = changed_machine(folder, (r"^overhead = 133", "overhead = 0"), (r"^rate = 6.8", "rate = 1e9"),
                           (r"^packet_rate = 8.0", "packet_rate = 1e9"))
    near("all latencies doubled", double / time_of(folder, job, machine=fast), 2, 0.001)


def relay_chain(ranks):
    """A barrier in which a signal goes once round all ranks."""
    job = recordings.Job(12, HEADER)
    for rank in range(ranks):
        behind, before = (rank + 1) % ranks, (rank - 1) % ranks
        t = job.threads[rank]
        if rank == 0:
            t.set((0, 0, 0), (None, (before, 0, 16 if before else 0)), (None, (behind, 0, 16 if behind else 0)))
        else:
            to = (behind, 0, 16) if behind else (0, 0, 0)
            t.set((rank, 0, 16), (None, (before, 0, 16 if before else 0)), (None, to))
    job.threads[0].start((0, 0, 0))
    job.threads[0].result((0, 0, 0))
    return job


def test_barrier(folder):
    p = parameters()
    times = {ranks: time_of(folder, relay_chain(ranks)) for ranks in (2, 3, 4)}
    check("a deeper circuit takes longer", times[2] < times[3] < times[4], times)
    near("two packets", times[2], p["start_ns"] + 2 * (p["gate_ns"] + p["hop_ns"]) + p["result_ns"], 0.001)


def test_session(folder):
    """A put is relayed by session-mode VCQs through four ranks, without their CPUs."""
    p = parameters()
    times = []
    for ranks in (2, 3, 4):
        job = recordings.Job(12, HEADER)
        for rank in range(1, ranks - 1):
            job.session[rank, 0, 0] = recordings.SESSION
            job.threads[rank].put((rank, 0, 0), (rank + 1, 0, 0), 8,
                                  job.flag("REMOTE_MRQ_NOTICE") if rank + 2 == ranks else 0,
                                  sps=0 if rank + 2 == ranks else 1)
        job.threads[0].put((0, 0, 0), (1, 0, 0), 8, job.flag("REMOTE_MRQ_NOTICE") if ranks == 2 else 0,
                           sps=int(ranks > 2))
        job.threads[ranks - 1].mrq((ranks - 1, 0, 0), "RMT_PUT", (ranks - 2, 0, 0))
        times.append(time_of(folder, job))
    hop = p["schedule_ns"] + p["send_ns"] + 8 / p["packet_rate"] + (8 + p["overhead"]) / 6.8 + p["receive_ns"]
    near("a relay by session mode", times[1] - times[0], hop + 2 * p["hop_ns"], 0.001)
    near("another one", times[2] - times[1], hop + p["hop_ns"], 0.12)
    stuck = recordings.Job(2, HEADER)
    stuck.session[0, 0, 0] = recordings.SESSION
    stuck.threads[0].put((0, 0, 0), (1, 0, 0), 8, stuck.flag("TCQ_NOTICE")).tcq((0, 0, 0))
    run = model(stuck.write(folder))
    check("a program that waits for ever is told", run.returncode == 1 and "rank 0 waits for ever" in run.stderr
          and "TCQ entry" in run.stderr, run.stderr)


def test_freed(folder):
    """TCQ entries that were not polled end with their VCQ: those of a VCQ made later, with its id, are others."""
    def time(unpolled, freed):
        job = recordings.Job(2, HEADER)
        t = job.threads[0]
        for _ in range(unpolled):
            t.put((0, 0, 0), (1, 0, 0), 8, job.flag("TCQ_NOTICE"))
        if freed:
            t.free((0, 0, 0))
        t.region("long").put((0, 0, 0), (1, 0, 0), 1000000, job.flag("TCQ_NOTICE")).tcq((0, 0, 0)).region("long", False)
        return regions(predict(job.write(folder)))["long"]["mean_us"]
    alone = time(0, False)
    near("the poll waits for the put of the new VCQ", time(3, True), alone, 0.02)
    early = time(3, False)
    check("and for an earlier one where the VCQ is the same", early < alone / 2, (early, alone))


def test_seen(folder):
    """The rule for puts that are seen by reading memory: docs/guide/model.md."""
    p = parameters()
    hop = p["call_ns"] + p["send_ns"] + 8 / p["packet_rate"] + (8 + p["overhead"]) / 6.8 + p["hop_ns"] \
        + p["receive_ns"] + p["see_ns"]
    without_conclusions(folder)

    def job_of(events):
        """(time, rank[, address]): puts between two ranks."""
        job = recordings.Job(2, HEADER)
        for at, rank, *address in events:
            job.threads[rank].put((rank, 0, 0), (1 - rank, 0, 0), 8, 0, at=at, stadd=64 * sum(address))
        return job
    near("the next call waits", time_of(folder, job_of([(1000, 0), (2000, 1), (3000, 0)])), 3 * hop - p["see_ns"],
         0.001)
    # ranks put to each other at the same time and read memory after it: the order of the calls changes
    both = [(10000 * i + (500 if (i % 2) == rank else 0), rank) for i in range(1, 11) for rank in (0, 1)]
    near("a call that was once before its put does not wait", time_of(folder, job_of(sorted(both))),
         10 * hop - p["see_ns"], 0.02)
    always = [(10000 * i + 500 * rank, rank) for i in range(1, 11) for rank in (0, 1)]
    near("one that was never before it does", time_of(folder, job_of(sorted(always))), 20 * hop - p["see_ns"], 0.02)
    # a repetition may be of 8 puts: each of them once shows what holds for all addresses, one alone does not
    walk = [[(10000 * i + (500 if (rank == 1) != (i in some) else 0), rank, i % 10)
             for i in range(1, 61) for rank in (0, 1)] for some in (range(13, 21), (13,))]
    near("puts to many addresses are taken together", time_of(folder, job_of(sorted(walk[0]))), 60 * hop - p["see_ns"],
         0.02)
    check("but one of them is not enough", time_of(folder, job_of(sorted(walk[1]))) > 80 * hop)
    groups_of_puts(folder)
    # buffers of even and odd rounds: no call follows the last round's
    turns = [(10000 * i + (500 if (i // 2 % 2) == rank else 0), rank, i % 2) for i in range(1, 21) for rank in (0, 1)]
    near("the last put is not waited for by an earlier call than the others", time_of(folder, job_of(sorted(turns))),
         20 * hop - p["see_ns"], 0.02)
    late_entries(folder, hop)
    alike_by_chance(folder)
    probes_beside_notices(folder)
    two_lengths(folder)
    only_what_is_shown(folder)
    region_of_a_late_rank(folder)
    basis(folder)
    data = recordings.Job(2, HEADER)  # rank 1 has done something else before it takes the notice
    data.threads[0].put((0, 0, 0), (1, 0, 0), 100000, 0, at=1000)
    data.threads[0].put((0, 0, 0), (1, 0, 0), 8, data.flag("STRONG_ORDER", "REMOTE_MRQ_NOTICE"), at=2000)
    t = data.threads[1].region("other", at=500).put((1, 0, 0), (0, 0, 0), 8, data.flag("LOCAL_MRQ_NOTICE"), at=3000)
    t.mrq((1, 0, 0), "LCL_PUT", (0, 0, 0), at=4000).region("other", False, at=5000)
    t.mrq((1, 0, 0), "RMT_PUT", (0, 0, 0), at=20000)
    other = regions(predict(data.write(folder)))["other"]["mean_us"]
    check("data that a notice announces are not waited for before it", other < 2, other)
    early(folder)
    told = job_of([(1000, 0), (2000, 1), (3000, 1)])
    told.threads[1].seen(0, 8, at=4000).put((1, 0, 0), (0, 0, 0), 8, 0, at=5000)
    near("utofu_profile_seen() tells", time_of(folder, told), 2 * hop - p["see_ns"], 0.001)


def late_entries(folder, hop):
    """Ranks put to each other and poll the TCQ, whose entry comes when the other rank's put has begun."""
    def time(polled):
        job = recordings.Job(2, HEADER)
        for i in range(1, 21):
            for rank in (0, 1):
                at = 10000 * i + (500 if i % 2 == rank else 0)
                job.threads[rank].put((rank, 0, 0), (1 - rank, 0, 0), 8, job.flag("TCQ_NOTICE"), at=at)
                job.threads[rank].tcq((rank, 0, 0), at=10000 * i + 4000, polled=polled)
        return time_of(folder, job)
    p = parameters()
    poll, see = p["poll_ns"], p["see_ns"]
    entry = p["call_ns"] + p["send_ns"] + 8 / p["packet_rate"] + (8 + p["overhead"]) / 6.8 + p["tcq_ns"] + poll
    near("a poll that found nothing before the put does not wait for it", time(3900), 20 * (entry + see) - see, 0.005)
    near("one that was first made behind it does", time(0), 20 * (hop + poll), 0.02)


def alike_by_chance(folder):
    """Calls before and behind all notices, as often as there are notices, do not need them."""
    def time(*names):
        job = recordings.Job(2, HEADER)
        flags = job.flag("REMOTE_MRQ_NOTICE")
        ranks = job.threads
        for i in range(4):
            ranks[1].region(names[i], at=1000 + (i if i < 2 else i + 1000000))
            if i != 1:
                continue
            for k in range(4):
                at = 100000 * (k + 1)
                ranks[0].put((0, 0, 0), (1, 0, 0), 8, flags, at=at)
                ranks[1].mrq((1, 0, 0), "RMT_PUT", (0, 0, 0), at=at + 5000)
                ranks[1].put((1, 0, 0), (0, 0, 0), 8 * (k + 1), flags, edata=k, at=at + 6000)
                ranks[0].mrq((0, 0, 0), "RMT_PUT", (1, 0, 0), edata=k, at=at + 9000)
        return time_of(folder, job)
    near("notices are not needed by calls that are alike by chance", time("a", "a", "a", "a"), time(*"abcd"), 0.001)


def probes_beside_notices(folder):
    """A ping-pong whose EDATA returns after 65 rounds, with something else in every eighth round."""
    def time(same):
        job = recordings.Job(2, HEADER)
        flags = job.flag("REMOTE_MRQ_NOTICE")
        ranks = job.threads
        for i in range(260):
            at = 100000 * (i + 1)
            if i % 8 == 0:
                ranks[0].region("probe" if same else f"probe {i}", at=at)
            ranks[0].put((0, 0, 0), (1, 0, 0), 8, flags, edata=i % 65, at=at + 1000)
            ranks[1].mrq((1, 0, 0), "RMT_PUT", (0, 0, 0), edata=i % 65, at=at + 5000)
            ranks[1].put((1, 0, 0), (0, 0, 0), 8, flags, edata=i % 65, at=at + 6000)
            ranks[0].mrq((0, 0, 0), "RMT_PUT", (1, 0, 0), edata=i % 65, at=at + 9000)
        return time_of(folder, job)
    near("notices of one peer are needed in the order of their polls", time(True), time(False), 0.001)


def answered(told, rounds, calls):
    """Rank 0 puts to rank 1, which waits, makes its calls (address, length), and answers."""
    job = recordings.Job(2, HEADER)
    ranks = job.threads
    for i, length in enumerate(rounds):
        at, slot = 100000 * (i + 1), i % 2 * 65536
        ranks[0].put((0, 0, 0), (1, 0, 0), length, 0, at=at, stadd=slot)
        if told:
            ranks[1].seen(slot, length, at=at + 9000)
        for k, (address, size) in enumerate(calls(i)):
            ranks[1].put((1, 0, 0), (0, 0, 0), size, 0, at=at + 10000 + 1000 * k, stadd=1 << 20 | address)
        if told:
            ranks[0].seen(1 << 20, 4096, at=at + 40000)
    return job


def two_lengths(folder):
    """The answers are alike for puts of both lengths."""
    rounds = [16640] * 12 + [8320] * 12
    times = [time_of(folder, answered(told, rounds, lambda i: [(i % 2 * 8, 8)])) for told in (True, False)]
    near("puts of two lengths with one kind of answer", times[1], times[0], 0.02)


def only_what_is_shown(folder):
    """The call that waits differs from round to round: the one behind it, which is always alike, is not taken."""
    def calls(i):
        return [(64 + 64 * (i * i % 5), 8), (0, 8)]
    times = [time_of(folder, answered(told, [16640] * 24, calls)) for told in (True, False)]
    check(f"a call that was not shown to be independent waits: {times[1]} of {times[0]} ns",
          times[1] > 0.98 * times[0])


def region_of_a_late_rank(folder):
    """Rank 1 begins its region when the puts of rank 0 have long been started."""
    def time(told):
        job = recordings.Job(2, HEADER)
        for i in range(3):
            job.threads[0].put((0, 0, 0), (1, 0, 0), 50000, 0, at=1000 * (i + 1), stadd=65536 * i)
        job.threads[1].region("late", at=10000)
        if told:
            job.threads[1].seen(0, 1 << 20, at=20000)
        job.threads[1].put((1, 0, 0), (0, 0, 0), 8, 0, at=30000).region("late", False, at=40000)
        return regions(predict(job.write(folder)))["late"]["mean_us"]
    near("a region is not shorter because its puts were started before", time(False), time(True), 0.02)


def basis(folder):
    """Of each region: what was told, by a notice, and concluded."""
    def shares(how):
        job = recordings.Job(2, HEADER)
        t = job.threads
        t[0].put((0, 0, 0), (1, 0, 0), 50000, job.flag("REMOTE_MRQ_NOTICE") if how == "notice" else 0, at=1000)
        t[1].region("r", at=500)
        if how == "told":
            t[1].seen(0, 50000, at=2000)
        if how == "notice":
            t[1].mrq((1, 0, 0), "RMT_PUT", (0, 0, 0), at=2000)
        t[1].put((1, 0, 0), (0, 0, 0), 8, 0, at=3000).region("r", False, at=4000)
        region = regions(predict(job.write(folder)))["r"]
        percent = [region[f"{name}_percent"] for name in ("told", "notice", "concluded")]
        return percent, region["concluded_at"], model(job.write(folder)).stdout
    check("a wait that the program tells", shares("told")[:2] == ([100, 0, 0], ""), shares("told"))
    check("one for a notice", shares("notice")[:2] == ([0, 100, 0], ""), shares("notice"))
    place = "rank 1, before its put of 8 B to rank 0 (call 2)"
    check("one that is concluded", shares("concluded")[:2] == ([0, 0, 100], place), shares("concluded"))
    check("and what to do about it",
          "100 % concluded: put utofu_profile_seen there: " + place in shares("concluded")[2])


def early(folder):
    """Rank 1 answers rank 0, and takes a notice of rank 2, which once came early, and is needed later."""
    def time(once):
        job = recordings.Job(3, HEADER)
        flags = job.flag("REMOTE_MRQ_NOTICE")
        t = job.threads
        for i in range(20):
            at = 100000 * (i + 1)
            t[0].region("round trip", at=at).put((0, 0, 0), (1, 0, 0), 8, flags, at=at + 100)
            t[2].put((2, 0, 0), (1, 0, 0), 100000, flags, at=at)
            if i == once:
                t[1].mrq((1, 0, 0), "RMT_PUT", (2, 0, 0), at=at + 3000)
            t[1].mrq((1, 0, 0), "RMT_PUT", (0, 0, 0), at=at + 5000)
            t[1].put((1, 0, 0), (0, 0, 0), 8, flags, at=at + 8000)
            if i != once:
                t[1].mrq((1, 0, 0), "RMT_PUT", (2, 0, 0), at=at + 30000)
            t[1].put((1, 0, 0), (2, 0, 0), 8, flags, at=at + 40000)
            t[0].mrq((0, 0, 0), "RMT_PUT", (1, 0, 0), at=at + 45000).region("round trip", False, at=at + 46000)
            t[2].mrq((2, 0, 0), "RMT_PUT", (1, 0, 0), at=at + 45000)
            t[0].mrq((0, 0, 0), "RMT_PUT", (2, 0, 0), edata=i, at=at + 47000)
            t[2].put((2, 0, 0), (0, 0, 0), 8, flags, edata=i, at=at + 46000)
        return regions(predict(job.write(folder)))["round trip"]
    always, once = time(-1), time(9)
    check("a notice that came early is not waited for before it is needed", once["max_us"] < always["max_us"] + 0.5,
          (always, once))


def groups_of_puts(folder):
    """Rank 1 waits for some puts, and then passes all of them on: none before the last one has come."""
    for group in (1, 2, 3, 6):
        def time(told):
            job = recordings.Job(3, HEADER)
            for i in range(24):
                at = 100000 * (i // group + 1) + 1000 * (i % group)
                job.threads[0].put((0, 0, 0), (1, 0, 0), 16640, 0, at=at, stadd=i << 20)
                if told:
                    job.threads[1].seen(i << 20, 16640, at=at + 500)
                if (i + 1) % group == 0:
                    for k in range(group):
                        job.threads[1].put((1, 0, 0), (2, 0, 0), 16640, 0, at=at + 10000 + 100 * k, stadd=i + k << 20)
            job.threads[2].region("end", at=10**7).region("end", False, at=10**7 + 1)
            return time_of(folder, job)
        ratio = time(False) / time(True)
        check(f"groups of {group}: concluded {ratio:.3f} times as long as told", 0.99 < ratio < 1.05)


def without_conclusions(folder):
    """What the time of a region is at least: rank 1 waits for a put, as far as anybody knows, and then puts itself."""
    def time(told):
        job = recordings.Job(2, HEADER)
        job.threads[0].put((0, 0, 0), (1, 0, 0), 100000, 0, at=1000)
        t = job.threads[1]
        t.region("step", at=2000).put((1, 0, 0), (1, 0, 0), 8, 0, at=2100, stadd=1 << 20)
        if told:
            t.seen(0, 100000, at=3000)
        t.put((1, 0, 0), (0, 0, 0), 8, job.flag("TCQ_NOTICE"), at=4000, stadd=1 << 20).tcq((1, 0, 0), at=5000)
        t.region("step", False, at=6000)
        return regions(predict(job.write(folder)))["step"]
    concluded, told = time(False), time(True)
    check("without what was concluded it takes less", concluded["at_least_us"] < 3 and concluded["mean_us"] > 15,
          concluded)
    check("what was told is not left out", told["at_least_us"] > told["mean_us"] - 0.2 > 15, told)


#
# Errors
#

def small_job():
    job = recordings.Job(2, HEADER)
    t = job.threads[0]
    t.region("step").put((0, 0, 0), (1, 0, 0), 5000, job.flag("TCQ_NOTICE", "REMOTE_MRQ_NOTICE"))
    t.tcq((0, 0, 0), polled=300)
    t.region("step", False)
    t.set((0, 0, 0), (None, (1, 0, 0)), (None, (1, 0, 0))).start((0, 0, 0)).result((0, 0, 0))
    u = job.threads[1]
    u.mrq((1, 0, 0), "RMT_PUT", (0, 0, 0)).seen(4096, 8)
    u.set((1, 0, 0), (None, (0, 0, 0)), (None, (0, 0, 0))).start((1, 0, 0)).result((1, 0, 0))
    return job


def test_cut(folder):
    paths = small_job().write(folder)
    check("the whole recording is read", model(paths).returncode == 0, model(paths).stderr)
    with open(paths[0], "rb") as file:
        whole = file.read()
    wrong = []
    for size in range(len(whole)):
        with open(paths[0], "wb") as file:
            file.write(whole[:size])
        run = model(paths)
        if run.returncode != 1 or not run.stderr.startswith(f"utofu-model: {paths[0]}: byte "):
            wrong.append((size, run.returncode, run.stderr))
    check(f"cut at each of {len(whole)} lengths: the file and the place are named", not wrong, wrong[:3])
    wrong = []
    for at in range(len(whole)):
        with open(paths[0], "wb") as file:
            file.write(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1:])
        run = model(paths)
        if run.returncode != 1 or not run.stderr.startswith(f"utofu-model: {paths[0]}: byte "):
            wrong.append((at, run.returncode, run.stderr))
    check("damaged at each byte: the same", not wrong, wrong[:3])
    with open(paths[0], "wb") as file:
        file.write(whole)
    for name, given, text in (("a rank is missing", paths[:1], "recording of rank 1 is missing"),
                              ("a rank is there twice", paths + paths[:1], "rank 0 is also in"),
                              ("no recording", [__file__], "this is no recording")):
        run = model(given)
        check(name, run.returncode == 1 and text in run.stderr, run.stderr)


def rank0(content, records=1):
    head = recordings.number(recordings.VERSION) + recordings.number(0) + recordings.number(1) \
        + recordings.number(0) + b"\0" * 8 + b"\0" * 6 + recordings.number(0) + recordings.number(0) + bytes(17)
    return b"UTOFUREC" + recordings.block(b"H", head) + recordings.block(b"C", content) \
        + recordings.block(b"E", recordings.number(records) + bytes(17))


def mpi_calls():
    """Calls of MPI with numbers that are too few, too many, or of nothing."""
    mpi = recordings.number(0) + b"\0" * 8 + bytes([recordings.MPI, 0, 0])
    for kind, numbers in ((recordings.MPI_COMM, (0,)), (recordings.MPI_COMM, (0, 2, 0, 1)),
                          (recordings.MPI_COMM, (-1, 1, 0, 1, 1)),
                          (recordings.MPI_COMM, (0, -1, 0, 1, 1)), (recordings.MPI_COMM, (0, 1 << 40, 0, 1, 1)),
                          (recordings.MPI_COMM, (0, 2, 0, 1, 3)), (recordings.MPI_COMM, (9, 1, 0, 1, 1)),
                          (recordings.MPI_SEND, (0, 0, 0, 8, -1)), (recordings.MPI_SEND, (0, 0, 0, 8, -1, 0, 0)),
                          (recordings.MPI_SEND, (7, 0, 0, 8, -1, 0)), (recordings.MPI_SEND, (0, 1, 0, 8, -1, 0)),
                          (recordings.MPI_SEND, (0, 0, 0, -8, -1, 0)), (recordings.MPI_RECV, (0, 0, 0)),
                          (recordings.MPI_RECV, (0, 0, 0, -1, 0)), (recordings.MPI_RECV, (0, 5, 0, -1)),
                          (recordings.MPI_WAIT, (1, 2)), (recordings.MPI_WAIT, (1, 2, 3)),
                          (recordings.MPI_PROBE, (0, 0)),
                          (recordings.MPI_PROBE, (0, 3, 0, 0)), (recordings.MPI_COLL, (0, 0, -1, 0, 0)),
                          (recordings.MPI_COLL, (-1, 0, -1, 0, 0, -1)), (recordings.MPI_COLL, (13, 0, -1, 0, 0, -1)),
                          (recordings.MPI_COLL, (1, 0, 1, 0, 0, -1)), (recordings.MPI_COLL, (1, 3, 0, 0, 0, -1)),
                          (recordings.MPI_OPAQUE, ()), (recordings.MPI_OPAQUE, (1, 2))):
        body = b"".join(recordings.signed(n) for n in numbers)
        yield f"a call {kind} of MPI with {numbers}", rank0(mpi + bytes([kind, 0, len(numbers)]) + body)


def region_names():
    """Names of regions with each byte that they cannot have, and of each length."""
    thread = recordings.number(0) + b"\0" * 8
    for name in (b"", b" ", b"~", b"\xc3\xa4", b"a" * 63, b"a" * 64, b"a\x1f", b"\x7f", b'"', b"a\\", b"\0", b"a\n",
                 b"\tb"):
        enter, leave = (bytes([op, 0, 0]) + recordings.number(len(name)) + name
                        for op in (recordings.ENTER, recordings.LEAVE))
        yield f"a region with the name {name!r}", rank0(thread + enter + leave, 2)


def bad_blocks():
    """Recordings with right checksums and wrong content."""
    thread = recordings.number(0) + b"\0" * 8
    yield "an operation that is not there", rank0(thread + bytes([99, 0, 0, 0]))
    yield "a VCQ that is not defined", rank0(thread + bytes([recordings.TCQ_POLL, 0, 0, 5, 0]))
    yield "a gate that is not defined", rank0(thread + bytes([recordings.START, 0, 0, 5, 0]))
    yield "a number that does not end", rank0(thread + bytes([recordings.SEEN]) + b"\xff" * 12)
    yield "a record that is cut", rank0(thread + bytes([recordings.SEEN, 0]))
    yield "a wrong number of records", rank0(thread, 7)
    yield "a call at a site that is not defined", rank0(thread + bytes([recordings.AT, 1]))
    yield "a site of more return addresses than there can be", rank0(thread + bytes([recordings.SITE, 9]) + bytes(72))
    module = rank0(thread, 0)
    yield "a module whose path is cut", module[:-31] + recordings.block(b"L", bytes(25) + b"\x05/a") + module[-31:]
    mpi = thread + bytes([recordings.MPI, 0, 0])
    yield "a call of MPI that is not there", rank0(mpi + bytes([99, 0, 0]))
    yield "a send of MPI without its numbers", rank0(mpi + bytes([recordings.MPI_SEND, 0, 2, 0, 0]))
    yield "a communicator with more ranks than it has", rank0(mpi + bytes([recordings.MPI_COMM, 0, 5, 0, 2, 0, 2, 8]))
    yield "a collective that is not there", rank0(mpi + bytes([recordings.MPI_COLL, 0, 6, 98, 0, 0, 0, 0, 1]))
    yield "a thread with a huge number", rank0(recordings.number(1 << 40) + b"\0" * 8)


def test_bad(folder):
    path = os.path.join(folder, "bad.0.rec")
    for name, content in bad_blocks():
        with open(path, "wb") as file:
            file.write(content)
        run = model([path])
        check(name, run.returncode == 1 and run.stderr.startswith(f"utofu-model: {path}: byte "), run.stderr)
    paths = small_job().write(folder)
    for name, changes, text in (
            ("a key is missing", ((r"^hop_ns.*$", ""),), "key 'hop_ns' of [link] is missing"),
            ("a key is there twice", ((r"^hop_ns.*$", "hop_ns = 1\nhop_ns = 2"),), "it is there twice"),
            ("an unknown key", ((r"^hop_ns", "hops_ns"),), "key 'hops_ns' of [link]: there is no such key"),
            ("a string for a number", ((r"^hop_ns = .*", 'hop_ns = "1"'),), "expected a number"),
            ("no value", ((r"^hop_ns = .*", "hop_ns ="),), "expected a number, a string"),
            ("a negative number", ((r"^hop_ns = .*", "hop_ns = -1"),), "-1: expected a number of at least 0"),
            ("a rate of 0", ((r"^rate = .*", "rate = 0"),),
             "key 'rate' of [tni]: 0: expected a number of at least 1e-06"),
            ("half a TNI", ((r"^number = .*", "number = 2.5"),), "2.5: expected a whole number from 1 to 64"),
            ("too many TNIs", ((r"^number = .*", "number = 1e9"),), "1e+09: expected a whole number from 1 to 64"),
            ("an unknown topology", ((r'^kind = "tofu"', 'kind = "ring"'),), 'expected "tofu" or "fat-tree"'),
            ("a string without end", ((r'^kind = "tofu"', 'kind = "tofu'),), "a string without its end")):
        machine = changed_machine(folder, *changes)
        run = model(paths, machine=machine)
        check(name, run.returncode == 1 and text in run.stderr and machine in run.stderr, run.stderr)
    for options, text in (
            (["--allocation", "2x3"], "--allocation '2x3': expected three numbers"),
            (["--allocation", "0x1x1"], "--allocation '0x1x1': expected three numbers"),
            (["--torus", "q"], "--torus 'q': expected some of the letters"),
            (["--compute", "-1"], "--compute '-1': expected a number"),
            (["--what-if", "tni"], "expected KEY=VALUE"),
            (["--what-if", "tni=best"], "--what-if 'tni=best': expected tni=spread, map=FILE"),
            (["--what-if", "link.nothing=1"], "--what-if 'link.nothing=1': expected tni=spread, map=FILE"),
            (["--what-if", "link.rate=0"], "--what-if 'link.rate=0': 0: expected a number of at least 1e-06"),
            (["--what-if", "tni.number=x"], "--what-if 'tni.number=x': nan: expected a whole number from 1 to 64"),
            (["--nothing"], "unrecognized option")):
        run = model(paths, *options)
        check(f"usage: {' '.join(options)}", run.returncode == 2 and text in run.stderr, run.stderr)
    many = recordings.Job(60, HEADER).write(folder, "many")
    run = model(many, "--allocation", "1x1x1")
    check("an allocation that is too small", run.returncode == 2 and "take 2 nodes or more" in run.stderr, run.stderr)
    run = model(paths, machine="venus")
    check("a machine that is not there", run.returncode == 1 and "tofud, infiniband, or the path" in run.stderr,
          run.stderr)
    with open(paths[0], "rb") as file:
        whole = file.read()
    for name, head, text in (("another version of the layout", recordings.number(1),
                              f"reads versions {recordings.OLDEST} to {recordings.VERSION}"),
                             ("another job", recordings.number(recordings.VERSION) + bytes([0, 3, 0]) + bytes(32),
                              "of job '' of 3")):
        with open(path, "wb") as file:
            file.write(whole[:8] + recordings.block(b"H", head))
        run = model([paths[1], path])
        check(name, run.returncode == 1 and run.stderr.startswith(f"utofu-model: {path}: byte ") and text in run.stderr,
              run.stderr)


def test_answers(folder):
    job = two_puts([1, 2], 50000)
    job.threads[0].region("all")
    paths = job.write(folder)
    told = predict(paths)
    for job.version in range(recordings.OLDEST, recordings.VERSION):
        old = predict(job.write(folder, "old"))
        check(f"a recording of layout {job.version} tells the same", told == old, old)
    result = predict(paths, "--what-if", "bytes=0.5", "-t", os.path.join(folder, "timeline.json"))
    near("half of the bytes", result["what_if"]["time_us"] / result["time_us"], 0.55, 0.1)
    with open(os.path.join(folder, "timeline.json"), encoding="utf-8") as file:
        events = json.load(file)
    check("the timeline has the puts", sum(e["name"].startswith("put 50000 B") for e in events) == 2, events[:5])
    check("the critical path sums up to 100 %", abs(sum(p["percent"] for p in result["critical_path"]) - 100) < 0.1)
    text = model(paths).stdout
    check("text names the critical path and the links",
          "waits of rank 0 for its puts of 50000 B at rank" in text and "link a of node 0" in text, text)
    spread = recordings.Job(12, HEADER)  # one VCQ to two neighbours: its TNI is the limit
    for to in (1, 2):
        spread.threads[0].put((0, 0, 0), (to, 0, 0), 100000, spread.flag("LOCAL_MRQ_NOTICE"))
    for to in (1, 2):
        spread.threads[0].mrq((0, 0, 0), "LCL_PUT", (to, 0, 0))
    result = predict(spread.write(folder), "--what-if", "tni=spread")
    near("spread over TNIs", result["what_if"]["time_us"] / result["time_us"], 0.53, 0.1)
    far = os.path.join(folder, "map")
    with open(far, "w", encoding="utf-8") as file:
        file.writelines(f"{rank},0,0,0,0,0\n" for rank in range(12))
    job = put_and_see(8, 9)
    result = predict(job.write(folder), "--what-if", f"map={far}")
    near("a map with nine links between", (result["what_if"]["time_us"] - result["time_us"]) * 1e3,
         6 * parameters()["hop_ns"], 0.01)
    result = predict(job.write(folder), "--map", far, "--torus", "x")
    near("three of twelve round a torus", result["time_us"], predict(job.write(folder))["time_us"], 0.001)


def test_circle(folder):
    """A job of one dimension: neighbours in rank are neighbours."""
    for nodes in (12, 24, 60):
        job = recordings.Job(nodes, HEADER)
        for rank in range(nodes):
            far = (rank + 1) % nodes
            t = job.threads[rank].region("put").put((rank, 0, 0), (far, 0, 0), 8,
                                                         job.flag("LOCAL_MRQ_NOTICE", "REMOTE_MRQ_NOTICE"))
            t.mrq((rank, 0, 0), "LCL_PUT", (far, 0, 0)).region("put", False)
        paths = job.write(folder, f"circle{nodes}")
        circle = regions(predict(paths, "--allocation", str(nodes)))["put"]
        check(f"{nodes} nodes: each rank has one link to the next", circle["min_us"] == circle["max_us"], circle)
        order = regions(predict(paths, "--allocation", f"{nodes // 6}x3x2"))["put"]
        check("in the order of the axes some have more, and none has less",
              order["min_us"] == circle["min_us"] < order["max_us"], order)
    size = 65536
    job = recordings.Job(12, HEADER)  # all-gather: each put is drained before the next
    for rank in range(12):
        for step in range(1, 12):
            to = (rank + step) % 12
            flags = job.flag("TCQ_NOTICE", "REMOTE_MRQ_NOTICE")
            job.threads[rank].put((rank, 0, 0), (to, 0, 0), size, flags).tcq((rank, 0, 0))
    paths = job.write(folder, "gather")
    times = [predict(paths, "--allocation", a)["time_us"] for a in ("2x3x2", "12")]
    near("in the order of the axes puts in step share no link", times[0], 11 * size / 6.36e3, 0.15)
    check("on a circle they do", times[1] > 1.4 * times[0], times)


def test_plot(folder):
    paths = two_puts([1, 2], 50000).write(folder)
    run = model(paths, "--plot", os.path.join(folder, "p"))
    check("plots are drawn", run.returncode == 0 and all(
        os.path.getsize(os.path.join(folder, f"p-{name}.svg")) > 1000 for name in ("links", "ranks")), run.stderr)


#
# Lines of the program
#

def line_with(comment):
    with open(os.environ["WAITS_SOURCE"], encoding="utf-8") as file:
        return next(i for i, line in enumerate(file, 1) if f"/* {comment} */" in line)


def concluded_at(paths):
    return regions(predict(paths))["all"]["concluded_at"]


def test_lines(folder):
    """What is concluded is named by file and line; without -g, tool, or the file, the result says what is missing."""
    waits, bare = os.environ["WAITS"], os.environ["WAITS_BARE"]
    straight = record(folder, "straight", 2, [waits, "straight"])
    at = concluded_at(straight)
    lines = re.search(r"waits\.c:(\d+) to (\d+) in go_straight$", at)
    check("the waiting loop is between the lines of the calls before and behind it",
          lines and int(lines[1]) < line_with("the wait") < int(lines[2]) == line_with("the call"), at)
    text = model(straight).stdout
    check("the text has the same line", at and at in text, text)
    at = concluded_at(record(folder, "helper", 2, [waits, "helper"]))
    check("a call by a helper is named with the line that calls the helper",
          re.search(fr"waits\.c:{line_with('the helper')} in put_value, called at \S*waits\.c:"
                    fr"{line_with('called at')} in go_by_helpers", at), at)
    at = concluded_at(record(folder, "bare", 2, [bare, "straight"]))
    check("without -g, module and offset, and what to do",
          re.search(r"at model_waits_bare\+0x[0-9a-f]+ \(compile with -g for the line\)$", at), at)
    path, os.environ["PATH"] = os.environ["PATH"], folder
    at = concluded_at(straight)
    os.environ["PATH"] = path
    check("without addr2line, too", re.search(r"at model_waits\+0x\w+ \(install addr2line", at), at)
    for content, why in ((b"another program", "has changed since"), (None, "is not on this machine")):
        check(f"the program {why}", why in moved_program(folder, waits, content), content)


def moved_program(folder, program, content):
    """What is said of a recorded program whose file is another one by now; None: none."""
    copy = os.path.join(folder, "copy")
    shutil.copy(program, copy)
    paths = record(folder, "copy", 2, [copy, "straight"])
    os.unlink(copy)
    if content is not None:
        with open(copy, "wb") as file:
            file.write(content)
    return concluded_at(paths)


def test_large(folder):
    """1,000 ranks with 1,000 communications each, in 4 GiB."""
    job = recordings.Job(1000, HEADER)
    flags = job.flag("TCQ_NOTICE", "REMOTE_MRQ_NOTICE")
    for i in range(250):
        for rank in range(1000):
            for step in (1, 10, 100, 999):
                job.threads[rank].put((rank, 0, 0), ((rank + step) % 1000, 0, 0), 16384, flags, edata=step % 256)
        for rank in range(1000):
            for step in (1, 10, 100, 999):
                job.threads[rank].tcq((rank, 0, 0))
                job.threads[rank].mrq((rank, 0, 0), "RMT_PUT", ((rank - step) % 1000, 0, 0), edata=step % 256)
    paths = job.write(folder)
    run = subprocess.run([MODEL, "-m", MACHINE, "--json", *paths], stdout=subprocess.PIPE, text=True, timeout=1000,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)))
    check("it ends", run.returncode == 0)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime:.0f} s of CPU time, {used.ru_maxrss >> 10} MiB")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        globals()["test_" + sys.argv[1]](temporary)
    sys.exit(failures > 0)
