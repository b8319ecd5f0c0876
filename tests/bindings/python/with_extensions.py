#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a script with other extensions of the package, those of a sanitizer.

usage: with_extensions.py FOLDER SCRIPT [ARGUMENT...]
       with_extensions.py --twin                      writes behind memory: AddressSanitizer has to end the process
"""
import importlib.machinery
import importlib.util
import runpy
import sys
from pathlib import Path


def load(folder, name):
    """Under the name that the package imports."""
    path = folder / (name + importlib.machinery.EXTENSION_SUFFIXES[0])
    spec = importlib.util.spec_from_file_location("utofu." + name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["utofu." + name] = module
    spec.loader.exec_module(module)


def main():
    if sys.argv[1] == "--twin":
        import ctypes
        ctypes.memset(ctypes.create_string_buffer(4096), 0, 4097)
        return
    folder, script = Path(sys.argv[1]), sys.argv[2]
    load(folder, "_cffi")
    load(folder, "_fast")
    sys.argv = sys.argv[2:]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
