#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the parts of the Python package utofu that follow from the public C headers.

usage: generate.py FOLDER GLUE.h utofu.h [utofu_ext.h...]

Every function, constant, structure and type of the headers is in the files (bindings/headers.py reads them):

  _cffi.c         the extension, from cffi's declarations of all functions and structures. Functions with callback data
                  have a twin, start_put() of utofu_put(), which takes a number. The compiler compares the constants
  _cffi.pyi       its types, for mypy
  _constants.py   enums, flags, constants, and named tuples for the structures
  _start.py       a method for each start function and each prepare function
"""
import contextlib
import re
import sys
import textwrap
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from headers import fail, read_headers, words  # noqa: E402

MADE = "# SPDX-License-Identifier: Apache-2.0\n" \
    "# Made by bindings/python/generate.py from the C headers: do not edit it.\n"
# groups of flags: the beginning of their names, the class
FLAG_GROUPS = {
    "UTOFU_ONESIDED_CAP_FLAG_": "OnesidedCapFlag", "UTOFU_ONESIDED_CAP_ARMW_OP_": "OnesidedCapArmwOp",
    "UTOFU_BARRIER_CAP_REDUCE_OP_": "BarrierCapReduceOp", "UTOFU_VCQ_FLAG_": "VcqFlag", "UTOFU_VBG_FLAG_": "VbgFlag",
    "UTOFU_REG_MEM_FLAG_": "RegMemFlag", "UTOFU_ONESIDED_FLAG_": "OnesidedFlag",
}
# fields of structures that hold enums or flags
FIELD_TYPES = {
    ("utofu_onesided_caps", "flags"): "OnesidedCapFlag", ("utofu_onesided_caps", "armw_ops"): "OnesidedCapArmwOp",
    ("utofu_barrier_caps", "reduce_ops"): "BarrierCapReduceOp",
}
NOT_FOR_USE = {"padding1", "reserved"}
# the structure that fast.c has as a class of its own, with these fields
FAST_FIELDS = {"utofu_mrq_notice": ["notice_type", "vcq_id", "edata", "rmt_value", "lcl_stadd", "rmt_stadd"]}
ENUM_CLASSES = {"enum utofu_mrq_notice_type": "MrqType"}  # UTOFU_MRQ_TYPE_LCL_PUT is MrqType.LCL_PUT
FIELD_DEFAULTS = {("utofu_vbg_setting", "dst_path_coords"): "(PATH_COORD_NULL, 0, 0)"}
# the glue's own functions, as cffi declares them
GLUE = """
int wait_barrier(uint64_t vbg_id, int polls);
int wait_reduce_uint64(uint64_t vbg_id, int polls, uint64_t data[]);
int wait_reduce_double(uint64_t vbg_id, int polls, double data[]);
void free(void *memory);
"""


def class_name(ctype):
    if ctype in ENUM_CLASSES:
        return ENUM_CLASSES[ctype]
    return "".join(part.capitalize() for part in re.sub(r"^(enum |struct )?utofu_", "", ctype).split("_"))


def member_name(constant, prefix):
    name = constant.removeprefix(prefix)
    return name if not name[0].isdigit() and name != "None" else "_" + name


def has_cbdata(function):
    last = function.arguments[-1]
    return last.name == "cbdata" and last.intent == "in" and last.pointers == 1


# ---- the extension ----

def declared(argument):
    """As cffi has it: an enum is an int there, which cffi passes faster."""
    return re.sub(r"\benum \w+", "int", argument.text)


def declaration(function):
    return (f"{'int' if function.has_result else 'void'} {function.name}(" +
            ", ".join(declared(a) for a in function.arguments) + ");")


def twin_name(function):
    return "start_" + function.name.removeprefix("utofu_")


def twin_arguments(function):
    return ", ".join("uint64_t cbdata" if a.name == "cbdata" else declared(a) for a in function.arguments)


def twin(function):
    arguments = ", ".join("(void *)(uintptr_t)cbdata" if a.name == "cbdata" else a.name for a in function.arguments)
    return (f"static int {twin_name(function)}({twin_arguments(function)})\n{{\n"
            f"    return {function.name}({arguments});\n}}\n")


def make_cdef(header):
    lines = [f"typedef {of} {name};" for name, (of, _) in header.typedefs.items()]
    for name, fields in header.structures:
        lines.append(f"struct {name} {{")
        lines += [f"    {ctype} {field}{f'[{extent}]' if extent else ''};" for field, ctype, extent, _ in fields]
        lines.append("};")
    lines += [declaration(function) for function in header.functions]
    lines += [f"int {twin_name(f)}({twin_arguments(f)});" for f in header.functions if has_cbdata(f)]
    return "\n".join(lines) + GLUE


def make_source(header, glue):
    lines = [f'#include "{glue}"', ""]
    lines += [twin(function) for function in header.functions if has_cbdata(function)]
    for constant in header.constants:
        value = f"({constant.type})-1" if constant.value == -1 and not constant.type.startswith("enum") else \
            str(constant.value)
        lines.append(f'_Static_assert({constant.name} == {value}, "{constant.name}");')
    return "\n".join(lines) + "\n"


def write_extension(header, folder, glue):
    import cffi  # only here: the other files need the Python of the build alone

    builder = cffi.FFI()
    builder.cdef(make_cdef(header))
    builder.set_source("utofu._cffi", make_source(header, glue))
    (folder / "_cffi.c").unlink(missing_ok=True)  # cffi leaves a file with the same text as old as it is
    with contextlib.redirect_stdout(None):
        builder.emit_c_code(str(folder / "_cffi.c"))


def stub_type(text):
    """Python's type of an argument of C."""
    if "*" in text or "[" in text:
        return "bytes | CData" if text.startswith("const char") else "CData"
    return "float" if text.startswith("double") else "int"


