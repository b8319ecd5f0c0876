#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the Fortran module utofu from the public C headers.

usage: generate.py OUT.f90 utofu.h [utofu_ext.h...]

Every function, constant, structure and type of the headers becomes an entity of the module (bindings/headers.py reads
them):

  typedefs of integers      utofu_stadd_t: the kind utofu_stadd_kind
  enums                     constants, and the kind of their type: utofu_armw_op_kind
  macros with a value       constants; with an argument, pure functions
  structures                bind(c) types of the same names
  functions                 interfaces, bind(c): a call is the call of the C function. Where Fortran has a better form
                            of an argument there is another procedure of the same name (see "wrappers" below)

A pointer that may be NULL may be left out in Fortran.
"""
import re
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from headers import EXTENTS, MACRO_ARGUMENTS, fail, read_headers  # noqa: E402

# C types without a name of their own here: Fortran's type and kind
BASE = {
    "int": ("integer", "c_int"), "unsigned int": ("integer", "c_int"),
    "unsigned long int": ("integer", "utofu_flags_kind"),
    "size_t": ("integer", "c_size_t"), "uintptr_t": ("integer", "c_intptr_t"), "double": ("real", "c_double"),
    "uint8_t": ("integer", "c_int8_t"), "uint16_t": ("integer", "c_int16_t"), "uint32_t": ("integer", "c_int32_t"),
    "int64_t": ("integer", "c_int64_t"), "uint64_t": ("integer", "c_int64_t"),
}
FLAGS = "utofu_flags_kind"
# the bits of the C type that a macro's argument has, where Fortran's type has a sign
MACRO_MASKS = {"utofu_path_id_t": 255}
TEXT_SIZE = 1024  # of utofu_get_last_error(), as its comment says
LONGEST_LINE, LONGEST_NAME = 132, 63


class Module:
    def __init__(self, header):
        self.header = header
        self.kinds = {ctype: ctype.removeprefix("enum ").removesuffix("_t") + "_kind" for ctype in header.types}
        self.public, self.lines = [], []

    def type_of(self, ctype):
        """Fortran's type, and what an interface has to import for it."""
        if ctype.startswith("struct "):
            name = ctype.removeprefix("struct ")
            if name not in [structure[0] for structure in self.header.structures]:
                fail(f"there is no {ctype} in the headers")
            return f"type({name})", name
        if ctype in self.kinds:
            return f"integer({self.kinds[ctype]})", self.kinds[ctype]
        if ctype in BASE:
            return f"{BASE[ctype][0]}({BASE[ctype][1]})", BASE[ctype][1]
        return fail(f"the type {ctype} is neither in the headers nor in BASE")

    def add(self, text, indent=0):
        """A statement, continued where it is too long."""
        margin = "  " * indent
        lines = textwrap.wrap(text, LONGEST_LINE - len(margin) - 4, break_long_words=False, break_on_hyphens=False)
        for i, line in enumerate(lines or [""]):
            self.lines.append((margin + ("    " if i else "") + line + (" &" if i < len(lines) - 1 else "")).rstrip())

    def note(self, text, indent=0):
        margin = "  " * indent + "! "
        self.lines += textwrap.wrap(text, 100, initial_indent=margin, subsequent_indent=margin)

    def commented(self, text, comment, indent):
        """A line with a comment behind it, or above it where there is no room."""
        margin = "  " * indent
        if comment and len(margin + text + comment) + 3 > LONGEST_LINE:
            self.note(comment, indent)
            comment = ""
        self.lines.append(margin + text + (" ! " + comment if comment else ""))

    def constant(self, constant):
        kind = self.kinds.get(constant.type) or BASE[constant.type][1]
        value = f"{constant.value}_{kind}" if constant.bit is None else f"shiftl(1_{kind}, {constant.bit})"
        self.commented(f"integer({kind}), parameter :: {constant.name} = {value}", constant.comment, 1)
        self.public.append(constant.name)

    def kind(self, name, of, comment):
        self.commented(f"integer, parameter :: {name} = {of}", comment, 1)
        self.public.append(name)

    # -- dummy arguments --

    def declare(self, argument):
        """As the C function has it: the declaration, and what it imports."""
        intent = {"in": "in"}.get(argument.intent, "inout")  # what a call leaves alone keeps its value
        if argument.type == "void":
            return (f"type(c_ptr), value :: {argument.name}" if argument.pointers == 1 else
                    f"type(c_ptr), intent({intent}) :: {argument.name}"), {"c_ptr"}
        if argument.pointers == 2:
            return f"type(c_ptr), intent({intent}) :: {argument.name}", {"c_ptr"}
        ftype, imported = self.type_of(argument.type)
        if argument.array:
            extent = EXTENTS.get(argument.name, ("*",))[0]
            return f"{ftype}, intent({intent}) :: {argument.name}({extent})", {imported}
        if argument.pointers == 1:
            return f"{ftype}, intent({intent}) :: {argument.name}", {imported}
        return f"{ftype}, value :: {argument.name}", {imported}

    def interface(self, function, name, addresses=()):
        """The C function under this name. Pointers named in addresses are passed as addresses."""
        kind = "function" if function.has_result else "subroutine"
        declarations, imported = [], set()
        for argument in function.arguments:
            text, imports = self.declare(argument)
            if argument.name in addresses:
                text, imports = f"type(c_ptr), value :: {argument.name}", {"c_ptr"}
            declarations.append(text)
            imported |= imports
        if function.has_result:
            imported.add("c_int")
        names = ", ".join(argument.name for argument in function.arguments)
        self.add(f'{kind} {name}({names}) bind(c, name="{function.name}")' +
                 (" result(rc)" if function.has_result else ""), 2)
        self.add("import :: " + ", ".join(sorted(imported)), 3)
        for text in declarations:
            self.add(text, 3)
        if function.has_result:
            self.add("integer(c_int) :: rc", 3)
        self.add(f"end {kind}", 2)

    # -- procedures of the module --

    def procedure(self, function, name, body, left_out=(), changed=(), local=()):
        """A module procedure. left_out: arguments that it lacks; changed: name -> declaration; local: declarations."""
        kind = "function" if function.has_result else "subroutine"
        arguments = [a for a in function.arguments if a.name not in left_out]
        names = ", ".join(a.name for a in arguments)
        self.add("")
        self.add(f"recursive {kind} {name}({names})" + (" result(rc)" if function.has_result else ""), 1)
        for argument in arguments:
            self.add(dict(changed).get(argument.name) or self.declare(argument)[0], 2)
        if function.has_result:
            self.add("integer(c_int) :: rc", 2)
        for text in local:
            self.add(text, 2)
        self.add("")
        for text in body:
            self.add(text, 2)
        self.add(f"end {kind}", 1)


