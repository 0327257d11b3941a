"""What a test on the host decided while the region was captured: which work is in the graph, which is not."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.bookkeeping import SCOPES, is_remark
from cudagraph_doctor.checkers.code.expression import called, dotted
from cudagraph_doctor.checkers.frozen_values.calls import TELLS
from cudagraph_doctor.checkers.frozen_values.uses import Role, Use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.checkers.frozen_values.window_work import Launched, WindowWork

Path = tuple[tuple[int, ast.AST], ...]

_HOST_CALLS = frozenset(
    {
        *("append", "extend", "add", "put", "update", "setdefault", "pop", "clear", "insert", "remove", "discard"),
        *("time", "perf_counter", "monotonic", "collect", "info_once", "warning_once"),
    }
)
"""Calls that keep the host's books."""


def test(
    work: WindowWork, source: int, statement: ast.If | ast.While | ast.Assert, value: ast.expr, path: Path
) -> Iterator[Use]:
    """An `if`, `while` or `assert` on the value."""
    if isinstance(statement, ast.Assert):
        return
    launched = work.within(source, statement.body) + work.within(source, statement.orelse)
    if isinstance(statement, ast.While):
        if launched:
            yield _use(Role.EXTENT, source, statement, value, launched, path)
        return
    rest = _rest(work, source, statement)
    decides = bool(launched) or may_launch(statement.body) or may_launch(statement.orelse) or bool(rest)
    yield _use(Role.BRANCH if decides else Role.GUARD, source, statement, value, launched or rest, path)


def choice(work: WindowWork, source: int, node: ast.IfExp, value: ast.expr, path: Path) -> Iterator[Use]:
    """`a if value else b`: it decides where one of the two launches, or where the chosen value is an operand."""
    launched = [one for part in ast.walk(node) if isinstance(part, ast.expr) for one in work.at(source, part)]
    around = work.source(source).enclosing(node, ast.stmt)
    used = work.at(source, around) if around is not None else []
    if not launched and not used and isinstance(around, ast.stmt):
        used = [one for part in work.source(source).expressions(around) for one in work.at(source, part)]
    tells = any(isinstance(above, ast.Call) and called(above) in TELLS for above in work.source(source).ancestors(node))
    decides = bool(launched or used or not (_is_plain(node.body) and _is_plain(node.orelse))) and not tells
    yield Use(
        role=Role.BRANCH if decides else Role.GUARD,
        source=source,
        node=node,
        value=value,
        work=tuple(dict.fromkeys(one.activity for one in launched or used)),
        path=path,
        statement=around if isinstance(around, ast.stmt) else None,
    )


def match(work: WindowWork, source: int, statement: ast.Match, value: ast.expr, path: Path) -> Iterator[Use]:
    """A `match` on the value."""
    launched = [one for case in statement.cases for one in work.within(source, case.body)]
    decides = bool(launched) or any(may_launch(case.body) for case in statement.cases)
    yield _use(Role.BRANCH if decides else Role.GUARD, source, statement, value, launched, path)


def feeds(work: WindowWork, use: Use) -> bool:
    """Whether launched work, or the caller, gets what one of the branches gives a value, changes or returns."""
    statement = use.statement
    if isinstance(use.node, ast.IfExp):
        if isinstance(statement, ast.Return):
            return not (_is_plain(use.node.body) and _is_plain(use.node.orelse))
        names = set(_changed(statement)) if isinstance(statement, (ast.Assign, ast.AnnAssign)) else set()
    elif isinstance(statement, ast.If) and use.node is statement:
        branches = (*statement.body, *statement.orelse)
        if any(_returns_work(part) for part in branches):
            return True
        names = {name for part in branches for name in _changed(part)}
    else:
        return False
    return bool(names) and statement is not None and _used_behind(work, use.source, statement, names)


def _returns_work(part: ast.stmt) -> bool:
    """A `return` of something that is calculated."""
    return isinstance(part, ast.Return) and part.value is not None and not _is_plain(part.value)


def _used_behind(work: WindowWork, number: int, statement: ast.stmt, names: set[str]) -> bool:
    """Whether launched work, or a `return`, behind a statement uses one of these names."""
    source = work.source(number)
    scope = source.enclosing(statement, *SCOPES)
    inside = set(ast.walk(statement))
    for node in ast.walk(scope) if scope is not None else ():
        if not isinstance(node, (ast.Name, ast.Attribute)) or node in inside or dotted(node) not in names:
            continue
        if not isinstance(node.ctx, ast.Load):
            continue
        for above in (node, *source.ancestors(node)):
            if isinstance(above, ast.Return) and node.lineno > statement.lineno:
                return True  # it is what the function gives back
            if isinstance(above, _LAUNCHES) and work.at(number, above):
                return True
    return False


_LAUNCHES = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.AugAssign)


def _changed(part: ast.stmt) -> Iterator[str]:
    """Names that a statement binds, or whose methods it calls for their effect."""
    for node in ast.walk(part):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            yield dotted(node)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield dotted(node.value)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            if isinstance(function, ast.Attribute) and function.attr.endswith("_"):
                yield dotted(function.value)


def may_launch(body: list[ast.stmt]) -> bool:
    """Whether statements that did not run could launch something: they do more than tell, check and keep books."""
    return any(_may_launch(part) for part in body)


def _may_launch(part: ast.stmt) -> bool:
    if is_remark(part) or isinstance(part, (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Delete)):
        return False
    if isinstance(part, (ast.If, ast.While, ast.For, ast.With, ast.Try)):
        return may_launch(part.body) or may_launch(getattr(part, "orelse", []))
    if isinstance(part, ast.Expr):
        call = part.value
        return isinstance(call, ast.Call) and called(call) not in TELLS | _HOST_CALLS
    if isinstance(part, ast.AugAssign):
        return not isinstance(part.value, ast.Constant)
    if isinstance(part, (ast.Assign, ast.AnnAssign, ast.Return)):
        return part.value is not None and not _is_plain(part.value)
    return False


def _is_plain(value: ast.expr) -> bool:
    """A value that is made without work: a constant, a name, a container of such, a text, a host call."""
    return not any(
        isinstance(node, ast.BinOp) or (isinstance(node, ast.Call) and called(node) not in TELLS | _HOST_CALLS)
        for node in ast.walk(value)
        if not isinstance(node, ast.JoinedStr)
    )


def _rest(work: WindowWork, source: int, statement: ast.If) -> list[Launched]:
    """What was launched behind a branch that leaves the function or the loop, in the same block."""
    leaves = any(isinstance(part, (ast.Return, ast.Break, ast.Continue)) for part in statement.body)
    if not leaves:
        return []
    block = work.source(source).block_of(statement)
    return work.within(source, block[block.index(statement) + 1 :])


def _use(role: Role, source: int, statement: ast.stmt, value: ast.expr, launched: list[Launched], path: Path) -> Use:
    return Use(
        role=role,
        source=source,
        node=statement,
        value=value,
        work=tuple(dict.fromkeys(one.activity for one in launched)),
        path=path,
        statement=statement,
    )
