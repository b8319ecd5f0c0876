# SPDX-License-Identifier: Apache-2.0
"""The operators of scripts/mutate --fresh: small errors at places of clang's syntax tree. No operator changes the
number of lines of a file. Calls that only log are left alone, and so are assertions, which are off in most builds."""

import bisect
import functools
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

try:
    from clang import cindex
except ImportError:  # Debian's package, beside a Python of another origin
    sys.path.append("/usr/lib/python3/dist-packages")
    from clang import cindex

OPPOSITE = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
LOGIC = {"&&": "||", "||": "&&"}
ARITHMETIC = {"+": "-", "-": "+", "&": "|", "|": "&", "+=": "-=", "-=": "+=", "|=": "&=", "&=": "|=", "<<": ">>",
              ">>": "<<"}
CLEAN_UP = re.compile(r"free|close|destroy|unmap|unlock|release|remove|delete|dereg|detach|cancel|unref|clear|"
                      r"forget|drop|discard|leave|_del$|_fini$")
LOGS = re.compile(r"(?:.*_)?(?:log|warn)(?:_.*)?$")
QUIET = re.compile(r"(?:ut_(?:error|info|warn|debug)|(?:\w+_)?v?log(?:_\w+)?|\w+_warn|warn_\w+|UT_ASSERT\w*|"
                   r"\w*PROBE\w*|_?[Ss]tatic_assert|pthread_setname_np|__builtin_prefetch)\s*\(")
ORDER = re.compile(r"\b(__ATOMIC_|memory_order_)(SEQ_CST|ACQ_REL|ACQUIRE|RELEASE|seq_cst|acq_rel|acquire|release)\b")
UNITS = {"1000": "1", "1000000": "1000", "1000000000": "1000000", "1024": "1000", "1e3": "1", "1e6": "1e3",
         "1e9": "1e6"}
TIME_NAME = re.compile(r"_(?:MS|US|NS|S)$|_(?:ms|us|ns)$")

NOWHERE = (-1, -1)
K = cindex.CursorKind
OPERATORS = (K.BINARY_OPERATOR, K.COMPOUND_ASSIGNMENT_OPERATOR)
LABELS = (K.LABEL_STMT, K.CASE_STMT, K.DEFAULT_STMT)


@dataclass(frozen=True)
class Site:
    """A mutation: `new` in place of the characters begin..end of a file."""
    path: Path
    kind: str
    begin: int
    end: int
    new: str
    function: str  # or "" outside functions
    probe: int     # begin of the statement of a block that it is in, or -1
    probe_end: int  # its end, or -1 if the statement is a declaration

    def apply(self, text):
        return text[:self.begin] + self.new + text[self.end:]

    def lines(self, text):
        """The changed lines before and after, each as words separated by one blank."""
        first, last = text.rfind("\n", 0, self.begin) + 1, text.find("\n", self.end)
        after = self.apply(text)
        return tuple(" ".join(t.split()) for t in (text[first:last], after[first:last + len(after) - len(text)]))