def call(function, name, values=()):
    """The call of the C function: values replace arguments."""
    arguments = ", ".join(dict(values).get(a.name, a.name) for a in function.arguments)
    return f"rc = {name}({arguments})" if function.has_result else f"call {name}({arguments})"


# Wrappers: each returns the names of the procedures that a generic name stands for, and may add one.

def wrap_cbdata(module, function):
    """Without callback data: C's NULL. With it the call is the C function itself."""
    name = function.name + "_no_cbdata"
    module.procedure(function, name, [call(function, function.name + "_c", {"cbdata": "c_null_ptr"}.items())],
                     left_out=("cbdata",))
    return [function.name + "_c", name]


def wrap_optional(module, function):
    """Arguments for which C takes NULL. A copy is what has an address."""
    name, before, after, changed, values, local = function.name + "_f", [], [], {}, {}, []
    for argument in function.arguments:
        if argument.name not in function.may_be_null:
            continue
        text, own = module.declare(argument)[0], f"own_{argument.name}"
        changed[argument.name] = text.replace(" ::", ", optional ::")
        values[argument.name] = argument.name + "_at"
        local += [f"type(c_ptr) :: {argument.name}_at",
                  re.sub(r", intent\(\w+\) :: \w+", f", target :: {own}", text)]
        before += [f"{argument.name}_at = c_null_ptr",
                   f"if (present({argument.name})) then",
                   f"  {own} = {argument.name}",
                   f"  {argument.name}_at = c_loc({own})",
                   "end if"]
        if argument.intent != "in":
            after.append(f"if (present({argument.name})) {argument.name} = {own}")
    module.procedure(function, name, before + [call(function, function.name + "_c", values.items())] + after,
                     changed=changed.items(), local=local)
    return [name]


