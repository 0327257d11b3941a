"""Changed code for CGD102: the tensor is made before the capture, or the copy does not block."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.edit import comment_lines, free_name, indent_of, replace_lines, replace_nodes
from cudagraph_doctor.checkers.code.expression import Expression, called, dotted, names_in

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.code.text import SourceText
    from cudagraph_doctor.findings import Fix, Location
    from cudagraph_doctor.session.model import CaptureState, Session
    from cudagraph_doctor.trace import events

_MAKERS = frozenset({"tensor", "as_tensor", "new_tensor", "from_numpy", "asarray"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def fix_for(
    session: Session, capture: CaptureState, found: Expression, location: Location, host: events.Tensor | None
) -> Fix | None:
    """The first way that fits and parses."""
    node, statement, pinned = found.node, found.statement, host is not None and host.pinned
    if node is None or statement is None:
        return None
    if isinstance(node, ast.Call) and called(node) in {"copy_", "to", "cuda"} and (pinned or called(node) == "copy_"):
        return _non_blocking(session, capture, found, location, node, pinned=pinned)
    if isinstance(node, ast.Subscript):
        index = index_of(node)
        if index is None:
            return _assigned_value(found, location, node)
        return _hoist_index(session, capture, found, location, index, node)
    constant = _scalar_constant(found, node)
    if constant is not None:
        return replace_nodes(found.source, location, statement, constant)
    operand = host_operand(found, host)
    if operand is not None:
        name = free_name(found.source, f"{operand.id}_cuda" if isinstance(operand, ast.Name) else "operand_cuda")
        made = f"{name} = {found.full(operand)}.cuda()"
        return _before_region(session, capture, found, location, {operand: name}, made, names_in(operand))
    if called(node) in _MAKERS | {"to", "cuda"}:
        return _hoist(session, capture, found, location, node)
    return None


def host_operand(found: Expression, host: events.Tensor | None) -> ast.expr | None:
    """The operand of a call or sum that is the host tensor which the operator was given; None where it is not plain."""
    node = found.node
    if host is None or not host.at.isdigit() or called(node) in _MAKERS | {"copy_", "to", "cuda"}:
        return None
    operands: list[ast.expr] = []
    if isinstance(node, ast.BinOp):
        operands = [node.left, node.right]
    elif isinstance(node, ast.Call):
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        is_method = owner is not None and dotted(owner).partition(".")[0] not in {"torch", "F", ""}
        operands = [owner, *node.args] if is_method and owner is not None else list(node.args)
    index = int(host.at)
    chosen = operands[index] if index < len(operands) else None
    return chosen if isinstance(chosen, (ast.Name, ast.Attribute)) else None


def source_operand(found: Expression) -> str:
    """What a `copy_` copies from."""
    call = found.call
    if call is not None and called(call) == "copy_" and call.args:
        return found.show(call.args[0])
    return found.show(found.receiver) if call is not None and called(call) in {"to", "cuda"} else ""


def index_of(node: ast.Subscript) -> ast.expr | None:
    """The part of an index that becomes a CPU tensor: a list, or a call that makes a tensor."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return next((part for part in parts if isinstance(part, ast.List) or called(part) in _MAKERS), None) or next(
        (part for part in parts if isinstance(part, (ast.Name, ast.Attribute)) and not isinstance(node.ctx, ast.Store)),
        None,
    )


def _non_blocking(
    session: Session, capture: CaptureState, found: Expression, location: Location, node: ast.Call, *, pinned: bool
) -> Fix | None:
    """`x.copy_(staging)` becomes `x.copy_(staging, non_blocking=True)`, from a pinned buffer made before."""
    assert found.statement is not None
    arguments = [found.full(a) for a in node.args]
    origin = node.args[0] if node.args else None
    buffer = ""
    if not pinned and origin is not None:
        named_after = origin.id if isinstance(origin, ast.Name) else "staging"
        arguments[0] = buffer = free_name(found.source, f"{named_after}_pinned")
    named = [f"{k.arg}={found.full(k.value)}" for k in node.keywords if k.arg and k.arg != "non_blocking"]
    new = f"{found.full(node.func)}({', '.join([*arguments, *named, 'non_blocking=True'])})"
    if not buffer or origin is None:
        return replace_nodes(found.source, location, found.statement, {node: new})
    made = f"{buffer} = {found.full(origin)}.pin_memory()"
    return _before_region(session, capture, found, location, {node: new}, made, names_in(origin))


def _scalar_constant(found: Expression, node: ast.expr) -> dict[ast.expr, str] | None:
    """`torch.where(c, x, torch.tensor(0.0))` becomes `torch.where(c, x, 0.0)`: operators take Python numbers."""
    inner = next(
        (n for n in ast.walk(node) if isinstance(n, ast.Call) and called(n) in _MAKERS and len(n.args) == 1), None
    )
    if (
        inner is None
        or not isinstance(inner.args[0], ast.Constant)
        or not isinstance(inner.args[0].value, (int, float))
    ):
        return None
    parent = found.source.parents.get(inner)
    if not isinstance(parent, (ast.Call, ast.BinOp)) or (isinstance(parent, ast.Call) and called(parent) in _MAKERS):
        return None
    return {inner: found.full(inner.args[0])}


def _assigned_value(found: Expression, location: Location, node: ast.Subscript) -> Fix | None:
    """`z[:, idx] = 1.0` becomes an assignment of a tensor that is filled on the GPU."""
    statement = found.statement
    value = getattr(statement, "value", None)
    if not isinstance(statement, ast.Assign) or not isinstance(value, ast.Constant):
        return None
    base = found.full(node.value)
    new = f"torch.full((), {found.full(value)}, dtype={base}.dtype, device={base}.device)"
    return replace_nodes(found.source, location, statement, {value: new})