def write_stub(header, folder):
    lines = [MADE, "from typing import Any", "", "class CData:", "    def __getitem__(self, index: Any) -> Any: ...",
             "    def __setitem__(self, index: Any, value: Any) -> None: ...",
             "    def __getattr__(self, name: str) -> Any: ...", "    def __len__(self) -> int: ...",
             "    def __add__(self, number: int) -> CData: ...", "    def __int__(self) -> int: ...", "", "class FFI:",
             "    NULL: CData", "    def new(self, cdecl: str, init: Any = ...) -> CData: ...",
             "    def cast(self, cdecl: str, source: Any) -> CData: ...",
             "    def from_buffer(self, cdecl: str, source: Any, require_writable: bool = ...) -> CData: ...",
             "    def unpack(self, cdata: CData, length: int) -> Any: ...",
             "    def string(self, cdata: CData, maxlen: int = ...) -> bytes: ...",
             "    def release(self, cdata: CData) -> None: ...", "    def sizeof(self, what: str) -> int: ...",
             "    def buffer(self, cdata: CData, size: int = ...) -> Any: ...", "", "class Lib:"]
    for found in re.finditer(r"^(\w+) (\w+)\(([^()]*)\);$", make_cdef(header), re.M):
        result, name, arguments = found.groups()
        parts = [] if arguments == "void" else [words(part) for part in arguments.split(",")]
        typed = [stub_argument(part) for part in parts]
        lines.append(f"    def {name}({', '.join(['self', *typed])}) -> {'None' if result == 'void' else 'int'}: ...")
    lines += ["", "ffi: FFI", "lib: Lib"]
    (folder / "_cffi.pyi").write_text("\n".join(lines) + "\n")


def stub_argument(text):
    """Names begin with two underscores: the functions of an extension take no keywords."""
    name = re.search(r"(\w+)(?:\[\d*\])?$", text)[1]
    return f"__{name}: {stub_type(text)}"


# ---- constants ----

def wrapped(comment, margin):
    return textwrap.wrap(comment, 118, initial_indent=margin + "#: ", subsequent_indent=margin + "#: ")


def documented(lines, constant, margin):
    lines += wrapped(constant.name + (": " + constant.comment if constant.comment else ""), margin)


def write_enum(lines, header, ctype):
    constants = [c for c in header.constants if c.type == ctype]
    prefix = constants[0].name
    for constant in constants[1:]:  # what all names begin with
        while not constant.name.startswith(prefix):
            prefix = prefix[:-1]
    prefix = prefix[:prefix.rindex("_") + 1]
    lines += ["", "", f"class {class_name(ctype)}(enum.IntEnum):",
              f'    """{ctype}: {prefix}* without these letters"""', ""]
    for constant in constants:
        documented(lines, constant, "    ")
        lines.append(f"    {member_name(constant.name, prefix)} = {constant.value}")


def write_flags(lines, header, prefix, name):
    lines += ["", "", f"class {name}(enum.IntFlag):", f'    """{prefix}*, joined with |; {name}.NONE is 0"""', "",
              "    NONE = 0"]
    group = [c for c in header.constants if c.name.startswith(prefix)]
    if not group:
        fail(f"FLAG_GROUPS has {prefix}*, and the headers have no such constant")
    for constant in group:
        documented(lines, constant, "    ")
        lines.append(f"    {member_name(constant.name, prefix)} = 1 << {constant.bit}")
    for macro, argument, shift in header.macros:
        if macro.startswith(prefix):
            short = macro.removeprefix(prefix).lower()
            lines += ["", "    @classmethod", f'    def {short}(cls, {argument}: int) -> "{name}":',
                      f'        """{macro}({argument})"""', f"        return cls({argument} << {shift})"]