def wrap_array(module, function):
    """An array that C gives with malloc(): an allocatable one here. The form of C stays, too."""
    array, number = function.arguments
    ftype = module.type_of(array.type)[0]
    name = function.name + "_f"
    module.procedure(
        function, name,
        [f"rc = {function.name}_c({array.name}_at, number)",
         "if (rc /= UTOFU_SUCCESS) return",
         f"allocate({array.name}(number))",
         "if (number > 0) then",
         "  extent(1) = number",
         f"  call c_f_pointer({array.name}_at, list, extent)",
         "  do i = 1, number",
         f"    {array.name}(i) = list(i)",
         "  end do",
         f"  call free_memory({array.name}_at)",
         "end if"],
        left_out=(number.name,), changed={array.name: f"{ftype}, allocatable, intent(out) :: {array.name}(:)"}.items(),
        local=[f"type(c_ptr) :: {array.name}_at", "integer(c_size_t) :: number, extent(1), i",
               f"{ftype}, pointer :: list(:)"])
    return [function.name + "_c", name]


def wrap_structure(module, function):
    """A pointer to a structure of the library. The form of C stays, too."""
    pointer = next(a for a in function.arguments if a.pointers == 2)
    ftype = module.type_of(pointer.type)[0]
    name = function.name + "_f"
    module.procedure(
        function, name,
        [f"nullify({pointer.name})",
         call(function, function.name + "_c", {pointer.name: pointer.name + "_at"}.items()),
         f"if (rc == UTOFU_SUCCESS) call c_f_pointer({pointer.name}_at, {pointer.name})"],
        changed={pointer.name: f"{ftype}, pointer, intent(out) :: {pointer.name}"}.items(),
        local=[f"type(c_ptr) :: {pointer.name}_at"])
    return [function.name + "_c", name]


def wrap_text_in(module, function):
    """A text: C's ends with a zero byte. One that has no room here is too long for every function."""
    text, = function.arguments
    name = function.name + "_f"
    module.procedure(
        function, name,
        [f"length = min(len_trim({text.name}), size(bytes) - 1)",
         "do i = 1, length",
         f"  bytes(i) = {text.name}(i:i)",
         "end do",
         "bytes(length + 1) = c_null_char",
         f"rc = {function.name}_c(bytes)"],
        changed={text.name: f"character(len=*, kind=c_char), intent(in) :: {text.name}"}.items(),
        local=["integer :: length, i", f"character(kind=c_char) :: bytes({TEXT_SIZE})"])
    return [name]


def wrap_text_out(module, function):
    """A text that the function writes, ended by a zero byte: here blanks follow it."""
    text, = function.arguments
    name = function.name + "_f"
    module.procedure(
        function, name,
        ["bytes(1) = c_null_char",
         f"call {function.name}_c(bytes)",
         f"{text.name} = ''",
         f"do i = 1, min(size(bytes), len({text.name}))",
         "  if (bytes(i) == c_null_char) exit",
         f"  {text.name}(i:i) = bytes(i)",
         "end do"],
        changed={text.name: f"character(len=*, kind=c_char), intent(out) :: {text.name}"}.items(),
        local=["integer :: i", f"character(kind=c_char) :: bytes({TEXT_SIZE})"])
    return [name]


def choose_wrapper(function):
    arguments = function.arguments
    if any(a.type == "char" for a in arguments):
        if len(arguments) != 1:
            fail(f"{function.name}: a text is its only argument in all functions that this script knows")
        return wrap_text_in if arguments[0].intent == "in" else wrap_text_out
    if function.owned:
        if len(arguments) != 2 or arguments[0].pointers != 2:
            fail(f"{function.name}: the array that is to be freed is not its first argument of two")
        return wrap_array
    if any(a.pointers == 2 and a.type.startswith("struct ") for a in arguments):
        return wrap_structure
    if any(a.pointers == 2 and a.type != "void" for a in arguments):
        fail(f"{function.name}: a pointer to a pointer, and the comment does not say that free() frees it")
    if function.may_be_null:
        return wrap_optional
    if arguments[-1].name == "cbdata" and arguments[-1].intent == "in":
        return wrap_cbdata
    return None


def write_interfaces(module):
    wrapped = []
    for function in module.header.functions:
        wrapper = choose_wrapper(function)
        module.add("")
        module.note(f"{function.name}: {function.purpose}", 1)
        module.add("interface", 1)
        texts = [a.name for a in function.arguments if a.type == "char"]
        if texts:
            wrapped.append((function, wrapper))
            intent = "in" if wrapper is wrap_text_in else "inout"
            kind = "function" if function.has_result else "subroutine"
            module.add(f'{kind} {function.name}_c({texts[0]}) bind(c, name="{function.name}")' +
                       (" result(rc)" if function.has_result else ""), 2)
            module.add("import :: c_char" + (", c_int" if function.has_result else ""), 3)
            module.add(f"character(kind=c_char), intent({intent}) :: {texts[0]}(*)", 3)
            if function.has_result:
                module.add("integer(c_int) :: rc", 3)
            module.add(f"end {kind}", 2)
        elif wrapper:
            wrapped.append((function, wrapper))
            module.interface(function, function.name + "_c",
                             function.may_be_null if wrapper is wrap_optional else ())
        else:
            module.interface(function, function.name)
        module.add("end interface", 1)
        module.public.append(function.name)
    return wrapped


