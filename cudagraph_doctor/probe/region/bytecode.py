"""Which instructions of a code object read or write slots, found once by going through its bytecode.

The value stack is followed symbolically, along straight code only: where paths meet, nothing is known of it. So the
source text is not needed (nor parsed: a large library costs seconds), and code made by `exec` is seen like any other.
"""

from __future__ import annotations

import dis
import sys

from cudagraph_doctor.probe.region.expression import NAMES, UNKNOWN, Access, Expression, Kind, Table, Use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

_METHOD_BIT = sys.version_info >= (3, 12)
"""`LOAD_ATTR` loads methods, too, and says so in the lowest bit of its argument."""
_NULL = Expression(Kind.UNKNOWN)
"""What the interpreter puts beside a function that is not a method."""
CHANGES = frozenset({
    "append", "appendleft", "extend", "extendleft", "insert", "add", "update", "setdefault", "pop", "popleft",
    "popitem", "remove", "discard", "clear", "sort", "reverse",
})  # fmt: skip
"""Methods of containers that change them."""
ALL_ELEMENTS = frozenset({"values", "items", "copy"})
"""Methods of containers that read all elements."""
_LOCAL_LOADS = frozenset({
    "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_FAST_AND_CLEAR", "LOAD_CLOSURE",
})  # fmt: skip
_GLOBAL_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})
_FREE_LOADS = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_STORES = {"STORE_FAST": Kind.LOCAL, "STORE_GLOBAL": Kind.GLOBAL, "STORE_NAME": Kind.NAME, "STORE_DEREF": Kind.FREE}
_DELETES = {"DELETE_FAST", "DELETE_GLOBAL", "DELETE_NAME", "DELETE_DEREF"}
_NOTHING = frozenset({
    "NOP", "RESUME", "CACHE", "EXTENDED_ARG", "PRECALL", "KW_NAMES", "COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR",
    "NOT_TAKEN", "TO_BOOL", "RESUME_CHECK", "JUMP_BACKWARD_NO_INTERRUPT",
})  # fmt: skip
_ENDS = frozenset({
    "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_NO_INTERRUPT",
})  # fmt: skip
"""What follows is reached from elsewhere."""
_TESTS = frozenset({
    "POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_FORWARD_IF_FALSE",
    "POP_JUMP_BACKWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_FALSE", "UNARY_NOT",
})  # fmt: skip
_BUILDS = frozenset({"BUILD_LIST", "BUILD_SET", "BUILD_STRING"})
_tables: dict[int, Table] = {}


def table_of(code: CodeType) -> Table:
    """The table of a code object. Made once."""
    found = _tables.get(id(code))
    if found is None:
        found = _tables[id(code)] = _Reader(code).read()
    return found


