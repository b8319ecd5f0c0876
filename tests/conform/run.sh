#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh CONFORM OPTIONS LAUNCHER...: runs utofu-conform and fails if a promise of the manual does
# not hold, a process is lost, or the file of answers is wrong. UT_CONFORM_KEEP=FILE keeps a copy of the answers.
set -u
conform=$1 options=$2
shift 2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export CONFORM_DIR="$dir/exchange"
# shellcheck disable=SC2086 # the options are words
"$@" "$conform" --output "$dir/answers.json" --timeout-scale "${UT_TEST_TIMEOUT_SCALE:-2}" $options
status=$?
if [ -e "$dir/exchange" ] && [ $status -le 1 ]; then
    echo "run.sh: files are left of the exchange: $(ls "$dir/exchange")" >&2
    status=1
fi
python3 - "$dir/answers.json" << 'END' || status=1
import json
import sys

answers = json.load(open(sys.argv[1], encoding="utf-8"))
assert "running" not in answers, answers["running"]
names = [case["case"] for case in answers["cases"]]
assert names and len(names) == len(set(names)), names
for case in answers["cases"]:
    if case["outcome"] == "not tried" and not case["why"][0].startswith(("runs only", "left out")):
        print("not tried:", case["case"], case["why"][0])
END
if [ -n "${UT_CONFORM_KEEP:-}" ]; then
    cp "$dir/answers.json" "$UT_CONFORM_KEEP"
fi
exit $status
