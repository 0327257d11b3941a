"""Changed code for CGD101: the value stays on the GPU, or the line is skipped while capturing.

Each way is tried in turn; what would not parse is not offered. The last one, a guard around the statement, always is.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.capture_status.host_sync_shapes import static_shape
from cudagraph_doctor.checkers.code.edit import guarded, replace_lines, replace_nodes, replace_statement
from cudagraph_doctor.checkers.code.expression import Expression, called, names_in
from cudagraph_doctor.checkers.code.reads import READ_METHODS

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.findings import Fix, Location

NOT_CAPTURING = "not torch.cuda.is_current_stream_capturing()"


def fix_for(found: Expression, location: Location, cause: Cause, graph: str, *, validates: bool = False) -> Fix | None:
    """The first way that fits; None only where the text of the line was not recorded, or cannot be changed safely."""
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
        or _select_statement(found, location)
        or _flag_on_device(found, location, graph)
        or _keep_on_device(found, location, graph)
        or _made_before(found, location)
        or _skip_while_capturing(found, location)
    )


def device_side(found: Expression, node: ast.expr) -> str:
    """An expression without its reads: `h.max() > 1` of `h.max().item() > 1`, `y.any()` of `bool(y.any())`."""
    inner = _receiver_of_read(node)
    if inner is not None:
        return device_side(found, inner)
    text, start = found.full(node), node.col_offset
    if node.end_lineno != node.lineno:
        return text
    data = text.encode()
    for read in reversed(_outer_reads(node)):
        inner = _receiver_of_read(read)
        assert inner is not None
        kept = device_side(found, inner).encode()
        data = data[: read.col_offset - start] + kept + data[(read.end_col_offset or 0) - start :]
    return data.decode("utf-8", "replace")


def _receiver_of_read(node: ast.expr) -> ast.expr | None:
    """What a read reads: `x` of `x.item()`, `bool(x)` and `int(x)`; None for anything else."""
    if not isinstance(node, ast.Call):
        return None
    if called(node) in READ_METHODS and isinstance(node.func, ast.Attribute):
        return node.func.value
    if called(node) in {"bool", "int", "float"} and isinstance(node.func, ast.Name) and len(node.args) == 1:
        return node.args[0]
    return None


def _outer_reads(node: ast.expr) -> list[ast.expr]:
    """The reads inside an expression, from left to right, none inside another."""
    found: list[ast.expr] = []
    queue: list[ast.AST] = [node]
    while queue:
        current = queue.pop(0)
        if isinstance(current, ast.expr) and _receiver_of_read(current) is not None:
            found.append(current)
        else:
            queue.extend(ast.iter_child_nodes(current))
    return sorted(found, key=lambda n: n.col_offset)


def _select_on_device(found: Expression, location: Location) -> Fix | None:
    """`a if t.item() > 0 else b` becomes `torch.where(t > 0, a, b)`."""
    node, statement = found.node, found.statement
    choice = next((a for a in _up(found) if isinstance(a, ast.IfExp)), None)
    if choice is None or node is None or statement is None or not _inside(found, choice.test):
        return None
    new = f"torch.where({device_side(found, choice.test)}, {found.full(choice.body)}, {found.full(choice.orelse)})"
    return replace_nodes(found.source, location, statement, {choice: new})


def _select_statement(found: Expression, location: Location) -> Fix | None:
    """`if t > 0: return a` before `return b`, or with an `else`, becomes `return torch.where(t > 0, a, b)`."""
    statement = found.statement
    if not isinstance(statement, ast.If) or len(statement.body) != 1 or not _inside(found, statement.test):
        return None
    block = found.source.block_of(statement)
    after = block[block.index(statement) + 1 :] if not statement.orelse else statement.orelse
    one, other = statement.body[0], after[0] if after else None
    if other is None or (statement.orelse and len(statement.orelse) != 1):
        return None
    pair = _same_target(found, one, other)
    if pair is None or (not statement.orelse and not isinstance(one, ast.Return)):
        return None
    target, first, second = pair
    new = f"{target}torch.where({device_side(found, statement.test)}, {found.full(first)}, {found.full(second)})"
    end = other.end_lineno or other.lineno
    indent = found.source.lines[statement.lineno - 1][: statement.col_offset]
    return replace_lines(found.source, location, statement.lineno, end, [indent + new])


def _same_target(found: Expression, one: ast.stmt, other: ast.stmt) -> tuple[str, ast.expr, ast.expr] | None:
    """`return ` or `y = `, and the two values, if both statements give a value to the same thing."""
    if (
        isinstance(one, ast.Return)
        and isinstance(other, ast.Return)
        and one.value is not None
        and other.value is not None
    ):
        return "return ", one.value, other.value
    if isinstance(one, ast.Assign) and isinstance(other, ast.Assign) and len(one.targets) == 1 == len(other.targets):
        names = found.full(one.targets[0]), found.full(other.targets[0])
        return (f"{names[0]} = ", one.value, other.value) if names[0] == names[1] else None
    return None


def _without_checks(found: Expression, location: Location, call: ast.Call) -> Fix | None:
    """`Categorical(logits=x)` becomes `Categorical(logits=x, validate_args=False)`."""
    assert found.statement is not None
    named = [f"{k.arg}={found.full(k.value)}" for k in call.keywords if k.arg and k.arg != "validate_args"]
    arguments = ", ".join([*(found.full(a) for a in call.args), *named, "validate_args=False"])
    return replace_nodes(found.source, location, found.statement, {call: f"{found.full(call.func)}({arguments})"})


def _skip_in_lambda(found: Expression, location: Location) -> Fix | None:
    """The body of a lambda is skipped while capturing; a guard around the statement would run when it is made."""
    body = next((a.body for a in _up(found) if isinstance(a, ast.Lambda)), None)
    if body is None or found.statement is None:
        return None
    new = f"{found.full(body)} if {NOT_CAPTURING} else None"
    return replace_nodes(found.source, location, found.statement, {body: new})


def _flag_on_device(found: Expression, location: Location, graph: str) -> Fix | None:
    """`if nxt.item() == EOS:` becomes a tensor that is looked at behind the replay."""
    statement = found.statement
    if not isinstance(statement, ast.If) or statement.orelse or not _inside(found, statement.test):
        return None
    body = "; ".join(" ".join(found.full(part).split()) for part in statement.body)
    flag = f"{_base_name(found.node, 'stop')}_flag"
    if len(body) > 60 or any(isinstance(part, (ast.Return, ast.Break, ast.Continue)) for part in statement.body):
        return None
    new = [
        f"{flag} = {device_side(found, statement.test)}  # stays on the GPU; keep a reference to it",
        f"# behind {graph}.replay():  if {flag}.item(): {body}",
    ]
    return replace_statement(found.source, location, statement, "\n".join(new))


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


def _made_before(found: Expression, location: Location) -> Fix | None:
    """`y = torch.arange(int(n))` uses a value that is computed before the capture: right where it never changes."""
    node, statement = found.node, found.statement
    if node is None or not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.For)):
        return None
    value = statement.iter if isinstance(statement, ast.For) else statement.value
    if value is None or not _inside(found, value) or isinstance(node, ast.JoinedStr):
        return None
    outer = _outermost_read(found, node)
    name = f"{_base_name(outer, 'static')}_value"
    comment = f"computed before the capture, if it never changes: {name} = {found.full(outer)}"
    return replace_nodes(found.source, location, statement, {outer: name}, comment)


def _skip_while_capturing(found: Expression, location: Location) -> Fix | None:
    """The statement under a guard: right for logging, timing and checks."""
    statement = found.statement
    if statement is None:
        return None
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return None
    if isinstance(statement, ast.While):
        test = f"{NOT_CAPTURING} and {_bracketed(found, statement.test)}"
        return replace_nodes(found.source, location, statement, {statement.test: test})
    if isinstance(statement, ast.If) and (statement.orelse or not _worth_moving(statement)):
        test = f"{NOT_CAPTURING} and {_bracketed(found, statement.test)}"
        return replace_nodes(found.source, location, statement, {statement.test: test})
    return guarded(found.source, location, statement, NOT_CAPTURING) or _inline_guard(found, location)


def _inline_guard(found: Expression, location: Location) -> Fix | None:
    """A statement that shares its line with others: its expression is made conditional."""
    statement = found.statement
    if isinstance(statement, ast.Expr):
        new = f"{found.full(statement.value)} if {NOT_CAPTURING} else None"
        return replace_nodes(found.source, location, statement, {statement.value: new})
    return None


def _worth_moving(statement: ast.If) -> bool:
    return len(statement.body) <= 6


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


def _base_name(node: ast.expr | None, otherwise: str) -> str:
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
