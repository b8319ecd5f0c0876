#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the library and its tools write for programs is the same in the locales of Germany, whose decimal point is a
comma, and of Turkey, where "i" is not the small letter of "I".

usage: test_locale.py GROUP, with UTOFURUN, PERF, INFO, TRACE, MODEL, KNOWN, REGIONS and SET_LOCALE (a library for
LD_PRELOAD) naming files; group python: PYTHONPATH with the package utofu
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

failures = 0
RUN, PERF, INFO, TRACE, MODEL, KNOWN, REGIONS, SET_LOCALE = (
    os.environ.get(name) for name in ("UTOFURUN", "PERF", "INFO", "TRACE", "MODEL", "KNOWN", "REGIONS", "SET_LOCALE"))
POINTS = {"C": ".", "de_DE.UTF-8": ",", "tr_TR.UTF-8": ","}
SKIPPED = 77


def check(name, good, text=""):
    global failures
    print(f"{'ok' if good else 'FAILED'}: {name}{'' if good else ': ' + str(text)}")
    failures += not good


def make_locales(folder):
    """Without root, from the sources of the package locales."""
    sources = Path("/usr/share/i18n/locales")
    if not shutil.which("localedef") or not (sources / "de_DE").exists() or not (sources / "tr_TR").exists():
        print("skipped: localedef or the sources of locales are missing: install the package locales")
        sys.exit(SKIPPED)
    for name in POINTS:
        if name != "C":
            subprocess.run(["localedef", "-i", name.split(".")[0], "-f", "UTF-8", f"{folder}/{name}"], check=True)


class Place:
    """A locale, and a folder for what is written in it."""

    def __init__(self, folder, name):
        self.name, self.point = name, POINTS[name]
        self.folder = Path(folder, f"out-{name}")
        self.folder.mkdir()
        self.env = {**os.environ, "LOCPATH": folder, "LC_ALL": name, "UT_TEST_POINT": self.point}
        self.env.pop("LANGUAGE", None)

    def run(self, *command, **env):
        """A command that calls no setlocale(), as our tools."""
        return subprocess.run([str(c) for c in command], env={**self.env, **env}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=200, check=False)

    def ranks(self, n, *command, **env):
        """A program that has called it."""
        return self.run(RUN, "-n", n, "env", f"LD_PRELOAD={SET_LOCALE}", *command, **env)


def commas(text):
    """Numbers with a comma instead of a point."""
    return re.findall(r'[=":\s]\d+,\d+(?!\w)', text)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def text_of_stats(place):
    done = place.ranks(2, KNOWN, UTOFU_STATS="1")
    lines = [line for line in done.stderr.splitlines() if line.startswith("utofu: stats:")]
    pairs = [pair.split("=", 1) for line in lines for pair in line.split() if "=" in pair]
    check(f"{place.name}: stats_have_points", done.returncode == 0 and len(lines) > 4 and
          any("." in value for key, value in pairs if key == "seconds") and
          not any("," in value for _, value in pairs), done.stderr)
    counted = [(key, value) for key, value in pairs if key in
               ("puts", "put_bytes", "gets", "get_bytes", "armws", "nops", "failed", "arrivals")]
    return sorted(counted)


def summary_of_job(place):
    path = place.folder / "job.json"
    done = place.ranks(2, KNOWN, UTOFU_STATS=f"job,json,file={path}")
    text = path.read_text() if path.exists() else ""
    try:
        counters = json.loads(text)["counters"]
    except (ValueError, KeyError) as error:
        check(f"{place.name}: summary_is_json", False, f"{error}: {text or done}")
        return None
    check(f"{place.name}: summary_is_json", done.returncode == 0 and
          all(is_number(v) for c in counters.values() for v in c.values()), counters)
    done = place.ranks(2, KNOWN, UTOFU_STATS="job")
    means = dict(re.findall(r"^utofu: stats:   (\w+) +\S+ +\S+ +\S+ +(\S+)", done.stderr, re.M))
    means = {key: means.get(key) for key in ("put_bytes", "puts", "arrivals")}
    return {key: counters[key] for key in ("puts", "put_bytes", "gets", "armws", "arrivals", "failed")}, means


def regions_of_job(place):
    path = place.folder / "regions.json"
    done = place.ranks(3, REGIONS, "uneven", UTOFU_STATS=f"job,json,file={path}")
    regions = json.loads(path.read_text())["regions"] if done.returncode == 0 and path.exists() else None
    done = place.ranks(1, REGIONS, UTOFU_STATS="1")
    seconds = re.findall(r"region calls=\d+ seconds=(\S+)", done.stderr)
    check(f"{place.name}: seconds_of_regions_have_points", seconds and
          all(re.fullmatch(r"\d+\.\d{6}", s) for s in seconds), done.stderr)
    return regions and sorted((r["name"], r["counters"]["puts"]["mean"]) for r in regions)