def write_macros(module):
    for name, argument, shift in module.header.macros:
        mask = MACRO_MASKS.get(MACRO_ARGUMENTS[argument])
        value = f"int({argument}, {FLAGS})"
        if mask is not None:
            value = f"iand({value}, {mask}_{FLAGS})"
        module.add("")
        module.add(f"pure function {name}({argument}) result(flags)", 1)
        module.add(f"{module.type_of(MACRO_ARGUMENTS[argument])[0]}, intent(in) :: {argument}", 2)
        module.add(f"integer({FLAGS}) :: flags", 2)
        module.add("")
        module.add(f"flags = shiftl({value}, {shift})", 2)
        module.add("end function", 1)
        module.public.append(name)


def write_types(module):
    header = module.header
    module.add("")
    module.note("Kinds. Values of C's types without a sign have the same bits here: those with the highest bit are "
                "negative.", 1)
    module.kind(FLAGS, "c_long", "flags of all functions")
    for ctype, kind in module.kinds.items():
        of, comment = header.typedefs.get(ctype, ("int", ctype))
        module.kind(kind, BASE[of][1], comment)
    module.add("")
    module.note("Constants", 1)
    for entry in header.constants:
        module.constant(entry)
    for name, fields in header.structures:
        module.add("")
        module.add(f"type, bind(c) :: {name}", 1)
        for field_name, ctype, extent, comment in fields:
            text = f"{module.type_of(ctype)[0]} :: {field_name}" + (f"({extent})" if extent else "")
            module.commented(text, comment, 2)
        module.add("end type", 1)
        module.public.append(name)


HEAD = """! SPDX-License-Identifier: Apache-2.0
! The uTofu interface for Fortran 2008. Made by bindings/fortran/generate.py from the C headers: do not edit it.
!
! Names, numbers and meanings are those of utofu.h; its comments, or the manual pages, say what functions do and
! return. Pointers are of type(c_ptr): c_loc() gives them. Results of functions are arguments of intent(inout), as a
! call that fails leaves them alone. docs/guide/bindings.md says more.
module utofu
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_f_pointer, c_int, c_int16_t, c_int32_t, c_int64_t, &
      c_int8_t, c_intptr_t, c_loc, c_long, c_null_char, c_null_ptr, c_ptr, c_size_t
  implicit none
  private
"""


FREE = """
interface
  subroutine free_memory(memory) bind(c, name="free")
    import :: c_ptr
    type(c_ptr), value :: memory
  end subroutine
end interface
"""


def check_names(names):
    seen = set()
    for name in names:
        if name.lower() in seen:
            fail(f"{name}: Fortran does not distinguish it from another name of the headers")
        if len(name) > LONGEST_NAME:
            fail(f"{name}: Fortran's names have {LONGEST_NAME} characters at most")
        seen.add(name.lower())


def make(paths):
    module = Module(read_headers(paths))
    write_types(module)
    wrapped = write_interfaces(module)
    module.lines += textwrap.indent(FREE, "  ").splitlines()
    declarations, module.lines = module.lines, []
    write_macros(module)
    generics = [(function.name, wrapper(module, function)) for function, wrapper in wrapped]
    procedures = module.lines
    lines = []
    for name, specific in generics:
        lines += ["", f"  interface {name}"]
        lines += [f"    procedure {procedure}" for procedure in specific] + ["  end interface"]
    check_names(module.public + [procedure for _, specific in generics for procedure in specific])
    public = [f"  public :: {name}" for name in module.public]
    lines = HEAD.splitlines() + public + declarations + lines + ["", "contains"] + procedures + ["end module utofu"]
    too_long = [line for line in lines if len(line) > LONGEST_LINE]
    if too_long:
        fail(f"a line has more than {LONGEST_LINE} characters: {too_long[0]}")
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) < 3:
        fail("usage: generate.py OUT.f90 utofu.h [utofu_ext.h...]")
    text = make(sys.argv[2:])
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        f.write(text)


if __name__ == "__main__":
    main()
