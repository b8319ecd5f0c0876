#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""utofu-perf: what it prints, what it refuses, what it leaves behind.

usage: test_perf.py GROUP, with UTOFURUN and PERF naming the programs.
"""
import glob
import json
import os
import re
import shutil
import signal
import socket
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
            (2, ["-s", "2G", "put-lat"], "more than the largest message, 1G"),
            (2, ["-s", "16M", "session-chain"], "0 to 16777215 bytes (the largest put)"),
            (2, ["--duration", "0", "put-lat"], "takes seconds from 0.01 to 86400, not '0'"),
            (2, ["--duration", "0.009", "put-lat"], "from 0.01 to 86400, not '0.009'"),
            (2, ["--duration", "86401", "put-lat"], "from 0.01 to 86400, not '86401'"),
            (2, ["--duration", "-1", "put-lat"], "from 0.01 to 86400, not '-1'"),
            (2, ["--duration", "1e1", "put-lat"], "from 0.01 to 86400, not '1e1'"),
            (2, ["--duration", "0x1", "put-lat"], "from 0.01 to 86400, not '0x1'"),
            (2, ["--duration", "1.2.3", "put-lat"], "from 0.01 to 86400, not '1.2.3'"),
            (2, ["--duration", "", "put-lat"], "from 0.01 to 86400, not ''"),
            (2, ["--duration", "1", "-n", "5", "put-lat"], "exclude each other"),
            (2, ["--buffers", "0", "put-bw"], "takes a number from 1"),
            (2, ["--buffers", "65", "put-bw"], "more than the window, 64"),
            (2, ["--verify", "barrier"], "moves no data"),
            (2, ["--verify", "--target", "sleep", "put-lat"], "a target that polls"),
            (2, ["--histogram=5", "put-lat"], "takes no value"),
            (0, ["--peers", "--verify", "put-bw"], "do not go with --peers"),
            (0, ["--peers", "--histogram", "put-bw"], "do not go with --peers"),
            (0, ["--peers", "--duration", "2s", "put-bw"], "from 0.01 to 86400, not '2s'"),
            (0, ["--peers", "--target", "sleep", "armw-lat"], "do not go with --peers"),
            (0, ["--listen", "0"], "takes [HOST:]PORT"),
            (0, ["--listen", ":5000"], "takes [HOST:]PORT"),
            (0, ["--listen", "5000", "put-lat"], "name operations and options there"),
            (0, ["--listen", "5000", "--json"], "name operations and options there"),
            (0, ["--listen", "5000", "--connect", "a"], "two different processes"),
            (2, ["--listen", "5000"], "without a launcher"),
            (2, ["--connect", "a", "put-lat"], "without a launcher"),
            (0, ["--connect", "a:b", "put-lat"], "takes HOST[:PORT]"),
            (0, ["--connect", "a"], "name an operation"),
            (2, ["-s", "8x", "put-lat"], "is not a list of sizes"),
            (2, ["-s", "7", "reduce-double"], "takes"),
            (2, ["-n", "0", "put-lat"], "takes a number"),
            (2, ["nothing"], "there is no operation"),
            (2, [], "name an operation"),
            (1, ["put-lat"], "needs 2 processes and has 1"),
            (3, ["put-lat"], "an even number of processes"),
            (2, ["--peers", "put-lat"], "without a launcher"),
            (0, ["--peers", "ping-pong"], "no peer does ping-pong"),
            (0, ["--peers", "-t", "2", "barrier"], "one thread"),
            (0, ["--peers", "-s", "0", "put-bw"], "from 1 byte"),
            (0, ["--peers", "--processes", "4", "get-lat"], "between 2 processes, not 4"),
            (0, ["--peers", "--rounds", "0", "barrier"], "takes a number"),
            (2, ["--rounds", "2", "barrier"], "go with --peers"),
            (2, ["--check", "barrier"], "go with --peers"),
            (0, ["--peers", "--check", "--rounds", "2", "barrier"], "--check takes --rounds 3 or more"),
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
    # different options in the two processes
    script = 'if [ "$UTOFU_RANK" = 1 ]; then n=20; else n=30; fi; exec "$0" -n $n put-lat'
    done = run(RUN, "-n", "2", "sh", "-c", script, PERF)
    check("processes_with_different_options_are_refused", done.returncode == 2 and
          "given other options" in done.stderr, (done.returncode, done.stderr))
    peer = os.path.join(os.path.dirname(PERF), "peers", "peer")
    for args, words in ((["ucx", "put-lat", "x", "10", "8"], "WINDOW 'x' is not a number from 1 to 1024"),
                        (["ucx", "put-lat", "64", "0", "8"], "ITERATIONS '0' is not a number"),
                        (["mpich", "put-lat", "64", "10", "8", "-8"], "SIZE '-8' is not a number"),
                        (["perftest", "put-lat", "64", "10"], "Usage: peer list"),
                        (["lam", "put-lat", "64", "10", "8"], "Usage: peer list")):
        done = run(peer, *args)
        check(f"peer_refuses: {' '.join(args)}", done.returncode == 2 and words in done.stderr,
              (done.returncode, done.stderr))
    check("peer_has_no_counterpart", run(peer, "ucx", "barrier", "1", "1", "0").returncode == 3)
    with tempfile.TemporaryDirectory() as folder:
        moved = os.path.join(folder, "bin", "utofu-perf")  # without the script that --peers needs
        os.mkdir(os.path.dirname(moved))
        shutil.copy(PERF, moved)
        done = run(moved, "--peers", "put-lat", "-n", "10", "-s", "8")
        check("moved_alone_it_says_what_is_missing", done.returncode == 0 or (
              done.returncode == 1 and "it is installed with utofu-perf" in done.stderr), done.stderr)


def rows_of(done):
    return json.loads(done.stdout)["results"] if done.returncode == 0 else []


def group_help():
    beside = [os.path.join(os.path.dirname(PERF), name) for name in ("utofu-info", "utofu-trace")]
    for program in (PERF, RUN, *beside):
        done = run(program, "--help")
        wide = [line for line in done.stdout.splitlines() if len(line) > 80]
        check(f"help_fits_80_columns: {os.path.basename(program)}",
              done.returncode == 0 and done.stdout and not wide, wide)


def group_sizes():
    done = run(RUN, "-n", "2", PERF, "--json", "-q", "-n", "1", "-w", "0", "-W", "2", "--verify",
               "-s", "16777215,16M,20M", "put-lat", "put-mem-lat", "put-local-lat", "get-lat",
               "put-bw", "put-bibw")
    check("more_than_the_largest_put_goes_in_pieces", done.returncode == 0 and
          [r["bytes"] for r in rows_of(done)] == 6 * [16777215, 16777216, 20971520] and
          all(r["mb_per_s"] > 0 for r in rows_of(done)), done.stderr)
    done = run(RUN, "-n", "2", PERF, "--json", "-q", "-n", "1", "-w", "0", "-s", "256M", "put-bw")
    check("a_window_is_one_gib_at_most_by_default", done.returncode == 0 and
          rows_of(done)[0]["window"] == 4, done.stderr)


def group_verify():
    for provider in ({}, {"UTOFU_SHM_MAP": "0"}):
        done = run(RUN, "-n", "4", PERF, "--json", "-q", "-n", "30", "-W", "7", "--buffers", "3",
                   "-s", "1,8,24,37,64K", "--verify", *(o for o in OPERATIONS if o != "barrier" and
                                              o[:6] not in ("reduce", "piggyb", "stride")),
                   **provider)
        check(f"good_data_pass {provider}", done.returncode == 0 and
              json.loads(done.stdout)["verified"] is True, done.stderr)
    done = run(RUN, "-n", "2", PERF, "-q", "-n", "30", "--verify", "-t", "2", "-T", "0,1", "put-bw",
               "stride", "piggyback-lat", "-s", "8,32")
    check("threads_and_tnis_pass", done.returncode == 0, done.stderr)
    done = run(RUN, "-n", "3", PERF, "-q", "-n", "30", "--verify", "-s", "8,24", "reduce-uint64",
               "reduce-double")
    check("reductions_pass", done.returncode == 0, done.stderr)
    # the last byte that put-lat leaves may be the one that put-mem-lat waits for first
    done = run(RUN, "-n", "2", PERF, "-q", "-n", "1", "-w", "0", "--verify", "-s",
               ",".join(str(n) for n in range(1000, 1064)), *(4 * ["put-lat", "put-mem-lat"]))
    check("bytes_of_the_row_before_are_not_taken_for_new_ones", done.returncode == 0, done.stderr)
    if "CORRUPT" not in os.environ:
        print("skipped: no damage under a sanitizer")
        return
    for operation, who, finds in [(o, 0, 1) for o in OPERATIONS if o.startswith("put-") or o in
                                  ("ping-pong", "piggyback-lat", "stride", "relay-chain")] + [
                                      ("get-lat", 0, 0), ("put-bibw", 1, 0),
                                      # the relay sends the damage on: either finds it first
                                      ("session-chain", 0, "[01]")]:
        done = run(RUN, "-n", "2", "env", "LD_PRELOAD=" + os.environ["CORRUPT"], PERF, "-q",
                   "-n", "50", "-s", "32", "--verify", operation, CORRUPT_RANK=str(who),
                   CORRUPT_BYTE="13")
        check(f"a_damaged_byte_is_found: {operation}", done.returncode == 1 and
              re.search(rf"\[rank {finds}\] {operation} of 32 bytes, iteration \d+: byte 13 is 0x",
                        done.stderr), (done.returncode, done.stderr))
    done = run(RUN, "-n", "2", "env", "LD_PRELOAD=" + os.environ["CORRUPT"], PERF, "-q", "-n", "50",
               "-s", "32", "put-lat", CORRUPT_RANK="0", CORRUPT_BYTE="13")
    check("without_verify_nobody_looks", done.returncode == 0, done.stderr)


def samples_of(row, processes, threads):
    """The number of messages of a row, if all processes have done the iterations that it names."""
    operation = row["operation"]
    if operation.endswith("-chain"):
        return row["iterations"]
    if operation == "barrier" or operation.startswith("reduce"):
        return row["iterations"] * processes
    measuring = processes if operation == "put-bibw" else processes // 2
    return row["iterations"] * threads * measuring


def group_duration():
    for operation in ("put-lat", "put-mem-lat", "put-bw", "barrier", "connect"):
        begin = time.monotonic()
        done = run(RUN, "-n", "2", PERF, "--json", "-q", "--duration", "1.5", "-s", "8", operation)
        rows = rows_of(done)
        # the first round has one iteration; a second one follows as it takes less than the duration
        check(f"duration_of_{operation}", len(rows) == 1 and rows[0]["iterations"] > 1 and
              time.monotonic() - begin >= 1.5 and rows[0]["min_us"] <= rows[0]["p50_us"] and
              rows[0]["mb_per_s"] >= 0, done.stderr)
    for more in ([], ["--verify"], ["-w", "3"]):
        done = run(RUN, "-n", "4", PERF, "--json", "-q", "--duration", "0.05", "-s", "8,24", *more,
                   *(o for o in OPERATIONS if o != "barrier" or not more))
        check(f"all_processes_do_the_iterations_of_a_row {more}", done.returncode == 0 and
              {r["operation"] for r in rows_of(done)} >= set(OPERATIONS) - {"barrier"} and
              all(r["iterations"] > 0 and r["samples"] == samples_of(r, 4, 1)
                  for r in rows_of(done)), (done.stderr, done.stdout))
    done = run(RUN, "-n", "2", PERF, "--json", "-q", "--duration", "0.01", "-s", "8", "-t", "3",
               "put-bibw", "put-rate", "put-mem-lat")
    check("threads_do_the_iterations_of_a_row", len(rows_of(done)) == 3 and
          all(r["samples"] == samples_of(r, 2, 3) for r in rows_of(done)), done.stdout)
    done = run(RUN, "-n", "2", PERF, "--json", "-q", "-n", "37", "-s", "8", *OPERATIONS)
    check("a_number_of_iterations_is_done_exactly", {r["operation"] for r in rows_of(done)} ==
          set(OPERATIONS) and all(r["iterations"] == 37 and r["samples"] == samples_of(r, 2, 1)
                                  for r in rows_of(done)), (done.stderr, done.stdout))
    done = run(RUN, "-n", "2", PERF, "--json", "-q", "-s", "8", "put-local-lat", "connect")
    check("a_time_is_the_default", done.returncode == 0 and
          [r["operation"] for r in rows_of(done)] == ["put-local-lat", "connect"] and
          rows_of(done)[1]["iterations"] <= 500, (done.stderr, done.stdout))


def first_row(stream, operation):
    for line in stream:
        if line.startswith(operation + " "):
            return line
    return ""


def group_rows():
    # a row is read while the next one is measured, which takes a long time
    with subprocess.Popen([RUN, "-n", "2", PERF, "-q", "--duration", "20", "-s", "8,16", "put-lat"],
                          stdout=subprocess.PIPE, text=True) as job:
        row = first_row(job.stdout, "put-lat")
        alive = job.poll() is None
        job.terminate()
        check("a_row_is_printed_before_the_next_is_measured", alive and row.split()[1:2] == ["8"],
              (alive, row))
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("ib_write_lat", HANGS.format(folder=folder)),
                           ("ibv_devices", "#!/bin/sh\necho h\necho -\necho '  mlx5_0  00'\n")):
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
            os.chmod(os.path.join(folder, name), 0o755)
        with subprocess.Popen([PERF, "--peers", "-q", "--duration", "0.05", "-s", "8,64",
                               "put-mem-lat"], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "PATH": folder + ":" + os.environ["PATH"],
                                   "TMPDIR": folder}) as job:
            # the peer of the second row ends when the first row was read, or after 20 s
            row = first_row(job.stdout, "put-mem-lat")
            gave_up = os.path.exists(os.path.join(folder, "gave_up"))
            with open(os.path.join(folder, "go"), "w"):
                pass
            rest = job.stdout.read()
            waited = os.path.exists(os.path.join(folder, "waited"))
            check("a_row_of_peers_is_printed_before_the_next_is_measured", waited and not gave_up and
                  row.split()[1:2] == ["8"] and "put-mem-lat             64" in rest and
                  job.wait() == 0, (waited, gave_up, row, rest))


def group_histogram():
    done = run(RUN, "-n", "2", PERF, "--json", "-q", "-n", "500", "-s", "8", "--histogram",
               "put-lat", "put-bw")
    for r in rows_of(done):
        buckets = r["histogram"]
        check(f"buckets_have_all_samples_of_{r['operation']}",
              sum(b["count"] for b in buckets) == r["samples"] == 500 and
              all(b["from_us"] < b["to_us"] and b["count"] > 0 for b in buckets) and
              all(a["to_us"] <= b["from_us"] * 1.001 for a, b in zip(buckets, buckets[1:])) and
              buckets[0]["from_us"] <= r["min_us"] * 1.001 and
              r["max_us"] <= buckets[-1]["to_us"] * 1.001, buckets)
        check(f"high_percentiles_are_in_order_of_{r['operation']}",
              r["p50_us"] <= r["p90_us"] <= r["p99_us"] <= r["p999_us"] <= r["max_us"], r)
    check("two_histograms", len(rows_of(done)) == 2, done.stderr)
    done = run(RUN, "-n", "2", PERF, "--json", "-q", "-n", "50", "-s", "8", "put-lat")
    check("no_histogram_unless_asked_for", "histogram" not in rows_of(done)[0], done.stdout)
    done = run(RUN, "-n", "2", PERF, "-q", "-n", "500", "-s", "8", "--histogram", "put-lat")
    check("histogram_for_people", "p99.9 " in done.stdout and "%" in done.stdout and
          all(line.startswith("#") or line.startswith("put-lat") for line in
              done.stdout.splitlines()), done.stdout)


def group_shared():
    cpus = sorted(os.sched_getaffinity(0))
    done = run(RUN, "-n", "2", "--bind", "none", PERF, "-q", "-n", "50", "--cpus", str(cpus[0]),
               "-s", "8", "put-lat", "get-lat")
    check("two_on_one_cpu_are_named", done.stdout.count(f"were on CPU {cpus[0]}") == 1,
          done.stdout)
    done = run(RUN, "-n", "2", "--bind", "none", PERF, "-q", "--json", "-n", "50", "--cpus",
               str(cpus[0]), "-s", "8", "put-lat")
    check("two_on_one_cpu_in_json", rows_of(done)[0]["shared_cpu"] is True, done.stdout)
    if len(cpus) > 1:
        done = run(RUN, "-n", "2", "--bind", "none", PERF, "-q", "--json", "-n", "50", "--cpus",
                   f"{cpus[0]},{cpus[1]}", "-s", "8", "put-lat")
        check("two_on_two_cpus_are_not", rows_of(done)[0]["shared_cpu"] is False, done.stdout)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def end_of(process):
    try:
        return process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()


def group_meet():
    without_key = dict(os.environ)
    os.environ['UTOFU_JOB_KEY'] = os.urandom(16).hex()
    for where, to in (("127.0.0.1:{}", "localhost:{}"), ("{}", socket.gethostname() + ":{}")):
        port = free_port()
        with subprocess.Popen([PERF, "--listen", where.format(port)], stderr=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as listener:
            check("listens", f":{port}" in listener.stderr.readline())
            done = run(PERF, "--connect", to.format(port), "-q", "--json", "-n", "50", "-s", "8,64K",
                       "-W", "8", "--verify", "put-lat", "put-bw", "get-lat", "relay-chain")
            rest = end_of(listener)
            check(f"client_and_server_measure: {to}", listener.returncode == 0 and
                  [(r["operation"], r["bytes"]) for r in rows_of(done)] ==
                  [(o, n) for o in ("put-lat", "put-bw", "get-lat", "relay-chain") for n in (8, 65536)] and
                  rest == ("", ""), (done.stderr, rest))
    # the connecting side may start first
    port = free_port()
    with subprocess.Popen([PERF, "--connect", f"127.0.0.1:{port}", "-q", "-n", "20", "put-lat", "-s",
                           "8"], stderr=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        time.sleep(0.5)
        done = run(PERF, "--listen", f"127.0.0.1:{port}", "-q")
        end_of(client)
        check("the_server_may_come_later", done.returncode == 0 and client.returncode == 0,
              done.stderr)
    done = run(PERF, "--connect", f"127.0.0.1:{free_port()}", "put-lat", UTOFU_JOB_TIMEOUT="1")
    check("nobody_listens", done.returncode == 1 and "no process serves this job there" in done.stderr,
          done.stderr)
    # without a key the listener creates one and prints it, and the other end needs it
    port = free_port()
    with subprocess.Popen([PERF, "--listen", f"127.0.0.1:{port}", "-q"], stderr=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True, env=without_key) as listener:
        said = re.search("UTOFU_JOB_KEY=([0-9a-f]{32}) utofu-perf --connect HOST:([0-9]+)",
                         listener.stderr.readline())
        check("the_listener_makes_a_key", said and said[2] == str(port))
        done = run(PERF, "--connect", f"127.0.0.1:{port}", "-q", "-n", "20", "-s", "8", "put-lat",
                   UTOFU_JOB_KEY="")
        check("and_without_it_nobody_connects", done.returncode == 2 and "needs the key" in done.stderr,
              done.stderr)
        done = run(PERF, "--connect", f"127.0.0.1:{port}", "-q", "-n", "20", "-s", "8", "put-lat",
                   UTOFU_JOB_KEY="f" * 32)
        check("nor_with_another_one", done.returncode == 1 and "has another key" in done.stderr,
              done.stderr)
        done = run(PERF, "--connect", f"127.0.0.1:{port}", "-q", "-n", "20", "-s", "8", "put-lat",
                   UTOFU_JOB_KEY=said[1])
        end_of(listener)
        check("with_it_they_measure", done.returncode == 0 and listener.returncode == 0, done.stderr)
    for dies in ("listener", "client"):
        for operation in ("put-lat", "put-bw"):
            port = free_port()
            with subprocess.Popen([PERF, "--listen", f"127.0.0.1:{port}"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True) as listener:
                listener.stderr.readline()
                with subprocess.Popen([PERF, "--connect", f"127.0.0.1:{port}", "-q", "--duration",
                                       "100", operation, "-s", "8"], text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE) as client:
                    for _ in range(3):
                        client.stdout.readline()  # both ends are connected
                    victim, other = ((listener, client) if dies == "listener" else
                                     (client, listener))
                    victim.kill()
                    text = end_of(other)[1]
                    check(f"{dies}_dies_in_{operation}_and_the_other_ends",
                          other.returncode == 1 and "utofu-perf: [rank" in text, text)


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
        # JSON on one line or on many
        with open(files[0]) as f:
            text = f.read()
        other = os.path.join(folder, "reformatted.json")
        for indent in (None, 4):
            with open(other, "w") as f:
                json.dump(json.loads(text), f, indent=indent, sort_keys=True)
            picture = os.path.join(folder, "other.svg")
            done = run(PERF, "--plot", picture, other)
            with open(picture) as f:
                check(f"plot_of_reformatted_json {indent}", done.returncode == 0 and
                      "put-bw" in f.read(), done.stderr)
        compared = os.path.join(folder, "beside.json")
        with open(compared, "w") as f:
            json.dump({"tool": "utofu-perf", "compared": ["ours", "ucx"], "results": [
                {"operation": op, "bytes": n, "unit": unit, "ours": 2.0,
                 "ucx": {"value": 3.0, "ratio": 0.67} if n > 8 else None}
                for op, unit in (("put-lat", "us"), ("put-bw", "MB/s"), ("put-rate", "Mop/s"))
                for n in (8, 64)]}, f)
        done = run(PERF, "--plot", picture, compared, other)
        with open(picture) as f:
            text = f.read()
        check("plot_takes_results_of_peers", done.returncode == 0 and all(
            word in text for word in ("put-lat, ours beside", "put-bw, ucx beside",
                                      "put-bw, reformatted")), done.stderr)
        # the picture is opened first, and an existing one is unchanged if nothing is drawn
        for name in ("/nowhere/x.png", folder + "/none.json/x.png"):
            done = run(PERF, "--plot", name, "/nowhere.json")
            check(f"plot_opens_its_file_first: {name}", done.returncode == 2 and
                  "cannot write " + name in done.stderr, done.stderr)
        with open(picture) as f:
            before = f.read()
        for text in ("", "{", "[1]", '{"tool": "other", "results": []}',
                     '{"tool": "utofu-perf", "results": [{"operation": 5, "bytes": 8}]}',
                     '{"tool": "utofu-perf", "compared": [1], "results": [{}]}'):
            with open(other, "w") as f:
                f.write(text)
            new = os.path.join(folder, "new.png")
            done, again = (run(PERF, "--plot", name, other) for name in (new, picture))
            with open(picture) as f:
                check(f"plot_refuses {text}", done.returncode == again.returncode == 2 and
                      "has no results" in done.stderr and not os.path.exists(new) and
                      f.read() == before, done.stderr)
        only = run("/bin/sh", "-c", 'PATH=/nowhere exec "$0" --plot "$1" "$2"', PERF,
                   os.path.join(folder, "no.png"), files[0])
        check("plot_without_gnuplot_says_so", only.returncode == 1 and
              "is it installed" in only.stderr, only.stderr)


FAKE = """#!/bin/sh
case "$*" in *127.0.0.1*) ;; *) exit 0 ;; esac
echo ' #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]'
echo ' 8       1000          1.50           9.00         2.00                2.25         0.1 3.00 4.00'
"""


# The peer program waits at 64 bytes until the test lets it continue.
HANGS = """#!/bin/sh
case "$*" in *127.0.0.1*) ;; *) exit 0 ;; esac
case "$*" in *'-s 64 '*)
    : >'{folder}/waited'
    for i in $(seq 200); do [ -e '{folder}/go' ] && break; sleep 0.1; done
    [ -e '{folder}/go' ] || : >'{folder}/gave_up' ;;