class Finder:
    def __init__(self, path, text):
        self.path, self.text, self.found = path, text, []
        # libclang counts bytes
        self.is_ascii = text.isascii()
        self.starts = [0]
        for char in text if not self.is_ascii else "":
            self.starts.append(self.starts[-1] + len(char.encode()))
        self.function = ""

    def at(self, offset):
        return offset if self.is_ascii else bisect.bisect_left(self.starts, offset)

    def span(self, cursor):
        return self.at(cursor.extent.start.offset), self.at(cursor.extent.end.offset)

    def text_of(self, cursor):
        begin, end = self.span(cursor)
        return self.text[begin:end]

    def add(self, kind, begin, end, new, statement):
        old = self.text[begin:end]
        if new != old and begin < end:
            # the same number of lines
            new += "\n" * (old.count("\n") - new.count("\n"))
            self.found.append(Site(self.path, kind, begin, end, new, self.function, *statement))

    def of_operator(self, cursor, probe):
        parts = list(cursor.get_children())
        if len(parts) != 2:
            return
        (_, left), (right, end) = self.span(parts[0]), self.span(parts[1])
        found = re.fullmatch(r"\s*([-+*/%<>=!&|^]+)\s*", self.text[left:right]) if left < right else None
        if not found:  # of a macro
            return
        begin, over = left + found.start(1), left + found.end(1)
        operator = found.group(1)
        for kind, table in (("comparison", OPPOSITE), ("logic", LOGIC), ("arithmetic", ARITHMETIC)):
            if operator in table:
                self.add(kind, begin, over, table[operator], probe)
        if operator in ("<", "<=", ">", ">="):
            bound = self.text[right:end]
            self.add("bound", right, end, f"({bound} + 1)", probe)
            self.add("bound", right, end, f"({bound} - 1)", probe)
        if operator in ("<<", ">>") and self.text[right:end] in ("10", "20", "30"):
            self.add("unit", right, end, str(int(self.text[right:end]) - 10), probe)

    def of_condition(self, cursor, probe):
        first = next(cursor.get_children(), None)
        if first is None:
            return
        begin, end = self.span(first)
        if cursor.extent.start.offset < first.extent.start.offset or cursor.kind == K.CONDITIONAL_OPERATOR:
            self.add("condition", begin, end, f"!({self.text[begin:end]})", probe)

    def of_literal(self, text, begin, end, probe, time_name):
        digits = text.rstrip("uUlL")
        if digits in UNITS:
            self.add("unit", begin, begin + len(digits), UNITS[digits], probe)
        elif time_name and digits.isdigit() and int(digits) > 0:
            value = int(digits)
            self.add("unit", begin, begin + len(digits),
                     str(value // 1000 if value % 1000 == 0 else value * 1000), probe)
        elif self.function and digits.isdigit() and int(digits) > 1:
            self.add("bound", begin, begin + len(digits), str(int(digits) + 1), probe)

    def simple(self, cursor):
        """A statement that a semicolon ends and that declares and leaves nothing: its text, or None."""
        if cursor.kind not in (*OPERATORS, K.CALL_EXPR, K.UNARY_OPERATOR, K.CSTYLE_CAST_EXPR):
            return None
        begin, end = self.span(cursor)
        if not re.match(r"\s*;", self.text[end:end + 80]) or QUIET.match(self.text, begin):
            return None
        if re.match(r"[A-Z_0-9]+\(", self.text[begin:end]):  # a macro, which may be a statement
            return None
        return self.text[begin:end]

    def of_statement(self, cursor, probe):
        text = self.simple(cursor)
        if text is None:
            return
        begin, end = self.span(cursor)
        if cursor.kind == K.BINARY_OPERATOR:
            if re.match(r"[^=(]*(->|\.|\[|\*)[^=(]*=[^=]", text):
                self.add("store", begin, end, "(void)0", probe)
        elif cursor.kind in (K.CALL_EXPR, K.CSTYLE_CAST_EXPR) and "(" in text:
            name = re.match(r"(?:\(void\)!?)?\s*([\w.>-]+)\(", text)
            if name:
                self.add("clean-up" if CLEAN_UP.search(name.group(1)) else "call", begin, end, "(void)0", probe)

    def of_block(self, cursor):
        children = list(cursor.get_children())
        for one, two in zip(children, children[1:]):
            first, second = self.simple(one), self.simple(two)
            if first is None or second is None or first == second or "(" not in first + second:
                continue
            (begin, end), (start, last) = self.span(one), self.span(two)
            if begin < end <= start < last:
                self.add("swap", begin, last, second + self.text[end:start] + first, self.statement(one, two))

    def statement(self, first, last):
        begin, end = self.span(first)[0], self.span(last)[1]
        if first.kind == K.DECL_STMT:
            return begin, -1
        if semicolon := re.compile(r"\s*;").match(self.text, end):
            return begin, semicolon.end()
        return begin, end if self.text[end - 1] in "};" else self.text.find(";", end) + 1

    def walk(self, cursor, probe, in_block):
        if cursor.extent.start.offset == cursor.extent.end.offset or QUIET.match(self.text, self.span(cursor)[0]):
            return
        if in_block:
            if cursor.kind in LABELS:
                probe = NOWHERE  # that of the statement behind it
            else:
                probe = self.statement(cursor, cursor)
            self.of_statement(cursor, probe)
        if cursor.kind == K.COMPOUND_STMT:
            self.of_block(cursor)
        elif cursor.kind in OPERATORS:
            self.of_operator(cursor, probe)
        elif cursor.kind in (K.IF_STMT, K.CONDITIONAL_OPERATOR):
            self.of_condition(cursor, probe)
        elif cursor.kind in (K.INTEGER_LITERAL, K.FLOATING_LITERAL):
            begin, end = self.span(cursor)
            self.of_literal(self.text[begin:end], begin, end, probe, False)
        bodies = []
        if cursor.kind in (K.IF_STMT, K.WHILE_STMT, K.FOR_STMT):  # a body without braces is a statement, too
            bodies = list(cursor.get_children())[1 if cursor.kind == K.IF_STMT else -1:]
        children = list(cursor.get_children())
        for i, child in enumerate(children):
            inside = cursor.kind == K.COMPOUND_STMT or cursor.kind in LABELS and i == len(children) - 1
            self.walk(child, probe, inside)
            if child in bodies and child.kind != K.COMPOUND_STMT:
                self.of_statement(child, probe)

    def of_function(self, cursor):
        self.function = cursor.spelling
        body = next((c for c in cursor.get_children() if c.kind == K.COMPOUND_STMT), None)
        if body is None:
            return
        self.walk(body, NOWHERE, False)
        begin, end = self.span(body)
        for found in ORDER.finditer(self.text, begin, end):
            probe = max(((s.probe, s.probe_end) for s in self.found if s.function == self.function and
                         s.probe <= found.start() and s.kind != "swap"), default=NOWHERE)
            probe = probe if probe[1] >= found.end() else (probe[0], -1)
            for weaker in weaker_orders(self.text[begin:found.start()], found.group(2).upper()):
                weaker = weaker.lower() if found.group(2).islower() else weaker
                self.add("order", found.start(2), found.end(2), weaker, probe)
        self.function = ""

    def of_enum(self, cursor):
        for constant in cursor.get_children():
            for value in constant.get_children():
                if value.kind == K.INTEGER_LITERAL and TIME_NAME.search(constant.spelling):
                    self.of_literal(self.text_of(value), *self.span(value), NOWHERE, True)

    def statements_with(self, begin, end):
        """The fewest statements of one block that have all of begin..end, and declare nothing there: begin and end."""
        def parts(cursor):
            for child in cursor.get_children():
                while child.kind in LABELS and self.span([*child.get_children()][-1])[0] <= begin:
                    child = [*child.get_children()][-1]
                first, last = self.span(child)
                if cursor.kind == K.COMPOUND_STMT and child.kind != K.DECL_STMT:
                    last = self.statement(child, child)[1]
                if first < end and begin < last:
                    yield child
        found, inside = NOWHERE, [c for c in self.definitions if c.kind == K.FUNCTION_DECL]
        inside = [c for c in inside if self.span(c)[0] <= begin and end <= self.span(c)[1]]
        while len(inside) == 1:
            cursor, inside = inside[0], [*parts(inside[0])]
            if cursor.kind == K.COMPOUND_STMT and inside and not any(c.kind in (K.DECL_STMT, *LABELS) for c in inside):
                first, last = self.statement(inside[0], inside[-1])
                if first <= begin and end <= last:
                    found = first, last
        return found

    @functools.cached_property
    def definitions(self):
        return [c for c in self.unit.cursor.get_children()
                if c.location.file and c.location.file.name == str(self.whole)]

    def all(self):
        for cursor in self.definitions:
            if cursor.kind == K.FUNCTION_DECL and cursor.is_definition() and not LOGS.match(cursor.spelling):
                self.of_function(cursor)
            elif cursor.kind == K.ENUM_DECL:
                self.of_enum(cursor)
        return self.found


def weaker_orders(before, order):
    """Each order that is one step weaker, for the last atomic operation that begins in the text."""
    if order in ("ACQUIRE", "RELEASE"):
        return ("RELAXED",)
    if order == "ACQ_REL":
        return ("ACQUIRE", "RELEASE")
    what = re.findall(r"\b(?:__)?atomic_([a-z]+)\w*\s*\(", before)
    return {"load": ("ACQUIRE",), "store": ("RELEASE",)}.get(what[-1] if what else "", ("ACQ_REL",))


@functools.cache
def index():
    return cindex.Index.create()


def arguments(command):
    """Of a compiler, what the syntax depends on."""
    words = shlex.split(command)
    kept = [w for w in words[1:] if w.startswith(("-I", "-D", "-std=", "-isystem", "-pthread"))]
    return [*kept, "-w"]


def parsed(tree, path, text, command, folder):
    """A file and its syntax tree. `command` compiles it, or for a header a file beside it, in the folder."""
    finder = Finder(path, text)
    finder.whole = (tree / path).resolve()
    args = [re.sub(r"^-I(?!/)", f"-I{folder}/", a) for a in arguments(command)]
    if path.suffix == ".h":
        args = ["-x", "c", *args]
    finder.unit = index().parse(str(finder.whole), args=args)
    return finder


def sites(*file):
    """All mutations of a file."""
    return parsed(*file).all()
