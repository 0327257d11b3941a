"""The expression that stands at a recorded position, in the user's own words."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.text import EMPTY, SourceText, source_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import Session

LONGEST = 72
"""Characters of an expression that a sentence can carry."""


@dataclass(frozen=True)
class Expression:
    """An expression and the statement it stands in; all parts may be missing."""

    source: SourceText = EMPTY
    node: ast.expr | None = None
    statement: ast.stmt | None = None
    exact: bool = False
    """Python told the columns; otherwise the expression was chosen by what it looks like."""

    @property
    def text(self) -> str:
        """The expression as written, cut where it is long; empty where there is none."""
        return self.show(self.node) if self.node is not None else ""

    def show(self, node: ast.AST | None, longest: int = LONGEST) -> str:
        """Any node as written, on one line, cut where it is long."""
        if node is None:
            return ""
        text = " ".join(self.source.segment(node).split())
        return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"

    def full(self, node: ast.AST) -> str:
        """Any node as written, on one line, never cut: for changed code."""
        return self.source.segment(node)

    @property
    def call(self) -> ast.Call | None:
        """The expression, if it is a call."""
        return self.node if isinstance(self.node, ast.Call) else None

    @property
    def method(self) -> str:
        """Last part of the called name: `item` of `x.max().item()`, `tensor` of `torch.tensor(1)`."""
        return called(self.node)

    @property
    def receiver(self) -> ast.expr | None:
        """What the method is called on: `x.max()` of `x.max().item()`."""
        if isinstance(self.node, ast.Call) and isinstance(self.node.func, ast.Attribute):
            return self.node.func.value
        return None


def find_expression(
    session: Session, location: Location | None, likes: Callable[[ast.expr], bool] | None = None
) -> Expression:
    """The expression at a location.

    Args:
        session: Holds the recorded source texts.
        location: With columns, the expression that has exactly this extent, or the smallest around it.
        likes: Without columns, or where the columns cover a whole statement: what the wanted expression looks like;
            the first of its line in evaluation order (innermost first) is taken.
    """
    source = source_of(session, location)
    if location is None or source.tree is None:
        return Expression()
    statement = source.statement_at(location.line)
    node = None
    if location.column is not None and location.end_column is not None:
        node = source.expression_at(location.line, location.column, location.end_line, location.end_column)
        node = _whole(source, node)
        tested = source.test_starting_at(location.line, location.column) if node is None else None
        if tested is not None:
            statement, node = tested
            return Expression(source, node, statement, exact=True)
        if node is not None:
            statement = _statement_of(source, node) or statement
            if likes is None or likes(node):
                return Expression(source, node, statement, exact=True)
    liked = _liked(source, statement, node, likes) if likes is not None else None
    if liked is not None:
        return Expression(source, liked, statement, exact=node is not None)
    return Expression(source, node, statement, exact=node is not None)


def _liked(
    source: SourceText, statement: ast.stmt | None, node: ast.expr | None, likes: Callable[[ast.expr], bool]
) -> ast.expr | None:
    """The wanted expression: inside of the position, else around it, else anywhere in the statement's header."""
    if node is not None:
        inside = [n for n in ast.walk(node) if isinstance(n, ast.expr) and likes(n)]
        around = [n for n in source.ancestors(node) if isinstance(n, ast.expr) and likes(n)]
        if inside or around:
            return inside[-1] if inside else around[0]
    found = [n for n in source.expressions(statement) if likes(n)] if statement is not None else []
    return found[-1] if found else None


def called(node: ast.AST | None) -> str:
    """Last part of the name that a call calls; empty for what is no call."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def is_call(node: ast.expr) -> bool:
    """Any call, also one of something without a name (`kernel[grid](x)`)."""
    return isinstance(node, ast.Call)


def dotted(node: ast.AST | None) -> str:
    """`torch.cuda.synchronize` of that expression; empty where it is no plain dotted name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def names_in(node: ast.AST) -> frozenset[str]:
    """The names that an expression reads."""
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))


def _whole(source: SourceText, node: ast.expr | None) -> ast.expr | None:
    """Positions of a method call may point at the attribute alone (Python 3.11): then the call around it is meant."""
    parent = source.parents.get(node) if node is not None else None
    if isinstance(node, ast.Attribute) and isinstance(parent, ast.Call) and parent.func is node:
        return parent
    return node


def _statement_of(source: SourceText, node: ast.AST) -> ast.stmt | None:
    found = source.enclosing(node, ast.stmt)
    return found if isinstance(found, ast.stmt) else None
