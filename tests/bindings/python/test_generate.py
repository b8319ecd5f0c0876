#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bindings/python/generate.py makes a method of a new function, and refuses what it does not understand.

usage: test_generate.py generate.py glue.h utofu.h utofu_ext.h
"""
import subprocess
import sys
import tempfile
from pathlib import Path

NOP = "int utofu_nop(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags, void *cbdata) UTOFU_MUST_USE;"
NEW_FUNCTION = """
/**
 * utofu_new - do something new
 *
 * @param vcq_hdl [in] The VCQ.
 * @param flags [in] Flags.
 * @param cbdata [in] Any value.
 * @return UTOFU_SUCCESS: Done.
 */
int utofu_new(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags, void *cbdata) UTOFU_MUST_USE;
"""
NEW_PREPARE = """
/**
 * utofu_prepare_new - prepare something new
 *
 * @param vcq_hdl [in] The VCQ.
 * @param flags [in] Flags.
 * @param desc [out] The descriptor.
 * @param desc_size [out] Its size.
 * @return UTOFU_SUCCESS: Done.
 * @return UTOFU_ERR_INVALID_POINTER: desc or desc_size is NULL.
 */
int utofu_prepare_new(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags, void *desc, size_t *desc_size);
"""
GOOD = (NOP, NOP + NEW_FUNCTION + NEW_PREPARE)
WANTED = {
    "_start.py": ["def new(self, flags: OnesidedFlag = OnesidedFlag.NONE, cbdata: int = 0) -> None:",
                  "rc = _start_new(self.hdl, flags, cbdata)", "def prepare_new(self, to: Descriptors,"],
    "_cffi.pyi": ["def start_new(self, __vcq_hdl: int, __flags: int, __cbdata: int) -> int: ..."],
    "_cffi.c": ["return utofu_new(vcq_hdl, flags, (void *)(uintptr_t)cbdata);",
                '_Static_assert(UTOFU_ERR_BUSY == -4, "UTOFU_ERR_BUSY");'],
    "_constants.py": ["    ERR_BUSY = -4", "    SESSION_MODE = 1 << 2", "VBG_ID_NULL = 0xffffffffffffffff",
                      "    def sps(cls, sps: int)"],
}
BAD = {  # what is changed in utofu.h, into what, and the words of the refusal
    "a start function that nothing prepares": (NOP, NOP + NEW_FUNCTION, "utofu_new has callback data"),
    "an argument of a new name": (NOP, NOP.replace("flags", "colour"), "no @param colour"),
    "a flag of a new group": ("#define UTOFU_VERSION_MAJOR 1", "#define UTOFU_COLOUR_RED (1UL << 3)",
                              "UTOFU_COLOUR_RED"),
    "a group that is gone": ("UTOFU_VBG_FLAG_", "UTOFU_GATE_FLAG_", "UTOFU_GATE_FLAG_"),
    "a notice with another field": ("    uint64_t reserved[2];    /* not for use */",
                                    "    uint64_t more;           /* new */", "fast.c has the fields"),
    "a declaration of a new form": (NOP, "extern int utofu_errno;\n" + NOP, "this declaration is of no form"),
}


def generate(arguments, change):
    script, glue, header, *others = arguments
    with tempfile.TemporaryDirectory() as folder:
        text = Path(header).read_text(encoding="utf-8")
        if change[0] not in text:
            sys.exit(f"'{change[0]}' is not in {header}")
        path = Path(folder) / "utofu.h"
        path.write_text(text.replace(change[0], change[1]))
        done = subprocess.run([sys.executable, script, folder, glue, str(path), *others], capture_output=True,
                              text=True, check=False)
        made = {name: (Path(folder) / name).read_text() for name in WANTED if (Path(folder) / name).exists()}
        return done.returncode, done.stderr, made


def main():
    status, errors, made = generate(sys.argv[1:], GOOD)
    if status != 0:
        sys.exit(f"the good header is refused: {errors}")
    failures = [f"{name} lacks: {line}" for name, lines in WANTED.items() for line in lines if line not in made[name]]
    for what, (old, new, words) in BAD.items():
        status, errors, _ = generate(sys.argv[1:], (old, new))
        if status == 0 or words not in errors or not errors.startswith("generate.py: "):
            failures.append(f"{what}: status {status}, and it says '{errors.strip()}', not '{words}'")
    print("\n".join(failures) or f"ok: {sum(map(len, WANTED.values()))} lines, {len(BAD)} refusals")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
