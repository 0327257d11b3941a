"""Changed code for a branch on a tensor: a choice on the GPU, or bookkeeping of the host behind the replay.

A branch that the captured region needs later can only become `torch.where`. One that only keeps the host's books moves
behind the replay. Everything else is left to the words of the finding: changed code must not change results.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.bookkeeping import SCOPES, is_bookkeeping, stored_before
from cudagraph_doctor.checkers.code.edit import alone, comment_lines, free_name, indent_of, replace_lines
from cudagraph_doctor.checkers.code.expression import Expression, called, dotted
from cudagraph_doctor.checkers.code.reads import device_side, receiver_of_read

if TYPE_CHECKING:
    from cudagraph_doctor.findings import Fix, Location

_NO_TENSOR = (
    *(ast.List, ast.Dict, ast.Set, ast.Tuple, ast.JoinedStr, ast.Lambda, ast.ListComp, ast.DictComp, ast.SetComp),
    *(ast.GeneratorExp, ast.BoolOp, ast.Starred),
)
"""Values that `torch.where` cannot choose between."""
_EFFECTS = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
"""What must not happen where the value is not chosen."""


def condition(found: Expression, test: ast.expr) -> str | None:
    """A test as a boolean tensor: `x.max() > 3`, `~(x.isnan().any())`; None where only Python can evaluate it."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = condition(found, test.operand)
        return f"~({inner})" if inner is not None else None
    node = found.node if any(part is found.node for part in ast.walk(test)) else test
    while node is not None and node is not test:
        above = found.source.parents.get(node)
        is_read = isinstance(above, ast.expr) and receiver_of_read(above) is not None
        # the receiver of a read stands in an attribute, which the read takes away with it
        is_step = is_read or isinstance(above, (ast.Compare, ast.BinOp, ast.UnaryOp, ast.Attribute))
        if not is_step or not isinstance(above, ast.expr):
            return None
        node = above
    if node is None or isinstance(test, ast.BoolOp):
        return None
    if isinstance(test, ast.Compare):
        plain = len(test.ops) == 1 and isinstance(test.ops[0], (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE))
        return device_side(found, test) if plain else None
    inner_call = test
    while (receiver := receiver_of_read(inner_call)) is not None:
        inner_call = receiver
    text = device_side(found, test)
    return text if called(inner_call) in {"any", "all", "isnan", "isinf", "isfinite"} else f"({text}) != 0"


def select_statement(found: Expression, location: Location) -> Fix | None:
    """An `if` that gives one name one of two values, or returns one of them, becomes `torch.where`."""
    statement = found.statement
    if not isinstance(statement, ast.If) or len(statement.body) != 1 or len(statement.orelse) > 1:
        return None
    test = condition(found, statement.test)
    if test is None:
        return None
    block = found.source.block_of(statement)
    one = statement.body[0]
    end: ast.stmt = statement
    other: ast.stmt | None = statement.orelse[0] if statement.orelse else None
    if isinstance(one, ast.Return) and other is None:
        after = block[block.index(statement) + 1 :]
        if not after:
            return None
        other = end = after[0]
    chosen = _two_values(found, one, other)
    if chosen is None or not alone(found.source, statement) or _shows_elif(found, statement):
        return None
    target, first, second = chosen
    new = f"{indent_of(found.source, statement)}{target}torch.where({test}, {first}, {second})"
    return replace_lines(found.source, location, statement.lineno, end.end_lineno or end.lineno, [new])


def bookkeeping_behind_replay(found: Expression, location: Location, graph: str) -> Fix | None:
    """`if nxt.item() == EOS: finished = True` becomes a flag on the GPU, which is read behind the replay.

    Only where the replay stands in the same scope behind the region, so that the flag is known there.
    """
    statement = found.statement
    if not isinstance(statement, ast.If) or statement.orelse or not alone(found.source, statement):
        return None
    if _shows_elif(found, statement):
        return None
    test = condition(found, statement.test)
    replay = _replay_behind(found, statement, graph)
    region = _region(found, statement, replay) if replay is not None else None
    if test is None or replay is None or not is_bookkeeping(found.source, statement, region):
        return None
    flag = free_name(found.source, f"{base_name(found.node, 'stop')}_flag")
    source, indent = found.source, indent_of(found.source, statement)
    if statement.body[0].lineno == statement.lineno:
        return None
    end, last = statement.end_lineno or statement.lineno, replay.end_lineno or replay.lineno
    outer = indent_of(source, replay)
    inner = indent_of(source, statement.body[0])
    body = [f"{outer}    {line.removeprefix(inner)}" for line in source.lines[statement.body[0].lineno - 1 : end]]
    new = [
        *comment_lines("stays on the GPU; the replay refreshes it", indent),
        f"{indent}{flag} = {test}",
        *source.lines[end:last],
        f"{outer}if {flag}.item():",
        *body,
    ]
    return replace_lines(source, location, statement.lineno, last, new)


