#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library has the probes that docs/guide/tracing.md lists, with as many arguments, and each is one nop.

usage: probes_test.py LIBRARY TRACING.MD PUTS.BT
"""
import re
import subprocess
import sys

library, document, script = sys.argv[1:]
notes = subprocess.run(["readelf", "-nW", library], stdout=subprocess.PIPE, text=True, check=True).stdout
probes = re.findall(r"Provider: utofu\s+Name: (\w+)\s+Location: 0x0*([0-9a-f]+).*?Arguments: ([^\n]*)", notes, re.S)
with open(document) as f:
    listed = dict(re.findall(r"^\| `utofu:(\w+)` \|[^|]*\| (.*) \|", f.read(), re.M))
wrong = []
if {name for name, _, _ in probes} != set(listed):
    wrong.append(f"the library has {sorted({name for name, _, _ in probes})}, the page {sorted(listed)}")
code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], stdout=subprocess.PIPE, text=True,
                      check=True).stdout
at = dict(re.findall(r"^ +([0-9a-f]+):\t(\S+)", code, re.M))
for name, location, arguments in probes:
    if at.get(location) != "nop":
        wrong.append(f"{name} at {location} is {at.get(location)}, not nop")
    expected = {"put": 4, "completion": 3, "notice": 4, "death": 3}.get(name)
    if len(arguments.split()) != expected:
        wrong.append(f"{name} has the arguments {arguments}, not {expected}")
with open(script) as f:
    used = set(re.findall(r"^usdt:\$1:utofu:(\w+)", f.read(), re.M))
if used != set(listed):
    wrong.append(f"puts.bt uses {sorted(used)}")
print("\n".join("FAIL: " + line for line in wrong) or f"ok: {len(probes)} places of {len(listed)} probes")
sys.exit(1 if wrong else 0)
