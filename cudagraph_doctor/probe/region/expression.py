"""An expression of the target as its bytecode builds it: a name, and what is taken from it.

`self.layers[3].scale` is an attribute of an item of an attribute of a name. Expressions are made once for each code
object (`bytecode`), and looked up in its frames again and again (`evaluation`).
"""

from __future__ import annotations

from enum import IntEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Kind(IntEnum):
    """What an expression is."""

    UNKNOWN = 0
    CONSTANT = 1
    LOCAL = 2
    """A local variable of a function, or one that an inner function shares (a cell of its own)."""
    FREE = 3
    """A variable of an enclosing function."""
    GLOBAL = 4
    NAME = 5
    """A name of module level or of a class body: local there, else global."""
    ATTRIBUTE = 6
    ITEM = 7
    ARITHMETIC = 8
    RESULT = 9
    """What a call returned."""


NAMES = frozenset({Kind.LOCAL, Kind.FREE, Kind.GLOBAL, Kind.NAME})


class Use(IntEnum):
    """What is done with a container that a slot holds, as far as its length or its elements are read by it."""

    LENGTH = 1
    """`len(c)`, `if c:`, `k in c`."""
    ELEMENTS = 2
    """`for x in c`, `f(*c)`, `a, b = c`."""
    HANDED = 3
    """An argument of a call."""
    CHANGED = 4
    """A method was called that may change it: `c.append(x)`."""
    CALLED = 5
    """The value itself was called."""


class Expression:
    """One expression of a code object."""

    __slots__ = ("base", "kind", "name", "offset", "parts", "uses", "value")

    def __init__(
        self, kind: Kind, name: str = "", base: Expression | None = None, offset: int = -1, value: Any = None
    ) -> None:
        self.kind = kind
        self.name = name
        """Of a name or an attribute; the sign of an arithmetic operation."""
        self.base = base
        """What an attribute or item is taken from."""
        self.offset = offset
        """Of the instruction that is about to take it, in bytes."""
        self.value = value
        """Of a constant."""
        self.parts: tuple[Expression, ...] = ()
        """Key of an item; operands; function and arguments of a call."""
        self.uses: set[Use] = set()

    @property
    def root(self) -> Expression:
        """The name that it begins with."""
        here = self
        while here.base is not None:
            here = here.base
        return here


UNKNOWN = Expression(Kind.UNKNOWN)


class Access:
    """An instruction that reads or writes a slot, seen just before it runs."""

    __slots__ = ("expression", "local", "writes")

    def __init__(self, expression: Expression, *, writes: bool, local: bool = False) -> None:
        self.expression = expression
        self.writes = writes
        self.local = local
        """A local variable alone: of interest only in frames that are alive at a replay, too."""


class Table:
    """What the instructions of one code object read and write."""

    __slots__ = ("accesses", "calls", "code", "plain")

    def __init__(self, code: Any) -> None:
        self.code = code
        """Held, so that its identity is not given twice."""
        self.accesses: dict[int, Access] = {}
        """By the offset of the instruction."""
        self.calls: dict[int, Expression] = {}
        """The calls, by the offset of their instruction."""
        self.plain = True
        """It has accesses other than of its own local variables."""