def base_name(node: ast.expr | None, otherwise: str) -> str:
    """A name to derive others from: `nxt` of `nxt.item()`; another where nothing better is there."""
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript, ast.Compare, ast.UnaryOp, ast.BinOp)):
        if isinstance(node, ast.Call):
            node = node.func.value if isinstance(node.func, ast.Attribute) else (node.args[0] if node.args else None)
        elif isinstance(node, ast.Compare):
            node = node.left
        elif isinstance(node, ast.UnaryOp):
            node = node.operand
        elif isinstance(node, ast.BinOp):
            node = node.left
        else:
            node = node.value
    return node.id if isinstance(node, ast.Name) and node.id not in {"torch", "self"} else otherwise


def _two_values(found: Expression, one: ast.stmt, other: ast.stmt | None) -> tuple[str, str, str] | None:
    """`return ` or `y = `, and the texts of the two values; without an `else` the second is the name itself."""
    if isinstance(one, ast.Return) and isinstance(other, ast.Return):
        values = one.value, other.value
        if values[0] is None or values[1] is None or not (_may_be_tensor(values[0]) and _may_be_tensor(values[1])):
            return None
        return "return ", found.full(values[0]), found.full(values[1])
    if not isinstance(one, ast.Assign) or len(one.targets) != 1 or not dotted(one.targets[0]):
        return None
    target = dotted(one.targets[0])
    if other is None:
        known = stored_before(found.source, one, target)
        if not known or not _may_be_tensor(one.value) or isinstance(one.value, ast.Constant):
            return None
        return f"{target} = ", found.full(one.value), target
    if not isinstance(other, ast.Assign) or len(other.targets) != 1 or dotted(other.targets[0]) != target:
        return None
    if not (_may_be_tensor(one.value) and _may_be_tensor(other.value)):
        return None
    return f"{target} = ", found.full(one.value), found.full(other.value)


def _may_be_tensor(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return isinstance(value.value, (int, float)) and not isinstance(value.value, bool)
    return not isinstance(value, _NO_TENSOR) and not any(isinstance(node, _EFFECTS) for node in ast.walk(value))


def _shows_elif(found: Expression, statement: ast.If) -> bool:
    """Written as `elif`, or followed by one: the statement is no statement of its own."""
    if found.source.lines[statement.lineno - 1].lstrip().startswith("elif"):
        return True
    return len(statement.orelse) == 1 and isinstance(statement.orelse[0], ast.If)


def _replay_behind(found: Expression, statement: ast.stmt, graph: str) -> ast.Expr | None:
    """The first `g.replay()` behind a statement and in its scope, which stands in no block that holds the statement."""
    scope = found.source.enclosing(statement, *SCOPES)
    if scope is None:
        return None
    calls = [
        node
        for node in ast.walk(scope)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and dotted(node.value.func) == f"{graph}.replay"
        and node.lineno > (statement.end_lineno or statement.lineno)
        and found.source.enclosing(node, *SCOPES) is scope
        and alone(found.source, node)
    ]
    return min(calls, key=lambda node: node.lineno, default=None)


def _region(found: Expression, statement: ast.stmt, replay: ast.stmt) -> ast.AST | None:
    """The outermost `with` around a statement that ends before the replay: what it holds is captured."""
    around = [
        node
        for node in found.source.ancestors(statement)
        if isinstance(node, (ast.With, ast.AsyncWith)) and (node.end_lineno or node.lineno) < replay.lineno
    ]
    return around[-1] if around else None