def timeline(place):
    done = place.ranks(2, KNOWN, UTOFU_TRACE=f"{place.folder}/t.json")
    names = []
    for path in sorted(glob.glob(f"{place.folder}/t.*.json")):
        events = json.loads(Path(path).read_text())
        events = events["traceEvents"] if isinstance(events, dict) else events
        spans = [e for e in events if e.get("ph") == "X"]
        check(f"{place.name}: durations_are_numbers", spans and all(is_number(e["dur"]) for e in spans), path)
        names += sorted(e["name"] for e in spans if e.get("cat") in ("put", "get", "armw", "nop"))
    merged = place.run(TRACE, "-o", place.folder / "all.json", *sorted(glob.glob(f"{place.folder}/t.*.json")))
    check(f"{place.name}: timelines_are_merged", merged.returncode == 0 and
          json.loads((place.folder / "all.json").read_text()), merged)
    return done.returncode, [re.sub(r"VCQ \w+", "VCQ", name) for name in names]


def words_in_capitals(place):
    """Values in capitals, with the letter I."""
    done = place.ranks(1, REGIONS, UTOFU_LOG_LEVEL="INFO", UTOFU_NUM_MRQ_ENTRIES="2KI")
    check(f"{place.name}: values_in_capitals_are_known", done.returncode == 0 and "utofu: info:" in done.stderr and
          "not allowed" not in done.stderr, done)
    ofi = place.ranks(1, REGIONS, UTOFU_PROVIDER="OFI")  # not in all builds
    bad = place.ranks(1, REGIONS, UTOFU_PROVIDER="OFII")
    check(f"{place.name}: another_value_is_refused", "'OFII' is not allowed" in bad.stderr, bad)
    return "is not allowed" in ofi.stderr and ofi.stderr, place.run(INFO, "--explain", "err_invalid_cmp_id").stdout


def group_library(places):
    for part in (text_of_stats, summary_of_job, regions_of_job, timeline, words_in_capitals):
        got = {place.name: part(place) for place in places}
        check(f"{part.__name__} is the same everywhere", all(g == got["C"] and g for g in got.values()), got)


def group_tools(places):
    record = places[1].ranks(2, KNOWN, UTOFU_TRACE=f"{places[1].folder}/r.rec,record=1")
    recordings = sorted(glob.glob(f"{places[1].folder}/r.*.rec"))
    check("a_recording_is_made", record.returncode == 0 and len(recordings) == 2, record)
    got = {}
    for place in places:
        line = place.folder / "line.json"
        runs = [place.run(MODEL, *options, *recordings) for options in
                ((), ("--json",), ("--compute", "0.5"), ("-w", "link.hop_ns=150.5", "-t", line))]
        check(f"{place.name}: model_reads_it", all(r.returncode == 0 for r in runs), runs)
        check(f"{place.name}: model_writes_json", json.loads(runs[1].stdout) and json.loads(line.read_text()))
        got[place.name] = [r.stdout for r in runs], line.read_text()
    check("model_says_the_same_everywhere", all(g == got["C"] for g in got.values()), got)
    got = {}
    for place in places:
        done = place.run(RUN, "-n", 2, PERF, "--json", "-q", "--duration", "0.05", "-s", "8", "put-lat")
        rows = json.loads(done.stdout)["results"] if done.returncode == 0 else [{}]
        check(f"{place.name}: perf_writes_json", any(isinstance(v, float) for v in rows[0].values()), done)
        table = place.run(RUN, "-n", 2, PERF, "-n", "100", "-s", "8", "put-lat")
        check(f"{place.name}: table_of_perf_has_points", table.returncode == 0 and not commas(table.stdout) and
              re.search(r"^put-lat +8 +\d+\.\d+ ", table.stdout, re.M), table)
        info = place.run(INFO, "--json")
        facts = json.loads(info.stdout) if info.returncode == 0 else None
        check(f"{place.name}: info_writes_json", facts, info)
        got[place.name] = sorted(rows[0]), sorted(facts or {})
    check("json_of_tools_has_the_same_members_everywhere", all(g == got["C"] for g in got.values()), got)


PROGRAM = """
import locale, runpy, sys
locale.setlocale(locale.LC_ALL, "")
assert locale.localeconv()["decimal_point"] == sys.argv.pop(1)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def group_python(places):
    latency = Path(__file__).resolve().parents[2] / "examples" / "latency.py"
    for place in places:
        path = place.folder / "job.json"
        done = place.run(RUN, "-n", 2, sys.executable, "-c", PROGRAM, place.point, latency, "--rounds", "2",
                         UTOFU_STATS=f"job,json,file={path}", UTOFU_LOG_LEVEL="INFO")
        counters = json.loads(path.read_text())["counters"] if path.exists() else {}
        check(f"{place.name}: python_has_the_same_summary", done.returncode == 0 and counters and
              all(is_number(v) for c in counters.values() for v in c.values()) and "." in path.read_text(), done)


def main():
    group = {"library": group_library, "tools": group_tools, "python": group_python}[sys.argv[1]]
    for name in [name for name in os.environ if name.startswith("UTOFU_")]:
        del os.environ[name]
    with tempfile.TemporaryDirectory() as folder:
        make_locales(folder)
        group([Place(folder, name) for name in POINTS])
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
