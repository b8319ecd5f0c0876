#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples in the texts of the package do what they say. One process."""
import doctest
import importlib
import pkgutil
import sys

import utofu


def main():
    failed = tried = 0
    names = ["utofu"] + ["utofu." + module.name for module in pkgutil.iter_modules(utofu.__path__)]
    for name in names:
        if name in ("utofu._cffi", "utofu._fast"):
            continue
        result = doctest.testmod(importlib.import_module(name))
        failed, tried = failed + result.failed, tried + result.attempted
    print(f"{tried} examples, {failed} failed")
    return failed > 0 or tried < 20


if __name__ == "__main__":
    sys.exit(main())
