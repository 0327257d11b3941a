"""Changed code for CGD101: the value stays on the GPU, or the line is skipped while capturing.

Each way is tried in turn; what would not parse, or would change results, is not offered: then the finding's words say
what to do.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.capture_status.host_sync_branch import (
    bookkeeping_behind_replay,
    condition,
    select_statement,
)
from cudagraph_doctor.checkers.capture_status.host_sync_shapes import static_shape
from cudagraph_doctor.checkers.code.bookkeeping import collects, is_remark, result_is_read
from cudagraph_doctor.checkers.code.edit import guarded, replace_nodes
from cudagraph_doctor.checkers.code.expression import Expression, called, names_in
from cudagraph_doctor.checkers.code.reads import READ_METHODS, device_side

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.findings import Fix, Location

NOT_CAPTURING = "not torch.cuda.is_current_stream_capturing()"


def fix_for(found: Expression, location: Location, cause: Cause, graph: str, *, validates: bool = False) -> Fix | None:
    """The first way that fits; None where the text was not recorded, or cannot be changed safely."""
    statement = found.statement
    if statement is None:
        return None
    if validates and found.call is not None:
        return _without_checks(found, location, found.call)
    if any(isinstance(above, ast.Lambda) for above in _up(found)):
        return (
            static_shape(found, location, cause)
            or _select_on_device(found, location)
            or _skip_in_lambda(found, location)
        )
    return (
        static_shape(found, location, cause)
        or _select_on_device(found, location)
        or select_statement(found, location)
        or bookkeeping_behind_replay(found, location, graph)
        or _keep_on_device(found, location, graph)
        or _skip_while_capturing(found, location)
    )


def _select_on_device(found: Expression, location: Location) -> Fix | None:
    """`a if t.item() > 0 else b` becomes `torch.where(t > 0, a, b)`."""
    node, statement = found.node, found.statement
    choice = next((a for a in _up(found) if isinstance(a, ast.IfExp)), None)
    if choice is None or node is None or statement is None or not _inside(found, choice.test):
        return None
    test = condition(found, choice.test)
    if test is None:
        return None
    new = f"torch.where({test}, {found.full(choice.body)}, {found.full(choice.orelse)})"
    return replace_nodes(found.source, location, statement, {choice: new})


def _without_checks(found: Expression, location: Location, call: ast.Call) -> Fix | None:
    """`Categorical(logits=x)` becomes `Categorical(logits=x, validate_args=False)`."""
    assert found.statement is not None
    named = [f"{k.arg}={found.full(k.value)}" for k in call.keywords if k.arg and k.arg != "validate_args"]
    arguments = ", ".join([*(found.full(a) for a in call.args), *named, "validate_args=False"])
    return replace_nodes(found.source, location, found.statement, {call: f"{found.full(call.func)}({arguments})"})


def _skip_in_lambda(found: Expression, location: Location) -> Fix | None:
    """The body of a lambda is skipped while capturing; a guard around the statement would run when it is made."""
    body = next((a.body for a in _up(found) if isinstance(a, ast.Lambda)), None)
    if body is None or found.statement is None or collects(ast.Expr(body)):
        return None
    new = f"{found.full(body)} if {NOT_CAPTURING} else None"
    return replace_nodes(found.source, location, found.statement, {body: new})


def _keep_on_device(found: Expression, location: Location, graph: str) -> Fix | None:
    """`scale = h.max().item()` becomes `scale = h.max()`, where the name is only calculated with afterwards."""
    node, statement = found.node, found.statement
    if not isinstance(statement, (ast.Assign, ast.Return, ast.AugAssign, ast.AnnAssign)) or node is None:
        return None
    value = statement.value
    if value is None or called(node) not in READ_METHODS | {"int", "float"} or not _inside(found, value):
        return None
    targets = frozenset(n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    if called(node) in {"item", "int", "float"} and _decides_on_host(found, targets, node):
        return None
    read = called(node)
    comment = (
        f"stays on the GPU; read it behind {graph}.replay() with .{read}()"
        if read in READ_METHODS
        else "stays on the GPU"
    )
    outer = _outermost_read(found, node)
    return replace_nodes(found.source, location, statement, {outer: device_side(found, outer)}, comment)


def _skip_while_capturing(found: Expression, location: Location) -> Fix | None:
    """The statement under a guard: right for logging, timing and checks, which nothing behind it needs."""
    statement = found.statement
    if isinstance(statement, (ast.If, ast.While)):
        if statement.orelse or not all(is_remark(part) for part in statement.body):
            return None
        if isinstance(statement, ast.If) and len(statement.body) <= _WORTH_MOVING:
            return guarded(found.source, location, statement, NOT_CAPTURING)
        test = f"{NOT_CAPTURING} and {_bracketed(found, statement.test)}"
        return replace_nodes(found.source, location, statement, {statement.test: test})
    if isinstance(statement, (ast.Assign, ast.AnnAssign)) and isinstance(found.node, ast.JoinedStr):
        if result_is_read(found.source, statement):
            return None
        return guarded(found.source, location, statement, NOT_CAPTURING)
    keeps_value = statement is not None and collects(statement) and not isinstance(found.node, ast.JoinedStr)
    if not isinstance(statement, (ast.Expr, ast.Assert)) or keeps_value:
        return None  # what a jump, a loop or a value decides is needed
    return guarded(found.source, location, statement, NOT_CAPTURING) or _inline_guard(found, location)


_WORTH_MOVING = 6
"""Statements of a branch that are worth another indentation."""


def _inline_guard(found: Expression, location: Location) -> Fix | None:
    """A statement that shares its line with others: its expression is made conditional."""
    statement = found.statement
    if isinstance(statement, ast.Expr):
        new = f"{found.full(statement.value)} if {NOT_CAPTURING} else None"
        return replace_nodes(found.source, location, statement, {statement.value: new})
    return None


def _bracketed(found: Expression, node: ast.expr) -> str:
    text = found.full(node)
    return f"({text})" if isinstance(node, (ast.BoolOp, ast.IfExp, ast.Lambda, ast.NamedExpr)) else text


def _up(found: Expression) -> list[ast.AST]:
    """The nodes around the expression, up to its statement."""
    above: list[ast.AST] = []
    for node in found.source.ancestors(found.node) if found.node is not None else ():
        if isinstance(node, ast.stmt):
            break
        above.append(node)
    return above


def _inside(found: Expression, whole: ast.expr) -> bool:
    return found.node is whole or (found.node is not None and any(n is found.node for n in ast.walk(whole)))


def _outermost_read(found: Expression, node: ast.expr) -> ast.expr:
    """`m(x).detach().cpu().numpy()` where the position names `m(x).detach().cpu()` only."""
    outer = node
    for above in _up(found):
        if isinstance(above, ast.Call) and called(above) in READ_METHODS:
            outer = above
        elif not isinstance(above, ast.Attribute):
            break
    return outer


def _decides_on_host(found: Expression, targets: frozenset[str], node: ast.expr) -> bool:
    """Whether a value feeds something that only Python can do with a number: a jump, a range, a shape, an index."""
    for above in _up(found):
        if isinstance(above, (ast.Slice, ast.Subscript)) and getattr(above, "value", None) is not node:
            return True
        if isinstance(above, ast.Call) and called(above) in _NEEDS_NUMBERS:
            return True
    scope = found.source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)
    for other in ast.walk(scope) if scope is not None and targets else ():
        if isinstance(other, (ast.If, ast.While, ast.IfExp, ast.Assert)) and names_in(other.test) & targets:
            return True
        if isinstance(other, ast.Call) and called(other) in _NEEDS_NUMBERS and names_in(other) & targets:
            return True
        if isinstance(other, ast.Slice) and names_in(other) & targets:
            return True
    return False


_NEEDS_NUMBERS = frozenset(
    {"range", "arange", "zeros", "ones", "empty", "full", "view", "reshape", "expand", "narrow", "linspace", "split"}
)
