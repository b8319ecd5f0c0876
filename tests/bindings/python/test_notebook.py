#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cells of a notebook print what stands below them. Jupyter is not needed. One process.

usage: test_notebook.py [--fix] NOTEBOOK        --fix writes below the cells what they print
"""
import contextlib
import io
import json
import sys


def run(source, names):
    """What a cell prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "<cell>", "exec"), names)
    return printed.getvalue()


def main():
    fix, path = sys.argv[1] == "--fix", sys.argv[-1]
    with open(path, encoding="utf-8") as f:
        notebook = json.load(f)
    assert (notebook["nbformat"], len({cell["id"] for cell in notebook["cells"]})) == (4, len(notebook["cells"]))
    names, failures, number = {"__name__": "__main__"}, 0, 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        number += 1
        source, stored = "".join(cell["source"]), "".join("".join(out["text"]) for out in cell["outputs"])
        printed = run(source, names)
        if printed != stored and not fix:
            print(f"cell {number}:\n{source}\nprints:\n{printed}\ninstead of:\n{stored}")
            failures += 1
        cell["execution_count"] = number
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)}]
    if fix:
        with open(path, "w", encoding="utf-8") as f:
            json.dump(notebook, f, indent=1, ensure_ascii=False)
            f.write("\n")
    print(f"{number} cells, {failures} failed")
    return failures > 0 or number < 10


if __name__ == "__main__":
    sys.exit(main())
