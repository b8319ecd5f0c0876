#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad twins of the package: each case of cases.py fails with the binding that is wrong in this way.

usage: twins.py UTOFURUN
"""
import subprocess
import sys
from pathlib import Path

import utofu
from utofu import Remote, Vcq, _errors, _meeting, _memory, _query, _start, _vbg, _vcq


def twin_of_put():
    put = Vcq.put
    Vcq.put = lambda self, lcl, rmt, edata=0, flags=0, cbdata=0: put(self, lcl, rmt, edata ^ 1, flags, cbdata)


def twin_of_stride():
    put = Vcq.put_stride
    Vcq.put_stride = lambda self, lcl, rmt, length, stride, *rest, **more: put(
        self, lcl, rmt, length, stride // 8, *rest, **more)


def twin_of_get():
    get = Vcq.get
    Vcq.get = lambda self, lcl, rmt, *rest: get(self, lcl, Remote(rmt.peer, rmt.stadd + 8, rmt.size), *rest)


def twin_of_armw():
    _start.as_unsigned = lambda value, bits: abs(value)


def twin_of_prepared():
    def add(self, number):
        self.number += number
        self.size = self._written[0]

    _memory.Descriptors._add = add


def twin_of_session():
    utofu.VcqFlag = type("Flag", (), {"SESSION_MODE": utofu.VcqFlag.NONE})


def twin_of_barrier():
    _vbg.Vbg._room = lambda self, kind: utofu._cffi.ffi.new(kind, 64)
    _vbg.list = lambda values: list(values)[:1]


def twin_of_errors():
    _errors.get_last_error = lambda: "UTOFU_ERR"


def twin_of_full():
    _errors.Busy = _errors.Error


def twin_of_read_only():
    _memory.RegMemFlag = type("Flag", (), {"READ_ONLY": utofu.RegMemFlag.NONE, "NONE": utofu.RegMemFlag.NONE})


def twin_of_ids():
    construct = _query.construct_vcq_id
    utofu.construct_vcq_id = lambda coords, tni_id, cq_id, cmp_id: construct(coords, tni_id, cq_id, cmp_id ^ 1)


def twin_of_waits():
    _vcq._wait_once = lambda hdls, limit: True


def twin_of_meeting():
    _meeting._TEXT -= 1


def twin_of_rounds():
    _meeting.Meeting._rows = lambda self: self._buffer[:self._table_size]


def spoil(name):
    globals()["twin_of_" + name]()


def main():
    cases = Path(__file__).with_name("cases.py")
    names = [name.removeprefix("twin_of_") for name in globals() if name.startswith("twin_of_")]
    import cases as module
    failures = [f"{name} has no twin" for name in module.CASES if name not in names]
    for name in names:
        done = subprocess.run([sys.argv[1], "-n", "2", sys.executable, str(cases), "--twin", name], check=False,
                              capture_output=True, text=True)
        if done.returncode == 0 or f": {name} fails" not in done.stderr:
            failures.append(f"{name}: status {done.returncode}\n{done.stderr}")
    print("\n".join(failures) or f"ok: {len(names)} twins are noticed")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