class _Reader:
    """Follows the value stack through one code object."""

    def __init__(self, code: CodeType) -> None:
        self._table = Table(code)
        self._free = frozenset(code.co_freevars)
        self._stack: list[Expression] = []
        self._calls = 0
        self._made: dict[int, int] = {}
        """Identity of an expression → number of calls before it was taken."""

    def read(self) -> Table:
        for instruction in dis.get_instructions(self._table.code):
            if instruction.is_jump_target:
                self._stack.clear()
            self._step(instruction)
        self._table.plain = any(not access.local for access in self._table.accesses.values())
        return self._table

    # ── the stack ───────────────────────────────────────────────────────────────────────────────
    def _pop(self) -> Expression:
        return self._stack.pop() if self._stack else UNKNOWN

    def _pops(self, count: int) -> list[Expression]:
        found = [self._pop() for _ in range(count)]
        found.reverse()
        return found

    def _push(self, expression: Expression) -> None:
        self._stack.append(expression)

    def _take(self, expression: Expression, *, method: bool = False) -> None:
        """An expression is taken by the instruction at its offset: what it is taken from need not be looked at."""
        base = expression.base
        if base is not None and (
            (base.base is not None and self._made.get(id(base)) == self._calls) or base.kind in NAMES
        ):
            self._table.accesses.pop(base.offset, None)
        local = expression.kind is Kind.LOCAL
        self._table.accesses[expression.offset] = Access(expression, writes=False, local=local)
        self._made[id(expression)] = self._calls
        self._push(expression)
        if method:
            self._push(_NULL)

    def _write(self, expression: Expression) -> None:
        base = expression.base
        if base is not None and base.offset in self._table.accesses:
            self._table.accesses.pop(base.offset)
        local = expression.kind is Kind.LOCAL
        self._table.accesses[expression.offset] = Access(expression, writes=True, local=local)

    # ── instructions ────────────────────────────────────────────────────────────────────────────
    def _step(self, instruction: Any) -> None:
        name, offset, argument = instruction.opname, instruction.offset, instruction.argval
        if name in _NOTHING:
            return
        if name in _LOCAL_LOADS:
            self._take(Expression(Kind.LOCAL, argument, offset=offset))
        elif name in {"LOAD_CONST", "LOAD_SMALL_INT", "LOAD_CONST_IMMORTAL", "LOAD_CONST_MORTAL"}:
            self._push(Expression(Kind.CONSTANT, value=argument, offset=offset))
        elif name in _GLOBAL_LOADS:
            if name == "LOAD_FROM_DICT_OR_GLOBALS":
                self._pop()
            elif instruction.arg & 1:
                self._push(_NULL)
            self._take(Expression(Kind.GLOBAL, argument, offset=offset))
        elif name == "LOAD_NAME":
            self._take(Expression(Kind.NAME, argument, offset=offset))
        elif name in _FREE_LOADS:
            if name == "LOAD_FROM_DICT_OR_DEREF":
                self._pop()
            self._take(Expression(Kind.FREE if argument in self._free else Kind.LOCAL, argument, offset=offset))
        elif name == "LOAD_ATTR" or name == "LOAD_METHOD":  # noqa: PLR1714 - one is the rule, the other Python 3.11
            method = name == "LOAD_METHOD" or (_METHOD_BIT and bool(instruction.arg & 1))
            self._attribute(argument, offset, method=method)
        elif name == "BINARY_SUBSCR":
            self._item(offset)
        elif name in _STORES or name in _DELETES:
            self._store_name(name, argument, offset)
        elif name == "STORE_ATTR" or name == "DELETE_ATTR":  # noqa: PLR1714
            owner = self._pop()
            if name == "STORE_ATTR":
                self._pop()
            if owner is not UNKNOWN:
                self._write(Expression(Kind.ATTRIBUTE, argument, owner, offset))
        elif name == "STORE_SUBSCR" or name == "DELETE_SUBSCR":  # noqa: PLR1714
            key, container = self._pop(), self._pop()
            if name == "STORE_SUBSCR":
                self._pop()
            if container is not UNKNOWN:
                self._store_item(container, key, offset)
        elif name == "BINARY_OP":
            self._operation(instruction, offset)
        else:
            self._step_on(instruction, name)

    def _step_on(self, instruction: Any, name: str) -> None:
        if name == "CALL":
            self._call(instruction.arg, instruction.offset)
        elif name == "CALL_KW":
            self._pop()
            self._call(instruction.arg, instruction.offset)
        elif name == "CALL_FUNCTION_EX":
            self._call_with_all(instruction)
        elif name == "PUSH_NULL":
            self._push(_NULL)
        elif name == "COPY":
            position = len(self._stack) - instruction.arg
            self._push(self._stack[position] if position >= 0 else UNKNOWN)
        elif name == "SWAP":
            self._swap(instruction.arg)
        elif name == "POP_TOP":
            self._pop()
        elif name in _TESTS:
            self._used(self._pop(), Use.LENGTH)
            if name == "UNARY_NOT":
                self._push(UNKNOWN)
        elif name == "CONTAINS_OP":
            self._used(self._pop(), Use.LENGTH)
            self._pop()
            self._push(UNKNOWN)
        elif name == "IS_OP" or name == "COMPARE_OP":  # noqa: PLR1714
            self._pops(2)
            self._push(UNKNOWN)
        elif name == "GET_ITER":
            self._used(self._pop(), Use.ELEMENTS)
            self._push(UNKNOWN)
        elif name == "UNPACK_SEQUENCE":
            self._used(self._pop(), Use.ELEMENTS)
            for _ in range(instruction.arg):
                self._push(UNKNOWN)
        elif name == "FOR_ITER":
            self._stack.clear()
        elif name == "BUILD_TUPLE":
            parts = tuple(self._pops(instruction.arg))
            built = Expression(Kind.ARITHMETIC, "tuple")
            built.parts = parts
            self._push(built)
        elif name in _BUILDS or name == "BUILD_MAP" or name == "BUILD_CONST_KEY_MAP":  # noqa: PLR1714
            self._pops(
                {"BUILD_MAP": 2 * instruction.arg, "BUILD_CONST_KEY_MAP": instruction.arg + 1}.get(
                    name, instruction.arg
                )
            )
            self._push(UNKNOWN)
        elif name == "LIST_APPEND" or name == "SET_ADD":  # noqa: PLR1714
            self._pop()
        elif name == "FORMAT_VALUE":
            self._pops(1 + bool(instruction.arg & 4))
            self._push(UNKNOWN)
        elif name in {"FORMAT_SIMPLE", "LIST_TO_TUPLE", "CONVERT_VALUE", "CALL_INTRINSIC_1"}:
            self._pop()
            self._push(UNKNOWN)
        elif name in {"LIST_EXTEND", "SET_UPDATE", "DICT_MERGE", "DICT_UPDATE"}:
            self._used(self._pop(), Use.ELEMENTS)
        elif name in {"UNARY_NEGATIVE", "UNARY_INVERT"}:
            operand = self._pop()
            negative = Expression(Kind.ARITHMETIC, "-" if name == "UNARY_NEGATIVE" else "~")
            negative.parts = (operand,)
            self._push(negative)
        elif name == "BINARY_SLICE":
            self._pops(2)
            self._used(self._pop(), Use.ELEMENTS)
            self._push(UNKNOWN)
        elif name == "BUILD_SLICE":
            self._pops(instruction.arg)
            self._push(UNKNOWN)
        else:
            self._stack.clear()

    def _swap(self, depth: int) -> None:
        while len(self._stack) < depth:
            self._stack.insert(0, UNKNOWN)
        self._stack[-1], self._stack[-depth] = self._stack[-depth], self._stack[-1]

    def _attribute(self, name: str, offset: int, *, method: bool) -> None:
        owner = self._pop()
        if owner is UNKNOWN:
            self._push(UNKNOWN)
            if method:
                self._push(_NULL)
            return
        self._take(Expression(Kind.ATTRIBUTE, name, owner, offset), method=method)

    def _item(self, offset: int) -> None:
        key, container = self._pop(), self._pop()
        if container is UNKNOWN:
            self._push(UNKNOWN)
            return
        item = Expression(Kind.ITEM, base=container, offset=offset)
        item.parts = (key,)
        self._take(item)

    def _store_item(self, container: Expression, key: Expression, offset: int) -> None:
        item = Expression(Kind.ITEM, base=container, offset=offset)
        item.parts = (key,)
        self._write(item)

    def _store_name(self, name: str, variable: str, offset: int) -> None:
        kind = _STORES.get("STORE" + name[name.index("_") :], Kind.NAME)
        if name.startswith("STORE"):
            self._pop()
        if kind is Kind.FREE and variable not in self._free:
            kind = Kind.LOCAL
        self._write(Expression(kind, variable, offset=offset))

    def _operation(self, instruction: Any, offset: int) -> None:
        right, left = self._pop(), self._pop()
        sign = instruction.argrepr
        if sign == "[]":  # Python 3.14
            self._push(left)
            self._push(right)
            self._item(offset)
            return
        found = Expression(Kind.ARITHMETIC, sign.rstrip("="))
        found.parts = (left, right)
        self._push(found)

    # ── calls ───────────────────────────────────────────────────────────────────────────────────
    def _call(self, count: int, offset: int) -> None:
        arguments = self._pops(count)
        beside, function = self._pop(), self._pop()
        self._called(function if beside is _NULL else beside, arguments, offset)

    def _called(self, function: Expression, arguments: list[Expression], offset: int) -> None:
        self._calls += 1
        length = function.kind in {Kind.GLOBAL, Kind.NAME} and function.name in {"len", "bool"}
        for argument in arguments:
            self._used(argument, Use.LENGTH if length else Use.HANDED)
        if function.kind is Kind.ATTRIBUTE and function.base is not None:
            if function.name in CHANGES:
                self._used(function.base, Use.CHANGED)
            elif function.name in ALL_ELEMENTS:
                self._used(function.base, Use.ELEMENTS)
        self._used(function, Use.CALLED)
        if self._read_by_call(function, arguments, offset):
            return
        result = Expression(Kind.RESULT, offset=offset)
        result.parts = (function, *arguments)
        self._table.calls[offset] = result
        self._push(result)

    def _read_by_call(self, function: Expression, arguments: list[Expression], offset: int) -> bool:
        """`getattr(owner, "name")` and `options.get("key")` read a slot as well."""
        if function.kind in {Kind.GLOBAL, Kind.NAME} and function.name == "getattr" and len(arguments) > 1:
            owner, name = arguments[0], arguments[1]
            if owner is not UNKNOWN and name.kind is Kind.CONSTANT and type(name.value) is str:
                self._take(Expression(Kind.ATTRIBUTE, name.value, owner, offset))
                return True
        base = function.base
        if function.kind is Kind.ATTRIBUTE and function.name == "get" and base is not None and 0 < len(arguments) < 3:
            item = Expression(Kind.ITEM, base=base, offset=offset)
            item.parts = (arguments[0],)
            self._table.accesses.pop(function.offset, None)
            self._take(item)
            return True
        return False

    def _call_with_all(self, instruction: Any) -> None:
        has_names = instruction.arg is not None and instruction.arg & 1
        if has_names:
            self._used(self._pop(), Use.ELEMENTS)
        self._used(self._pop(), Use.ELEMENTS)
        beside, function = self._pop(), self._pop()
        self._called(function if beside is _NULL else beside, [], instruction.offset)

    @staticmethod
    def _used(expression: Expression, use: Use) -> None:
        if expression.kind is not Kind.UNKNOWN:
            expression.uses.add(use)
