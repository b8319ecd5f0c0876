# SPDX-License-Identifier: Apache-2.0
"""Reads the public C headers, for the scripts that make bindings of other languages from them.

Whatever this module does not understand in a header ends the script with the place, so that nothing is left out. What
it reads:

  typedefs of integers, enums, macros with a value, structures
  macros with an argument that is shifted to the left
  functions, with what their comments say: the purpose, the direction and the meaning of the arguments, which pointers
  may be NULL (those that no @return line of UTOFU_ERR_INVALID_POINTER names), whether the caller frees the result
"""
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

INTEGERS = {"int", "unsigned int", "unsigned long int", "size_t", "uintptr_t", "uint8_t", "uint16_t", "uint32_t",
            "int64_t", "uint64_t"}
# the arguments of macros, whose types no header tells: the C types
MACRO_ARGUMENTS = {"sps": "int", "path_id": "utofu_path_id_t"}
# arrays with a fixed number of elements, which the comment of the parameter has to say, too
EXTENTS = {"coords": ("6", r"\b(6|six) elements"), "path_coords": ("3", r"\b3 elements")}
NOT_FOR_PROGRAMS = {"UTOFU_H", "UTOFU_EXT_H", "UTOFU_MUST_USE"}
PREPROCESSOR = re.compile(r"^#\s*(if|ifdef|ifndef|elif|else|endif|include|error|pragma)\b")


def fail(text):
    sys.exit(f"{Path(sys.argv[0]).name}: {text}")


@dataclass
class Argument:
    name: str
    type: str      # of what it is or points to: "utofu_stadd_t", "struct utofu_job", "void", "char"
    pointers: int  # 0: by value
    array: bool
    intent: str = "in"
    doc: str = ""
    text: str = ""  # its declaration

    @property
    def extent(self):
        return EXTENTS[self.name][0] if self.array and self.name in EXTENTS else None


@dataclass
class Function:
    name: str
    purpose: str
    arguments: list
    has_result: bool
    may_be_null: set = field(default_factory=set)
    owned: bool = False  # the array that it gives is freed with free()


@dataclass
class Constant:
    name: str
    type: str           # "int", "unsigned long int", "enum utofu_armw_op", "utofu_vbg_id_t"
    value: int          # -1 of a type without a sign: all bits are set
    comment: str
    bit: int = None     # of flags: the value is this bit


@dataclass
class Header:
    typedefs: dict = field(default_factory=dict)    # "utofu_x_t" -> (integer type, comment)
    enums: list = field(default_factory=list)       # "enum utofu_x"
    types: list = field(default_factory=list)       # typedefs and enums, in their order
    constants: list = field(default_factory=list)   # of macros and enums
    macros: list = field(default_factory=list)      # (name, argument, shift)
    structures: list = field(default_factory=list)  # (name, [(name, type, extent, comment)])
    functions: list = field(default_factory=list)

    def is_integer(self, ctype):
        return ctype in INTEGERS or ctype in self.typedefs or ctype in self.enums


def words(text):
    return " ".join(text.split())


def comment_lines(comment):
    return [line.strip().removeprefix("*").strip() for line in comment.splitlines()]


def read_comment(comment):
    """Purpose, parameters (direction and text), text of INVALID_POINTER, and the whole text."""
    text = "\n".join(comment_lines(comment))
    purpose = words(re.split(r"\n\s*\n|\n@", text.strip())[0])
    tags = re.split(r"\n(?=@)", text)
    parameters, refused = {}, ""
    for tag in tags:
        match = re.match(r"@param (\w+)\s+\[([a-z,]+)\] (.*)", tag, re.S)
        if match:
            parameters[match.group(1)] = (match.group(2), words(match.group(3)))
        match = re.match(r"@return UTOFU_ERR_INVALID_POINTER: (.*)", tag, re.S)
        if match:
            refused = words(match.group(1))
    return purpose, parameters, refused, words(text)


def read_argument(where, text):
    match = re.fullmatch(r"(?:const )?((?:struct |enum )?\w+|unsigned int|unsigned long int)\s+(\**)(\w+)(\[\])?", text)
    if not match:
        fail(f"{where}: the parameter '{text}' is of no form that this script knows")
    ctype, stars, name, array = match.groups()
    return Argument(name, ctype, len(stars), bool(array), text=text)


def read_function(header, result, name, arguments, comment):
    purpose, parameters, refused, text = read_comment(comment)
    if not purpose.startswith(name + " - "):
        fail(f"{name}: the comment before it is of something else: {purpose[:60]}")
    function = Function(name, purpose.removeprefix(name + " - "), [], result == "int")
    for part in arguments.split(","):
        argument = read_argument(name, words(part))
        if argument.name not in parameters:
            fail(f"{name}: its comment has no @param {argument.name}")
        argument.intent, argument.doc = parameters[argument.name]
        extent = EXTENTS.get(argument.name)
        if argument.array and extent and not re.search(extent[1], argument.doc):
            fail(f"{name}: {argument.name} has {extent[0]} elements in EXTENTS, and its comment does not say so")
        function.arguments.append(argument)
        if (argument.pointers or argument.array) and argument.type != "void" and \
                not re.search(rf"\b{argument.name}\b", refused):
            function.may_be_null.add(argument.name)
    function.owned = "frees it with free()" in text
    header.functions.append(function)


