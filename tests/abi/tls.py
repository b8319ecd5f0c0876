#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Thread-local memory of the libraries. A program that loads them late has 1,664 bytes of static TLS for all that it
loads (TLS_STATIC_SURPLUS of glibc's dl_tls.c), beside those of OpenMP, MPI's plug-ins and others.

usage: tls.py size BUILD [LIBRARY]...        no library that this build makes, nor LIBRARY, has more than MOST bytes
       tls.py late BUILD LOADER LIBRARY...   the program LOADER loads LIBRARY... and then all that are installed
       tls.py python BUILD LIBRARY...        so does Python, with its package utofu
"""
import ctypes
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

MOST = 64
PT_TLS = 7


def tls_bytes(path):
    """Of the segment PT_TLS of an ELF file of 64 bits."""
    data = path.read_bytes()
    assert data[:5] == b"\x7fELF\2", f"{path} is not an ELF file of 64 bits"
    order = "<" if data[5] == 1 else ">"
    offset, = struct.unpack_from(order + "Q", data, 32)
    size, num = struct.unpack_from(order + "HH", data, 54)
    for i in range(num):
        kind, = struct.unpack_from(order + "I", data, offset + i * size)
        if kind == PT_TLS:
            return struct.unpack_from(order + "Q", data, offset + i * size + 40)[0]
    return 0


def made_by(build, wanted=lambda target: True):
    """Libraries of the build folder; those of tests/abi are the ones that have too much."""
    for target in json.loads((build / "meson-info" / "intro-targets.json").read_text()):
        if target["type"] in ("shared library", "shared module") and wanted(target):
            for path in map(Path, target["filename"]):
                if path.parent != build / "tests" / "abi" and path.exists():
                    yield path


def check_size(build, *more):
    libraries = [*made_by(build), *map(Path, more)]
    sizes = {path: tls_bytes(path) for path in libraries}
    for path, size in sizes.items():
        print(f"{'ok' if size <= MOST else 'FAILED'}: {path}: {size} bytes of thread-local memory, at most {MOST}")
    if not any(path.name.startswith("libtofucom.so") and size > 0 for path, size in sizes.items()):
        sys.exit("FAILED: libtofucom has none at all, or is not built: are they read at all?")
    return max(sizes.values()) > MOST


def check_late(build, loader, *first):
    libraries = [str(path) for path in made_by(build, lambda t: t["installed"] and t["type"] == "shared library")]
    print("\n".join(libraries), flush=True)
    return subprocess.run([loader, *first, *libraries], check=False).returncode != 0


def check_python(build, *first):
    sys.path.insert(0, str(build / "bindings" / "python"))
    for path in (*first, *made_by(build, lambda t: t["installed"] and t["type"] == "shared library")):
        print(path, flush=True)
        ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    if any(made_by(build, lambda t: t["installed"] and t["name"].startswith("_cffi"))):
        import utofu
        print(utofu.__file__)
    return False


if __name__ == "__main__":
    CHECKS = {"size": check_size, "late": check_late, "python": check_python}
    if len(sys.argv) < 3 or sys.argv[1] not in CHECKS:
        sys.exit(__doc__)
    sys.exit(CHECKS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:]))