def _hoist_index(
    session: Session, capture: CaptureState, found: Expression, location: Location, index: ast.expr, node: ast.Subscript
) -> Fix | None:
    """`hidden[0][[0, 2, 3]]`: the list becomes a tensor that is made before the capture."""
    base = _root(node.value)
    device = f"{base}.device" if base else '"cuda"'
    if isinstance(index, ast.List):
        made = f"torch.tensor({found.full(index)}, device={device})"
    elif isinstance(index, ast.Call):
        made = f"{found.full(index)}.to({device})"
    else:
        made = f"torch.as_tensor({found.full(index)}, device={device})"
    name = (
        f"{index.id}_cuda"
        if isinstance(index, ast.Name)
        else free_name(found.source, f"{_target_name(found) or base or 'rows'}_index")
    )
    return _before_region(
        session, capture, found, location, {index: name}, f"{name} = {made}", names_in(index) | names_in(node.value)
    )


def _hoist(
    session: Session, capture: CaptureState, found: Expression, location: Location, node: ast.expr
) -> Fix | None:
    """`pos = torch.tensor([step], device="cuda")`: made before the capture, the line in the region goes."""
    statement, name = found.statement, _target_name(found)
    assert statement is not None
    made = f"{name or 'static_value'} = {found.full(node)}"
    if name and isinstance(statement, ast.Assign) and statement.value is node:
        return _before_region(session, capture, found, location, None, made, names_in(node))
    buffer = free_name(found.source, "static_value")
    return _before_region(
        session, capture, found, location, {node: buffer}, f"{buffer} = {found.full(node)}", names_in(node)
    )


def _before_region(
    session: Session,
    capture: CaptureState,
    found: Expression,
    location: Location,
    changes: dict[ast.expr, str] | None,
    made: str,
    reads: frozenset[str],
) -> Fix | None:
    """The making of a tensor moved before the capture.

    Above the function that is captured or above the `with` block, if every name is known there; None otherwise: the
    finding's words say what to make, only the user knows where.
    """
    source, statement = found.source, found.statement
    assert statement is not None
    anchor = _anchor(session, capture, found, location, reads)
    if anchor is None:
        return None
    target = made.partition(" = ")[0]
    constant = reads <= {"torch"} | {name for name in reads if f"{name}.device" in made}
    when = "" if constant else f"; before each replay: {target}.copy_(new_values)"
    indent = indent_of(source, anchor)
    first = [*comment_lines(f"made once, before the capture{when}", indent), f"{indent}{made}"]
    kept = _changed_lines(found, changes)
    body = [*source.lines[anchor.lineno - 1 : statement.lineno - 1], *kept]
    end = statement.end_lineno or statement.lineno
    return replace_lines(source, location, anchor.lineno, end, [*first, *body])


def _changed_lines(found: Expression, changes: dict[ast.expr, str] | None) -> list[str]:
    """The statement's lines as they are afterwards; none where it moved away."""
    statement = found.statement
    assert statement is not None
    if changes is None:
        block = found.source.block_of(statement)
        return [f"{indent_of(found.source, statement)}pass"] if block == [statement] else []
    lines = list(found.source.lines[statement.lineno - 1 : statement.end_lineno or statement.lineno])
    for node, new in changes.items():
        row = node.lineno - statement.lineno
        if node.end_lineno != node.lineno:
            return lines
        data = lines[row].encode()
        lines[row] = (data[: node.col_offset] + new.encode() + data[node.end_col_offset or 0 :]).decode(
            "utf-8", "replace"
        )
    return lines


def _anchor(
    session: Session, capture: CaptureState, found: Expression, location: Location, reads: frozenset[str]
) -> ast.stmt | None:
    """The statement before which the tensor can be made: names it reads must be known there."""
    source, statement = found.source, found.statement
    assert statement is not None
    begin = session.location(capture.begin.stack)
    function = source.enclosing(statement, *_FUNCTIONS, ast.Lambda)
    block = next(
        (a for a in source.ancestors(statement) if isinstance(a, ast.With) and _begins_at(a, begin, location)), None
    )
    if block is not None and not _stored_in(block) & reads:
        return block
    if not isinstance(function, _FUNCTIONS) or isinstance(source.parents.get(function), ast.ClassDef):
        return None
    own = _stored_in(function) | {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    outer = source.enclosing(function, *_FUNCTIONS, ast.ClassDef)
    known = own & reads
    return (
        function
        if not known and outer is None and not function.decorator_list and _defined_before(source, function, reads)
        else None
    )


def _defined_before(source: SourceText, function: ast.stmt, reads: frozenset[str]) -> bool:
    """Whether every name that a value reads has its value above the function."""
    tree = source.tree
    if tree is None:
        return False
    above = {
        n.id
        for s in tree.body
        if s.lineno < function.lineno
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    above |= {
        alias.asname or alias.name.partition(".")[0]
        for s in tree.body
        if isinstance(s, (ast.Import, ast.ImportFrom))
        for alias in s.names
    }
    return reads <= above | set(dir(builtins))


def _begins_at(block: ast.With, begin: Location | None, location: Location) -> bool:
    if begin is None or begin.file != location.file:
        return False
    return block.lineno <= begin.line <= block.body[0].lineno - 1 or block.lineno == begin.line


def _stored_in(node: ast.AST) -> frozenset[str]:
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def _target_name(found: Expression) -> str:
    statement = found.statement
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return ""


def _root(node: ast.expr) -> str:
    """`hidden` of `hidden[0]`, `x` of `x.view(-1)`, `self.cache` of that."""
    while isinstance(node, (ast.Subscript, ast.Call)):
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return ""
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
