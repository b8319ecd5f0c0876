#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""utofu-perf: what it prints, what it refuses, what it leaves behind.

usage: test_perf.py GROUP, with UTOFURUN and PERF naming the programs.
"""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

failures = 0
RUN, PERF = os.environ.get("UTOFURUN"), os.environ.get("PERF")
OPERATIONS = ["put-lat", "put-mem-lat", "put-local-lat", "get-lat", "piggyback-lat", "armw-lat",
              "connect", "put-bw", "put-bibw", "put-rate", "stride", "session-chain", "barrier",
              "reduce-uint64", "reduce-double", "ping-pong", "relay-chain"]


def check(name, good, text=""):
    global failures
    print(f"{'ok' if good else 'FAILED'}: {name}{'' if good else ': ' + str(text)}")
    failures += not good


def run(*command, **env):
    return subprocess.run(command, env={**os.environ, **env}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=250)


def group_json():
    done = run(RUN, "-n", "2", PERF, "--json", "-q", "-n", "30", "-s", "8,4K", "all")
    got = json.loads(done.stdout)
    rows = got["results"]
    check("all_operations_are_measured",
          sorted({r["operation"] for r in rows}) == sorted(OPERATIONS), done.stderr)
    check("percentiles_are_in_order",
          all(0 <= r["min_us"] <= r["p50_us"] <= r["p95_us"] <= r["p99_us"] and r["samples"] >= 30
              for r in rows), rows)
    check("a_pipe_gets_no_progress_line", done.stderr == "", done.stderr)
    done = run(RUN, "-n", "4", PERF, "-n", "20", "-t", "2", "-T", "0,1", "-W", "8", "-s", "64",
               "put-bw", "get-lat")
    lines = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    check("threads_tnis_and_a_window_work", done.returncode == 0 and
          [line[0] for line in lines] == ["put-bw", "get-lat"] and done.stderr == "", done.stderr)


def group_busy():
    for how in ("sleep", "compute"):
        done = run(RUN, "-n", "3", PERF, "--json", "-q", "-n", "1500", "-s", "8,64", "--target", how,
                   "session-chain")
        rows = json.loads(done.stdout)["results"] if done.returncode == 0 else []
        check(f"a_chain_of_relays_that_{how}_goes_through",
              [(r["bytes"], r["samples"]) for r in rows] == [(8, 1500), (64, 1500)], done.stderr)
    done = run(RUN, "-n", "2", PERF, "--json", "-q", "-n", "50", "-s", "8", "-t", "2", "--exclusive",
               "--target", "compute", "put-rate", UTOFU_NUM_EXCLUSIVE_CQS="2")
    check("exclusive_vcqs_of_two_threads_are_measured", done.returncode == 0 and
          json.loads(done.stdout)["results"][0]["samples"] == 100, done.stderr)
    for n in (2, 3, 8):
        done = run(RUN, "-n", str(n), PERF, "--json", "-q", "-n", "200", "--circuit", "star",
                   "barrier", "reduce-double", "reduce-uint64")
        check(f"a_star_of_{n}_gives_everybody_the_sum", done.returncode == 0 and
              len(json.loads(done.stdout)["results"]) == 3, done.stderr)
    cpu = str(min(os.sched_getaffinity(0)))
    done = run(RUN, "-n", "2", PERF, "--json", "-q", "-n", "50", "-t", "2", "--cpus", cpu, "put-lat",
               "-s", "8")
    check("cpus_may_be_chosen", done.returncode == 0, done.stderr)


def group_bad():
    for n, args, words in (
            (2, ["--nothing", "put-lat"], "there is no option --nothing"),
            (2, ["-s", "32M", "put-lat"], "more than the largest put"),
            (2, ["-s", "8x", "put-lat"], "is not a list of sizes"),
            (2, ["-s", "7", "reduce-double"], "takes"),
            (2, ["-n", "0", "put-lat"], "takes a number"),
            (2, ["nothing"], "there is no operation"),
            (2, [], "name an operation"),
            (1, ["put-lat"], "needs 2 processes and has 1"),
            (3, ["put-lat"], "an even number of processes"),
            (2, ["--peers", "put-lat"], "without a launcher"),
            (0, ["--peers", "put-lat"], "no peer does put-lat"),
            (0, ["--peers", "-t", "2", "barrier"], "one thread"),
            (0, ["--peers", "-s", "0", "put-bw"], "from 1 byte"),
            (0, ["--peers", "--processes", "4", "get-lat"], "between 2 processes, not 4"),
            (0, ["--peers", "--rounds", "0", "barrier"], "takes a number"),
            (2, ["--rounds", "2", "barrier"], "go with --peers"),
            (2, ["--target", "work", "armw-lat"], "takes poll, sleep or compute"),
            (2, ["--target", "compute", "-s", "4", "session-chain"], "8 bytes or more"),
            (2, ["--cpus", "0,x", "put-lat"], "takes a number"),
            (2, ["--circuit", "ring", "barrier"], "butterfly or star"),
            (2, ["--cpus", "1023", "put-lat"], "CPU 1023"),
            (0, ["--plot"], "takes a value"),
            (0, ["--plot", "x.gif", "a.json"], ".png, .svg or .pdf"),
            (0, ["--plot", "x.png"], "takes 1 to"),
            (0, ["--plot", "x.png", "/nowhere.json"], "cannot read"),
            (0, ["--plot", "x.png", PERF], "has no results")):
        done = run(*([RUN, "-n", str(n)] if n else []), PERF, *args)
        lines = [line for line in done.stderr.splitlines() if line.startswith("utofu-perf: ")]
        check(f"refused: {n} processes, {' '.join(args[:3])}",
              done.returncode == 2 and len(lines) == 1 and words in lines[0],
              (done.returncode, done.stderr))
    # other options for one of two
    script = 'if [ "$UTOFU_RANK" = 1 ]; then n=20; else n=30; fi; exec "$0" -n $n put-lat'
    done = run(RUN, "-n", "2", "sh", "-c", script, PERF)
    check("processes_with_different_options_are_refused", done.returncode == 2 and
          "given other options" in done.stderr, (done.returncode, done.stderr))


def group_plot():
    if not shutil.which("gnuplot"):
        print("skipped: gnuplot is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for cma in "01":
            files.append(os.path.join(folder, f"cma {cma}'.json"))
            done = run(RUN, "-n", "2", PERF, "--json", "-q", "-n", "30", "-s", "8-64K", "put-lat",
                       "put-bw", UTOFU_SHM_CMA=cma)
            with open(files[-1], "w") as f:
                f.write(done.stdout)
        for name, begin in (("two.png", b"\x89PNG"), ("two.svg", b"<?xml"), ("two.pdf", b"%PDF")):
            picture = os.path.join(folder, name)
            done = run(PERF, "--plot", picture, *files)
            with open(picture, "rb") as f:
                data = f.read()
            check(f"plot_of_two_runs_is_{name[4:]}", done.returncode == 0 and done.stderr == "" and
                  data.startswith(begin) and len(data) > 5000, done.stderr)
        with open(os.path.join(folder, "two.svg")) as f:
            text = f.read()
        check("plot_names_operations_and_runs",
              all(word in text for word in ("put-lat, cma 0_", "put-lat, cma 1_", "put-bw, cma 1_",
                                            "latency over bytes", "bandwidth over bytes")))
        only = run("/bin/sh", "-c", 'PATH=/nowhere exec "$0" --plot "$1" "$2"', PERF,
                   os.path.join(folder, "no.png"), files[0])
        check("plot_without_gnuplot_says_so", only.returncode == 1 and
              "is it installed" in only.stderr, only.stderr)


FAKE = """#!/bin/sh
case "$*" in *127.0.0.1*) ;; *) exit 0 ;; esac
echo ' #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]'
echo ' 8       1000          1.50           9.00         2.00                2.25         0.1 3.00 4.00'
"""


def group_peers():
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("ib_write_lat", FAKE),
                           ("ibv_devices", "#!/bin/sh\necho h\necho -\necho '  mlx5_0  00'\n")):
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
            os.chmod(os.path.join(folder, name), 0o755)
        done = run(PERF, "--peers", "--json", "-q", "-n", "50", "-s", "8", "put-local-lat",
                   "put-mem-lat", "barrier", PATH=folder + ":" + os.environ["PATH"], TMPDIR=folder)
        got = json.loads(done.stdout)
        rows = {r["operation"]: r for r in got["results"]}
        check("peers_have_every_operation", done.returncode == 0 and
              set(rows) == {"put-local-lat", "put-mem-lat", "barrier"} and "perftest" in
              got["compared"] and all(r["ours"] > 0 for r in rows.values()), done.stderr)
        theirs = rows["put-mem-lat"]["perftest"]
        check("ratio_is_ours_by_theirs", theirs["value"] == 2.0 and
              abs(theirs["ratio"] - rows["put-mem-lat"]["ours"] / 2) < 0.001 and
              rows["barrier"]["perftest"] is None, rows)
        for mpi in ("openmpi", "mpich"):
            if mpi in got["compared"]:
                check(f"{mpi}_is_measured", rows["put-local-lat"][mpi]["value"] > 0 and
                      rows["barrier"][mpi]["value"] > 0, rows)
        done = run(PERF, "--peers", "--json", "-q", "-n", "30", "--rounds", "2", "--processes", "3",
                   "reduce-double", "reduce-uint64", TMPDIR=folder)
        got = json.loads(done.stdout)
        check("reductions_of_three_processes_are_compared_in_rounds", done.returncode == 0 and
              (got["processes"], got["rounds"]) == (3, 2) and
              [r["operation"] for r in got["results"]] == ["reduce-double", "reduce-uint64"] and
              all(r["ours"] > 0 and r[mpi]["ratio"] > 0 for r in got["results"]
                  for mpi in ("openmpi", "mpich") if mpi in got["compared"]), done.stderr)
        check("peers_leave_no_files", sorted(os.listdir(folder)) == ["ib_write_lat", "ibv_devices"],
              os.listdir(folder))
        # ours cannot run
        done = run(PERF, "--peers", "-q", "-n", "50", "-s", "8", "put-mem-lat",
                   PATH=folder + ":" + os.environ["PATH"], TMPDIR=folder, UTOFU_PROVIDER="no")
        check("nothing_to_compare_with_is_told", done.returncode == 1 and
              "nothing to compare with" in done.stderr and len(os.listdir(folder)) == 2,
              (done.stderr, os.listdir(folder)))
        # one that fails is told, and the others go on
        with open(os.path.join(folder, "ib_write_lat"), "w") as f:
            f.write("#!/bin/sh\necho broken >&2\nexit 1\n")
        done = run(PERF, "--peers", "-q", "-n", "50", "-s", "8", "put-mem-lat",
                   PATH=folder + ":" + os.environ["PATH"], TMPDIR=folder)
        check("a_peer_that_fails_is_told", done.returncode == 0 and
              "put-mem-lat of perftest failed" in done.stderr and "put-mem-lat" in done.stdout,
              done.stderr)


def in_session(sid):
    text = run("ps", "-s", str(sid), "-o", "pid=,stat=,args=").stdout.splitlines()
    return [line for line in text if line.split()[1][0] != "Z"]


def interrupted(name, command, delay, number, group):
    with tempfile.TemporaryDirectory() as folder:
        before = set(glob.glob("/dev/shm/*"))
        with subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL,
                              env={**os.environ, "TMPDIR": folder}) as job:
            time.sleep(delay)
            alive = job.poll() is None
            if group:
                os.killpg(job.pid, number)
            else:
                os.kill(job.pid, number)
            job.wait(timeout=30)
            deadline = time.monotonic() + 10
            while in_session(job.pid) and time.monotonic() < deadline:
                time.sleep(0.1)
            left = in_session(job.pid)
        shm = {f for f in set(glob.glob("/dev/shm/*")) - before if "utofu" in f}
        check(name, alive and not left and not shm and not os.listdir(folder),
              (alive, left, shm, os.listdir(folder)))


def group_interrupt():
    job = [RUN, "-n", "2", PERF, "-q", "-n", "100000000", "-s", "8", "put-lat"]
    interrupted("ctrl_c_leaves_nothing", job, 1.0, signal.SIGINT, True)
    interrupted("sigterm_leaves_nothing", job, 1.0, signal.SIGTERM, False)
    peers = [PERF, "--peers", "-q", "-n", "3000000", "-s", "8", "put-mem-lat", "put-local-lat"]
    for delay in (0.3, 5.0):
        interrupted(f"ctrl_c_of_peers_after_{delay}_s_leaves_nothing", peers, delay, signal.SIGINT,
                    True)
    interrupted("sigterm_of_peers_leaves_nothing", peers, 1.0, signal.SIGTERM, False)


groups = {name[6:]: f for name, f in globals().items() if name.startswith("group_")}
if len(sys.argv) != 2 or sys.argv[1] not in groups:
    sys.exit(f"usage: test_perf.py {'|'.join(groups)}")
groups[sys.argv[1]]()
sys.exit(failures != 0)
