"""What a value that a region read became in the graph: an operand, an extent, a branch that was taken."""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Activity


class Role(enum.Enum):
    """In what form a value is in a graph; the first one in this list decides the rule (contract/rules.toml)."""

    EXTENT = "extent"
    """A size, a bound of a slice, a grid, the number of turns of a loop that launches."""
    OPERAND = "operand"
    """An argument of an operator or a kernel: a number, an index, a mode."""
    BRANCH = "branch"
    """It decided which work was captured."""
    GUARD = "guard"
    """It decides something that launches nothing."""

    @property
    def rank(self) -> int:
        """0 goes before all."""
        return list(Role).index(self)


@dataclass(frozen=True)
class Use:
    """One place where a value reached the graph."""

    role: Role
    source: int
    """Id of the source file."""
    node: ast.AST
    """The expression there: the call, the subscript, the test."""
    value: ast.expr
    """The expression that holds the value there: `n - 1` of `x[: n - 1]`."""
    work: tuple[Activity, ...] = ()
    """What was launched there."""
    plain: bool = False
    """It is the very value that was read: no calculation stands in between."""
    carried: bool = False
    """It was the very value where the last assignment, call or return brought it."""
    path: tuple[tuple[int, ast.AST], ...] = ()
    """(source, expression) of the calls and assignments on the way, first the read."""
    statement: ast.stmt | None = None
    """The statement whose test it is."""