def read_structure(header, name, body):
    fields = []
    for line in re.finditer(r"^\s*(?P<type>(?:struct |enum )?\w+|unsigned int|unsigned long int) (?P<name>\w+)"
                            r"(?:\[(?P<extent>\d+)\])?;\s*(?:/\*(?P<comment>.*?)\*/)?", body, re.S | re.M):
        comment = words(" ".join(comment_lines(line["comment"] or "")))
        fields.append((line["name"], line["type"], line["extent"], comment))
    if len(fields) != body.count(";") - sum(comment.count(";") for *_, comment in fields):
        fail(f"struct {name}: not every field is of a form that this script knows")
    header.structures.append((name, fields))


def read_enum(header, name, body):
    header.enums.append("enum " + name)
    header.types.append("enum " + name)
    found = re.findall(r"(UTOFU_\w+) = (-?\d+),?\s*(?:/\*(.*?)\*/)?", body, re.S)
    if len(found) != len(re.findall(r"^\s*UTOFU_\w+", body, re.M)):
        fail(f"enum {name}: not every value is of a form that this script knows")
    for constant, value, comment in found:
        header.constants.append(Constant(constant, "enum " + name, int(value),
                                         words(" ".join(comment_lines(comment)))))


def read_macro(header, line):
    line, _, comment = line.partition("/*")
    match = re.fullmatch(r"#\s*define (\w+)(?:\((\w+)\))?(?:\s+(.*?))?\s*", line)
    if not match:
        fail(f"a macro is of no form that this script knows: {line}")
    name, argument, value = match.groups()
    comment = words(comment.replace("*/", ""))
    if name in NOT_FOR_PROGRAMS:
        return
    if argument is not None:
        shift = re.fullmatch(rf"\(\(unsigned long int\)\({argument}\) << (\d+)\)", value)
        if not shift or argument not in MACRO_ARGUMENTS:
            fail(f"{name}({argument}): say in MACRO_ARGUMENTS of what type the argument is, or how '{value}' is read")
        header.macros.append((name, argument, int(shift.group(1))))
        return
    if re.fullmatch(r"-?\d+", value or ""):
        header.constants.append(Constant(name, "int", int(value), comment))
        return
    bit = re.fullmatch(r"\(1UL << (\d+)\)", value or "")
    if bit:
        number = int(bit.group(1))
        header.constants.append(Constant(name, "unsigned long int", 1 << number, comment, number))
        return
    ones = re.fullmatch(r"\(\((\w+)\)-1\)", value or "")
    if ones and header.is_integer(ones.group(1)):
        header.constants.append(Constant(name, ones.group(1), -1, comment))
        return
    fail(f"{name}: its value '{value}' is of no form that this script knows")


DECLARATION = re.compile(r"""
    (?P<typedef>typedef\ (?P<of>\w+)\ (?P<alias>utofu_\w+)_t;[ ]*(?:/\*(?P<about>[^\n]*?)\*/)?)
  | (?P<enum>enum\ (?P<enum_name>\w+)\ \{(?P<values>.*?)\n\};)
  | (?P<struct>struct\ (?P<struct_name>\w+)\ \{(?P<fields>.*?)\n\};)
  | (?P<function>(?P<result>int|void)\ (?P<name>utofu_\w+)\((?P<arguments>[^()]*)\)(?:\s+UTOFU_MUST_USE)?;)
  | (?P<comment>/\*.*?\*/)
  | (?P<define>\#\s*define\b[^\n]*)
  | (?P<preprocessor>\#(?:\\\n|[^\n])*)
  | (?P<linkage>extern\ "C"\ \{|\})
  | (?P<space>\s+)
""", re.S | re.X)


def read_header(header, path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    at, comment = 0, ""
    while at < len(text):
        match = DECLARATION.match(text, at)
        if not match:
            line = text.count("\n", 0, at) + 1
            fail(f"{path}:{line}: this declaration is of no form that this script knows: {text[at:].splitlines()[0]}")
        at = match.end()
        if match["comment"]:
            comment = match["comment"][2:-2]
        elif match["typedef"]:
            if match["of"] not in INTEGERS:
                fail(f"{path}: {match['alias']}_t is a {match['of']}, which INTEGERS does not have")
            header.typedefs[match["alias"] + "_t"] = (match["of"], words(match["about"] or ""))
            header.types.append(match["alias"] + "_t")
        elif match["enum"]:
            read_enum(header, match["enum_name"], match["values"])
        elif match["struct"]:
            read_structure(header, match["struct_name"], match["fields"])
        elif match["function"]:
            read_function(header, match["result"], match["name"], match["arguments"], comment.removeprefix("*"))
        elif match["define"]:
            read_macro(header, match["define"])
        elif match["preprocessor"] and not PREPROCESSOR.match(match["preprocessor"]):
            fail(f"{path}: {match['preprocessor']}")


def read_headers(paths):
    header = Header()
    for path in paths:
        read_header(header, path)
    return header