esac
echo ' 8       1000          1.50           9.00         2.00                2.25         0.1 3.00 4.00'
echo ' 64      1000          1.50           9.00         2.00                2.25         0.1 3.00 4.00'
"""


def measured_or_emulated(row, peer):
    """Some peers do not run on every device, emulated ones least of all, and give no number."""
    if row[peer] is None:
        print(f"not measured: {row['operation']} of {peer}")
        return os.environ.get("UTOFU_PROVIDER") == "verbs"
    return row[peer]["value"] > 0


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
        ours = rows["put-mem-lat"]  # its numbers may differ too much here: group ratios has steady ones
        check("ratio_is_ours_by_theirs", theirs["value"] == 2.0 and
              (abs(theirs["ratio"] - ours["ours"] / 2) < 0.001 if ours["spread"] <= 1.5 else
               theirs["ratio"] is None) and rows["barrier"]["perftest"] is None, rows)
        check("a_row_has_its_samples_spread_and_load", all(
              r["samples"] == 3 and r["spread"] >= 1 and r["load"] >= 0 and r["busy"] in (True, False)
              for r in rows.values()) and (theirs["samples"], theirs["spread"]) == (3, 1.0), rows)
        done = run(PERF, "--peers", "--json", "-q", "-n", "50", "-s", "8", "--rounds", "2", "put-mem-lat",
                   PATH=folder + ":" + os.environ["PATH"], TMPDIR=folder)
        few = rows_of(done)[0]["perftest"]
        check("two_samples_give_no_ratio", few["value"] == 2.0 and few["ratio"] is None and few["samples"] == 2, few)
        if "openmpi" in got["compared"]:
            done = run(PERF, "--peers", "--check", "-q", "-n", "50", "barrier", "put-mem-lat", TMPDIR=folder)
            kept = re.findall(r"barrier of 0 bytes: ratio(?: [\d.]+)? to Open MPI, limit 0.90: "
                              "(keeps it|is worse|cannot be told)", done.stderr)
            check("limits_are_checked", len(kept) == 1 and done.returncode == (kept != ["keeps it"]),
                  (done.returncode, done.stderr))
        for mpi in ("openmpi", "mpich"):
            if mpi in got["compared"]:
                check(f"{mpi}_is_measured", rows["put-local-lat"][mpi]["value"] > 0 and
                      rows["barrier"][mpi]["value"] > 0, rows)
        done = run(PERF, "--peers", "--json", "-q", "-n", "30", "--rounds", "3", "--processes", "3",
                   "reduce-double", "reduce-uint64", TMPDIR=folder)
        got = json.loads(done.stdout)
        check("reductions_of_three_processes_are_compared_in_rounds", done.returncode == 0 and
              (got["processes"], got["rounds"]) == (3, 3) and
              [r["operation"] for r in got["results"]] == ["reduce-double", "reduce-uint64"] and
              all(r["ours"] > 0 and r[mpi]["value"] > 0 and r[mpi]["samples"] == 3 for r in got["results"]
                  for mpi in ("openmpi", "mpich") if mpi in got["compared"]), done.stderr)
        check("peers_leave_no_files", sorted(os.listdir(folder)) == ["ib_write_lat", "ibv_devices"],
              os.listdir(folder))
        done = run(PERF, "--peers", "--json", "-q", "-n", "20", "-s", "8", "put-lat", "put-rate",
                   "put-bw", TMPDIR=folder)
        got = json.loads(done.stdout)
        check("put_lat_and_put_rate_have_peers", done.returncode == 0 and
              [(r["operation"], r["unit"]) for r in got["results"]] ==
              [("put-lat", "us"), ("put-rate", "Mop/s"), ("put-bw", "MB/s")] and
              all(measured_or_emulated(r, peer) for r in got["results"]
                  for peer in got["compared"][1:] if peer != "perftest"), (done.stdout, done.stderr))
        check("windows_of_peers_go_over_one_buffer", got["buffers"] == 1 and
              "one buffer to one buffer" in got["results"][2]["work"], got)
        done = run(PERF, "--peers", "--json", "-q", "-n", "20", "-s", "8", "--buffers", "64",
                   "put-bw", TMPDIR=folder)
        got = json.loads(done.stdout)
        row = got["results"][0]
        check("who_has_one_buffer_is_not_compared_with_64", done.returncode == 0 and
              "64 buffers to 64 buffers" in row["work"] and row.get("ucx") is None and
              all(measured_or_emulated(row, mpi) for mpi in ("openmpi", "mpich") if
                  mpi in got["compared"]),
              row)
        # utofu-perf itself cannot run
        done = run(PERF, "--peers", "-q", "-n", "50", "-s", "8", "put-mem-lat",
                   PATH=folder + ":" + os.environ["PATH"], TMPDIR=folder, UTOFU_PROVIDER="no")
        check("nothing_to_compare_with_is_told", done.returncode == 1 and
              "nothing to compare with" in done.stderr and len(os.listdir(folder)) == 2,
              (done.stderr, os.listdir(folder)))
        # a peer program that fails is reported, and the others run
        with open(os.path.join(folder, "ib_write_lat"), "w") as f:
            f.write("#!/bin/sh\necho broken >&2\nexit 1\n")
        done = run(PERF, "--peers", "-q", "-n", "50", "-s", "8", "put-mem-lat",
                   PATH=folder + ":" + os.environ["PATH"], TMPDIR=folder)
        check("a_peer_that_fails_is_told", done.returncode == 0 and
              "put-mem-lat of perftest failed" in done.stderr and "put-mem-lat" in done.stdout,
              done.stderr)


# utofurun and ucx_perftest of the test: a time for each round, from a file. ucx_perftest needs no other end here.
FAKE_RUN = """#!/bin/sh
n=$(cat '{folder}/round' 2>/dev/null || echo 0); echo $((n + 1)) >'{folder}/round'
echo "put-bw 8 - $(sed -n $((n % 3 + 1))p '{folder}/ours')"
"""
FAKE_UCX = """#!/bin/sh
case "$*" in *127.0.0.1*) ;; *) exit 0 ;; esac
n=$(cat '{folder}/round')
us=$(sed -n $(((n - 1) % 3 + 1))p '{folder}/theirs')
echo "1000,$us,$us,$us,1,1,1,1"
"""


def group_ratios():
    """Numbers of the rounds that are known: when is there a ratio, and what does --check say of it?"""
    with tempfile.TemporaryDirectory() as folder:
        tools, path = os.path.join(folder, "bin"), os.path.join(folder, "path")
        os.mkdir(tools)
        os.mkdir(path)
        perf = shutil.copy(PERF, tools)
        os.symlink(os.path.join(os.path.dirname(PERF), "peers"), os.path.join(tools, "peers"))
        for name, text in ((os.path.join(tools, "utofurun"), FAKE_RUN), (os.path.join(path, "ucx_perftest"), FAKE_UCX)):
            with open(name, "w") as f:
                f.write(text.format(folder=folder))
            os.chmod(name, 0o755)

        def compared(ours, theirs, *options):
            for name, numbers in (("ours", ours), ("theirs", theirs)):
                with open(os.path.join(folder, name), "w") as f:
                    f.write("".join(f"{n}\n" for n in numbers))
            return run(perf, "--peers", "-q", "-n", "50", "-s", "8", *options, "put-bw",
                       PATH=path + ":" + os.environ["PATH"], TMPDIR=folder,
                       LD_LIBRARY_PATH=os.path.dirname(os.path.dirname(PERF)))

        steady, busy = (0.1, 0.101, 0.099), (0.1, 0.2, 0.1)
        for name, ours, theirs, ratio in (("of_steady_numbers", steady, steady, 1.0),
                                          ("none_where_ours_differ", busy, steady, None),
                                          ("none_where_theirs_differ", steady, busy, None)):
            done = compared(ours, theirs, "--json")
            row = rows_of(done)[0]
            check(f"ratio_{name}", row["ucx"]["ratio"] == ratio and row["samples"] == row["ucx"]["samples"] == 3 and
                  row["spread"] == round(max(ours) / min(ours), 4) and
                  row["ucx"]["spread"] == round(max(theirs) / min(theirs), 4), (row, done.stderr))
        slow = tuple(10 * n for n in steady)
        for name, ours, theirs, status, words in (
                ("kept", steady, steady, 0, "ratio 1.00 to UCX, limit 0.40: keeps it"),
                ("worse", slow, steady, 1, "ratio 0.10 to UCX, limit 0.40: is worse"),
                ("not_told", steady, busy, 1, "ratio to UCX, limit 0.40: cannot be told")):
            done = compared(ours, theirs, "--check")
            check(f"limit_is_{name}", done.returncode == status and words in done.stderr,
                  (done.returncode, done.stderr))
        row = [line for line in compared(busy, steady).stdout.splitlines() if line.startswith("put-bw")][0].split()
        head = [line for line in compared(busy, steady).stdout.splitlines() if line.startswith("# operation")][0]
        check("the_table_has_spread_samples_and_load", head.split()[3:6] == ["ours", "spread", "samples"] and
              head.split()[-1] == "load" and row[4:6] == ["2.00", "3"], (head, row))


def group_windows():
    """A sample of short windows is many of them; --verify, and long windows, take one each."""
    rows = {}
    for size in ("8", "1M"):  # apart: memory for the long ones is too much to be mapped
        done = run(RUN, "-n", "2", PERF, "--json", "-q", "-n", "20", "-s", size, "put-bw")
        rows[size] = rows_of(done)[0]
        check(f"a_time_is_that_of_one_put_{size}", rows[size]["samples"] == 20 and
              0.8 < rows[size]["ops_per_s"] * rows[size]["mean_us"] * 1e-6 < 1.25, done.stdout)
    short = rows["8"]["windows_per_sample"]
    check("short_windows_are_measured_together", rows["1M"]["windows_per_sample"] == 1 and
          (short > 1 or rows["8"]["min_us"] * 64 >= 10), rows)
    done = run(RUN, "-n", "2", PERF, "--json", "-q", "-n", "20", "-s", "8", "--verify", "put-bw")
    check("verified_windows_are_measured_alone", done.returncode == 0 and
          rows_of(done)[0].get("windows_per_sample", 1) == 1, done.stderr)


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