def python_type(header, structure, field, ctype, extent):
    if (structure, field) in FIELD_TYPES:
        return FIELD_TYPES[structure, field]
    if not header.is_integer(ctype):
        fail(f"struct {structure}: the field {field} is a {ctype}")
    return "tuple[int, ...]" if extent else "int"


def write_structure(lines, header, name, fields):
    lines += ["", "", f"class {class_name(name)}(typing.NamedTuple):", f'    """struct {name}"""', ""]
    for field, ctype, extent, comment in fields:
        if field in NOT_FOR_USE:
            continue
        lines += wrapped(comment, "    ")
        default = FIELD_DEFAULTS.get((name, field))
        if name == "utofu_vbg_setting" and ctype == "utofu_vbg_id_t" and field != "vbg_id":
            default = "VBG_ID_NULL"
        lines.append(f"    {field}: {python_type(header, name, field, ctype, extent)}" +
                     (f" = {default}" if default else ""))


def check_fast(name, fields):
    if fields != FAST_FIELDS[name]:
        fail(f"struct {name}: fast.c has the fields {', '.join(FAST_FIELDS[name])}, and the header {', '.join(fields)}")


def write_constants(header, folder):
    lines = [MADE + '"""Enums, flags, constants and structures of utofu.h"""', "import enum", "import typing", ""]
    for constant in header.constants:
        if constant.type in header.enums or any(constant.name.startswith(prefix) for prefix in FLAG_GROUPS):
            continue
        if constant.bit is not None:
            fail(f"{constant.name} is a flag of no group in FLAG_GROUPS")
        documented(lines, constant, "")
        lines.append(f"{constant.name.removeprefix('UTOFU_')} = {number(header, constant)}")
    for macro, *_ in header.macros:
        if not any(macro.startswith(prefix) for prefix in FLAG_GROUPS):
            fail(f"{macro}() makes flags of no group in FLAG_GROUPS")
    for ctype in header.enums:
        write_enum(lines, header, ctype)
    for prefix, name in FLAG_GROUPS.items():
        write_flags(lines, header, prefix, name)
    for name, fields in header.structures:
        if name in FAST_FIELDS:
            check_fast(name, [field for field, *_ in fields if field not in NOT_FOR_USE])
            continue
        write_structure(lines, header, name, fields)
    public = [line.split(" ")[0] for line in lines if re.match(r"[A-Z_]+ = ", line)]
    public += [line.split("(")[0].removeprefix("class ") for line in lines if line.startswith("class ")]
    lines += ["", ""] + textwrap.wrap("__all__ = [" + ", ".join(f'"{name}"' for name in public) + "]", 118,
                                      subsequent_indent="           ")
    (folder / "_constants.py").write_text("\n".join(lines) + "\n")


def number(header, constant):
    """-1 of a type without a sign is all of its bits."""
    of = header.typedefs.get(constant.type, (constant.type,))[0]
    bits = re.fullmatch(r"uint(\d+)_t", of)
    if constant.value >= 0 or of == "int":
        return constant.value
    return hex((1 << (int(bits[1]) if bits else 64)) - 1)


# ---- start functions and prepare functions ----

INTS = {"stride", "num_blocks", "mtu", "gap", "op_value", "old_value", "new_value"}
DEFAULTS = {"mtu": 0, "gap": 0}
NOT_START = {"utofu_put", "utofu_get", "utofu_post_toq"}  # fast.c has the first two, _vcq.py the last one


def parameters_of(function, kind):
    """The parameters of the method, and what becomes of each argument of C."""
    names = [a.name for a in function.arguments]
    parameters, values, checks = [], {"vcq_hdl": "self.hdl", "rmt_vcq_id": "rmt.peer", "rmt_stadd": "rmt.stadd",
                                      "edata": "edata", "flags": "flags", "cbdata": "cbdata"}, []
    bits = 32 if function.name.endswith("4") else 64
    if kind == "prepare":
        parameters.append("to: Descriptors")
        values |= {"desc": "at", "desc_size": "to._written"}
    if "lcl_stadd" in names:
        parameters.append("lcl: Local")
        values["lcl_stadd"] = "lcl.stadd"
    if "lcl_data" in names:
        is_pointer = next(a for a in function.arguments if a.name == "lcl_data").pointers
        parameters.append("data: Buffer" if is_pointer else "value: int")
        values["lcl_data"] = "source" if is_pointer else "as_unsigned(value, 64)"
        if is_pointer:
            checks += ["source = source_of(data)", "if len(source) != rmt.size:",
                       "    refuse_data(len(source), rmt)"]
    if "rmt_stadd" in names:
        parameters.append("rmt: Remote")
    if "num_blocks" in names:
        parameters.append("length: int")
        values["length"] = "length"
        checks += ["check_blocks(self, lcl, rmt, length, stride, num_blocks)"]
    elif "lcl_stadd" in names:
        values["length"] = "lcl.size"
        checks += ["if lcl.size != rmt.size or lcl.hdl != self.hdl:", "    refuse_pair(self, lcl, rmt)"]
    elif "length" in names:
        values["length"] = "rmt.size"
    if "op_value" in names or "old_value" in names:
        checks += [f"if rmt.size != {bits // 8}:", f"    refuse_word(rmt, {bits // 8})"]
    for argument in function.arguments:
        if argument.name == "armw_op":
            parameters.append("armw_op: ArmwOp")
            values["armw_op"] = "armw_op"
        elif argument.name in INTS:
            if argument.name not in DEFAULTS:
                parameters.append(f"{argument.name}: int")
            values[argument.name] = f"as_unsigned({argument.name}, {bits})" if argument.name.endswith("_value") else \
                argument.name
    parameters += ["edata: int = 0"] if "edata" in names else []
    parameters += ["flags: OnesidedFlag = OnesidedFlag.NONE"]
    parameters += [f"{name}: int = {default}" for name, default in DEFAULTS.items() if name in names]
    checks += ["if type(flags) is not OnesidedFlag:", "    check_flags(flags, OnesidedFlag)"]
    parameters += ["cbdata: int = 0"] if "cbdata" in names else []
    for name in names:
        if name not in values:
            fail(f"{function.name}: no method is made, as the argument {name} is new to this script")
    return parameters, [values[name] for name in names], checks


