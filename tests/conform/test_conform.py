# SPDX-License-Identifier: Apache-2.0
"""What utofu-conform prints and writes: its pages, files, and what it makes of a process that is lost.

usage: test_conform.py pages|compare|lost|resume|timing|differences
"""
import json
import os
import subprocess
import sys
import tempfile

CONFORM, UTOFURUN, DOCS = os.environ["CONFORM"], os.environ["UTOFURUN"], os.environ["DOCS"]
TIMEOUT_SCALE = os.environ.get("UT_TEST_TIMEOUT_SCALE", "2")


def output_of(*options, status=0):
    done = subprocess.run([CONFORM, *options], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == status, (options, done.returncode, done.stderr)
    return done.stdout


def run_job(folder, *options, env=None, before=(), size=2, stderr=None):
    """The answers of a job; None if it did not end well."""
    path = os.path.join(folder, "answers.json")
    command = [*before, UTOFURUN, "-n", str(size), CONFORM, "--output", path, "--timeout-scale", TIMEOUT_SCALE,
               *options]
    subprocess.run(command, env={**os.environ, "CONFORM_DIR": os.path.join(folder, "dir"), **(env or {})},
                   stdout=subprocess.DEVNULL, stderr=stderr, check=False)
    with open(path, encoding="utf-8") as f:
        return path, json.load(f)


def pages():
    """The tables contradict nobody, and the pages of the documentation are made from them."""
    output_of("--list")
    for option, page in (("--beliefs", "beliefs.md"), ("--sentences", "manual-sentences.md")):
        with open(os.path.join(DOCS, page), encoding="utf-8") as f:
            assert f.read() == output_of(option), f"{page} is old: utofu-conform {option} > docs/reference/{page}"
    output_of("--only", status=2)
    output_of("--unknown", status=2)


def file_of(folder, name, *cases):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"program": "utofu-conform", "format": 1, "cases": list(cases)}, f)
    return path


def case(name, outcome, **more):
    return {"case": name, "kind": "promised", "says": "something", "outcome": outcome, **more}


def compare():
    """Each kind of difference is told, and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        base = [case("a", "holds"), case("b", "seen", saw={"x": 1, "y": 2}, numbers={"n": [1, 3]})]
        one = file_of(folder, "one", *base)
        assert ", 0 of them differ" in output_of("--compare", one, one)
        counts = file_of(folder, "counts", base[0], case("b", "seen", saw={"y": 7, "x": 9}, numbers={"n": [2, 5]}))
        assert ", 0 of them differ" in output_of("--compare", one, counts)
        for name, cases, wanted in (
                ("fails", [case("a", "fails", why=["rank 1: wrong byte"]), base[1]],
                 ["A: holds; B: fails", "rank 1: wrong byte"]),
                ("word", [base[0], case("b", "seen", saw={"x": 1, "z": 2}, numbers={"n": [1, 3]})], ["\"z\" 2 times"]),
                ("number", [base[0], case("b", "seen", saw={"x": 1, "y": 2}, numbers={"n": [4, 5]})],
                 ["n: A 1 to 3, B 4 to 5"]),
                ("lacks", base[:1], ["b: B does not have it"])):
            text = output_of("--compare", one, file_of(folder, name, *cases), status=1)
            for words in wanted:
                assert words in text, (name, text)
        whole = open(one, encoding="utf-8").read()
        for length in range(len(whole)):  # a file that is cut off is read as far as it goes
            with open(os.path.join(folder, "cut"), "w", encoding="utf-8") as f:
                f.write(whole[:length])
            done = subprocess.run([CONFORM, "--compare", one, os.path.join(folder, "cut")], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, check=False)
            assert done.returncode in (0, 1, 2), (length, done)
        output_of("--compare", one, os.path.join(folder, "missing"), status=2)


def lost():
    """A process that ends in the middle of a case: the file names the case, and is valid JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "answers.json")
        command = [UTOFURUN, "-n", "2", "sh", "-c",
                   f'[ "$UTOFU_RANK" = 0 ] || (sleep 2; kill -9 $$) & exec "{CONFORM}" '
                   f'--output "{path}" --repeat 100000000 --only "first-*"']
        done = subprocess.run(command, env={**os.environ, "CONFORM_DIR": os.path.join(folder, "dir")},
                              stderr=subprocess.PIPE,
                              check=False)
        assert done.returncode != 0, done
        with open(path, encoding="utf-8") as f:
            answers = json.load(f)
        assert answers["running"].startswith("first-"), answers
        # what comes behind that case is run by the next job, and the case has its outcome
        _, answers = run_job(folder, "--resume", "--only", "put-tcq-*")
        outcomes = {c["case"]: c["outcome"] for c in answers["cases"]}
        assert outcomes.pop("first-ring-of-puts") == "ended the job" and "running" not in answers, outcomes
        assert outcomes, answers


def resume():
    """The second half of the cases goes into the file of the first half."""
    with tempfile.TemporaryDirectory() as folder:
        names = [line.split()[1] for line in output_of("--list").splitlines()]
        path, answers = run_job(folder, "--only", names[0], "--only", names[1])
        assert [c["case"] for c in answers["cases"]] == names[:2], answers
        chosen = [word for name in names[:3] for word in ("--only", name)]
        path, answers = run_job(folder, "--resume", "--quick", *chosen)
        assert [c["case"] for c in answers["cases"]] == names[:3], (path, answers)


def timing():
    """Each pattern is measured, with its deciles in order."""
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "said"), "w+", encoding="utf-8") as said:
        _, answers = run_job(folder, "--time", "--only", "first-*", size=3, stderr=said)
        rows = answers["timing"]
        said.seek(0)
        text = said.read()
    assert "is not set to receive it" not in text, text  # gates are freed and set anew between circuits
    wanted = {"put-ping-pong", "get", "armw8-add", "put-window", "get-window", "put-window-of-all", "get-window-of-all",
              "ring", "all-to-all", "incast", "barrier"}
    assert {row["pattern"] for row in rows} == wanted, rows
    assert {row["tnis"] for row in rows if row["pattern"] == "all-to-all"} == {1, 6}, rows
    for row in rows:
        assert row["count"] >= 16 and 0 < row["least"] <= row["median"], row
        assert row["deciles"] == sorted(row["deciles"]), row


def differences():
    """The table of differences between our own providers: where the manual promises something, there is none."""
    jobs = {"shared memory": ((), {}), "libfabric": ((), {"UTOFU_PROVIDER": "ofi", "UTOFU_OFI_DOMAIN": "lo"}),
            "shuffled": ((), {"UTOFU_SHUFFLE": "7"})}
    if "ADAPTER" in os.environ:
        for profile in ("rxe", "mlx5", "line64"):
            jobs[profile] = ((os.environ["ADAPTER"], "--profile", profile, "--"), {"UTOFU_PROVIDER": "verbs"})
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, (before, env) in jobs.items():
            os.mkdir(os.path.join(folder, name))
            files[name], answers = run_job(os.path.join(folder, name), "--quick", before=before, env=env)
            wrong += [(name, c["case"], c["why"]) for c in answers["cases"] if c["outcome"] == "fails"]
        base = "shared memory"
        for name in files:
            if name != base:
                done = subprocess.run([CONFORM, "--compare", files[base], files[name]],
                                      stdout=subprocess.PIPE, encoding="utf-8",
                                      check=False)
                print(f"==== {base} (A) and {name} (B)\n{done.stdout}")
    assert not wrong, wrong


if __name__ == "__main__":
    globals()[sys.argv[1]]()
