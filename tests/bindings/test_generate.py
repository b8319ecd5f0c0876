#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bindings/fortran/generate.py makes of a header, and that it refuses what it does not understand.

usage: test_generate.py generate.py
"""
import subprocess
import sys
import tempfile
from pathlib import Path

GOOD = """\
typedef uint64_t utofu_x_id_t; /* an x */
#define UTOFU_X_FLAG_A (1UL << 3) /* a flag */
#define UTOFU_X_NULL ((utofu_x_id_t)-1)
/**
 * enum utofu_x_op - operations
 */
enum utofu_x_op {
    UTOFU_X_OP_A = 1, /* one */
    UTOFU_X_OP_B = -2 /* two */
};
struct utofu_x {
    utofu_x_id_t id; /* whose */
    uint8_t rest[3];
};
/**
 * utofu_x_put - do it
 *
 * @param id     [in] Whose.
 * @param coords [in] 6 elements.
 * @param x      [in,out] An x.
 * @param count  [out] How many.
 * @param cbdata [in] Any value.
 * @return UTOFU_SUCCESS: Done.
 * @return UTOFU_ERR_INVALID_POINTER: x, coords or count is NULL.
 */
int utofu_x_put(utofu_x_id_t id, uint8_t coords[], struct utofu_x *x, size_t *count,
                void *cbdata) UTOFU_MUST_USE;
/**
 * utofu_x_path - change it
 * @param path_coords [in] 3 elements. NULL: a suitable one.
 * @return UTOFU_SUCCESS: Done.
 */
int utofu_x_path(uint8_t path_coords[]);
"""
WANTED = [
    "integer, parameter :: utofu_x_id_kind = c_int64_t ! an x",
    "integer(utofu_flags_kind), parameter :: UTOFU_X_FLAG_A = shiftl(1_utofu_flags_kind, 3) ! a flag",
    "integer(utofu_x_id_kind), parameter :: UTOFU_X_NULL = -1_utofu_x_id_kind",
    "integer(utofu_x_op_kind), parameter :: UTOFU_X_OP_B = -2_utofu_x_op_kind ! two",
    "integer(c_int8_t) :: rest(3)",
    'function utofu_x_put_c(id, coords, x, count, cbdata) bind(c, name="utofu_x_put") result(rc)',
    "integer(utofu_x_id_kind), value :: id",
    "integer(c_int8_t), intent(in) :: coords(6)",
    "type(utofu_x), intent(inout) :: x",
    "integer(c_size_t), intent(inout) :: count",
    "type(c_ptr), value :: cbdata",
    "recursive function utofu_x_put_no_cbdata(id, coords, x, count) result(rc)",
    "integer(c_int8_t), intent(in), optional :: path_coords(3)",
    "integer(c_int8_t), target :: own_path_coords(3)",
    "public :: utofu_x_path",
]

BAD = {  # what is changed in the header, into what, and the words of the refusal
    "another declaration": ("struct utofu_x {", "union utofu_y { int a; };\nstruct utofu_x {", "this declaration"),
    "a variable": ("struct utofu_x {", "extern int utofu_errno;\nstruct utofu_x {", "this declaration is of no form"),
    "a type that nobody knows": ("utofu_x_id_t id, uint8_t", "long long id, uint8_t", "'long long id' is of no form"),
    "another type that nobody knows": ("utofu_x_id_t id, uint8_t", "utofu_y_t id, uint8_t", "the type utofu_y_t"),
    "a function pointer": ("void *cbdata)", "void (*cb)(int))", "no form that this script knows"),
    "a structure by value": ("struct utofu_x *x", "struct utofu_y *x", "there is no struct utofu_y"),
    "a macro of a new form": ("(1UL << 3)", "(sizeof(int))", "UTOFU_X_FLAG_A: its value"),
    "a macro with an argument": ("UTOFU_X_FLAG_A (1UL << 3)",
                                 "UTOFU_X_FLAG_A(z) ((unsigned long int)(z) << 3)", "MACRO_ARGUMENTS"),
    "no parameter of this name": ("@param count ", "@param number", "no @param count"),
    "the comment of something else": ("utofu_x_put - do it", "utofu_x_get - do it", "of something else"),
    "other elements": ("[in] 6 elements", "[in] 7 elements", "6 elements in EXTENTS"),
    "a text and a number": ("void *cbdata)", "const char *cbdata)", "a text is its only argument"),
    "names that differ in case": ("struct utofu_x {", "struct utofu_x_op_a {\n    int a;\n};\nstruct utofu_x {",
                                  "does not distinguish"),
    "a long name": ("UTOFU_X_NULL", "UTOFU_X_" + 60 * "N", "63 characters"),
    "a typedef of a new kind": ("typedef uint64_t", "typedef float", "is a float"),
    "a value without a number": ("UTOFU_X_OP_B = -2", "UTOFU_X_OP_B", "not every value"),
    "a bit field": ("uint8_t rest[3];", "uint8_t rest : 3;", "not every field"),
}


def generate(script, header):
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "utofu.h", Path(folder) / "utofu.f90"
        path.write_text(header)
        done = subprocess.run([sys.executable, script, str(out), str(path)], capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stderr, out.read_text() if out.exists() else ""


def main():
    script, failures = sys.argv[1], []
    status, errors, text = generate(script, GOOD)
    if status != 0:
        sys.exit(f"the good header is refused: {errors}")
    failures += [f"the module lacks: {line}" for line in WANTED if line not in text]
    for what, (old, new, words) in BAD.items():
        if old not in GOOD:
            sys.exit(f"{what}: '{old}' is not in the good header")
        status, errors, text = generate(script, GOOD.replace(old, new))
        if status == 0 or text or words not in errors or not errors.startswith("generate.py: "):
            failures.append(f"{what}: status {status}, and it says '{errors.strip()}', not '{words}'")
    print("\n".join(failures) or f"ok: {len(WANTED)} lines, {len(BAD)} refusals")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