def folded(start, items, end, margin):
    """A list in lines of 118 letters, which are broken between its items."""
    text = ", ".join(item.replace(" ", "\0") for item in items)
    lines = textwrap.wrap(margin + start.replace(" ", "\0") + text + end.replace(" ", "\0"), 118,
                          subsequent_indent=margin + " " * len(start), drop_whitespace=True, break_long_words=False)
    return [line.replace("\0", " ") for line in lines]


def write_method(lines, function, kind):
    parameters, values, checks = parameters_of(function, kind)
    name = function.name.removeprefix("utofu_")
    call = twin_name(function) if kind == "start" else function.name
    lines += ["", *folded(f"def {name}(", ["self", *parameters], ") -> None:", "    ")]
    lines += textwrap.wrap(f'"""{function.name}: {function.purpose}"""', 118, initial_indent="        ",
                           subsequent_indent="        ", break_long_words=False)
    lines += ["        " + check for check in checks]
    if kind == "prepare":
        number = "num_blocks" if "num_blocks" in values else "1"
        lines.append(f"        at = to._room_for(self, {number})")
    lines += folded(f"rc = {'_' if kind == 'start' else 'lib.'}{call}(", values, ")", "        ")
    lines += ["        if rc:", f'            raise_error(rc, "{function.name}")']
    number = "num_blocks" if "num_blocks" in values else "1"
    if kind == "prepare":
        lines.append(f"        to._add({number})")
    lines += ["        if flags & _NOTICE:",
              f"            count_asked({'to' if kind == 'prepare' else 'self'}, {number})"]


def write_start(header, folder):
    start = [f for f in header.functions if has_cbdata(f) and f.name not in NOT_START]
    prepare = [f for f in header.functions if f.name.startswith("utofu_prepare_")]
    for function in start:
        if function.name.replace("utofu_", "utofu_prepare_", 1) not in [f.name for f in prepare]:
            fail(f"{function.name} has callback data, and there is no function that prepares it")
    lines = [MADE + '"""The functions that start a communication, or prepare one, as methods of a VCQ"""',
             "from ._cffi import lib", "from ._constants import ArmwOp, OnesidedFlag",
             "from ._errors import check_flags, raise_error",
             "from ._memory import (Buffer, Descriptors, Local, Remote, as_unsigned, check_blocks, count_asked,",
             "                      refuse_data, refuse_pair, refuse_word, source_of)", "",
             "_NOTICE = int(OnesidedFlag.LOCAL_MRQ_NOTICE)"]
    lines += [f"_{twin_name(function)} = lib.{twin_name(function)}" for function in start]
    lines += ["", "", "class StartFunctions:",
              '    """Start functions raise Busy where the TOQ or the TCQ has no room: nothing was submitted."""', "",
              "    __slots__ = ()", "    hdl: int"]
    for function in start:
        write_method(lines, function, "start")
    for function in prepare:
        write_method(lines, function, "prepare")
    (folder / "_start.py").write_text("\n".join(lines) + "\n")


def main():
    if len(sys.argv) < 4:
        fail("usage: generate.py FOLDER GLUE.h utofu.h [utofu_ext.h...]")
    folder = Path(sys.argv[1])
    header = read_headers(sys.argv[3:])
    write_constants(header, folder)
    write_start(header, folder)
    write_stub(header, folder)
    write_extension(header, folder, Path(sys.argv[2]).name)


if __name__ == "__main__":
    main()
