#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every test belongs to one tier (quick, full, nightly; guest: scripts/rxe-vm tests runs it) and to a module's suite.

usage: check_tiers.py BUILD
"""
import json
import sys
from pathlib import Path

TIERS = {"quick", "full", "nightly", "guest"}
bad = []
tests = json.loads((Path(sys.argv[1]) / "meson-info" / "intro-tests.json").read_text())
for test in tests:
    suites = {s.split(":")[-1] for s in test["suite"]}
    if len(suites & TIERS) != 1:
        bad.append(f"{test['name']}: its tiers are {sorted(suites & TIERS)}")
    if not suites - TIERS and "guest" not in suites:
        bad.append(f"{test['name']}: belongs to no suite but {sorted(suites)}")
print("\n".join(bad) or f"ok: {len(tests)} tests")
sys.exit(1 if bad or not tests else 0)
