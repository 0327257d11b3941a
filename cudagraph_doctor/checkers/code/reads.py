"""Which expressions read values back from the device to the host."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import Expression, called, find_expression

if TYPE_CHECKING:
    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import Session

READ_METHODS = frozenset({"item", "tolist", "cpu", "numpy", "__array__"})
"""Methods of a tensor that bring its values to the host."""

_TO_DEVICE = frozenset({"tensor", "as_tensor", "from_numpy", "asarray", "cuda", "copy_", "full_like", "new_tensor"})


def is_read(node: ast.expr) -> bool:
    """`x.item()`, `x.cpu()`, `x.to("cpu")`, `int(x)`, `print(x)`, an f-string."""
    if isinstance(node, ast.JoinedStr):
        return True
    name = called(node)
    if name in READ_METHODS or name in {"print", "bool", "int", "float", "repr", "str", "format"}:
        return True
    return name == "to" and isinstance(node, ast.Call) and _mentions_cpu(node)


def is_upload(node: ast.expr) -> bool:
    """`torch.tensor(1, device="cuda")`, `x.cuda()`, `h[[0, 2]]`, `x.copy_(y)`."""
    if isinstance(node, ast.Subscript):
        return any(isinstance(n, (ast.List, ast.Call)) for n in ast.walk(node.slice))
    return called(node) in _TO_DEVICE or (called(node) == "to" and not is_read(node))


def reads_back(session: Session, location: Location | None) -> bool:
    """Whether the code at a location reads from the device; False where it copies to it, or where nothing is known."""
    found = find_expression(session, location)
    if found.node is None and found.statement is not None:
        nodes = [n for n in found.source.expressions(found.statement) if is_read(n) or is_upload(n)]
        return bool(nodes) and all(is_read(n) for n in nodes)
    if found.node is None:
        return False
    if is_upload(found.node):
        return False
    return is_read(found.node) or any(
        isinstance(n, ast.expr) and called(n) in READ_METHODS for n in ast.walk(found.node)
    )


def device_side(found: Expression, node: ast.expr) -> str:
    """An expression without its reads: `h.max() > 1` of `h.max().item() > 1`, `y.any()` of `bool(y.any())`."""
    inner = receiver_of_read(node)
    if inner is not None:
        return device_side(found, inner)
    text, start = found.full(node), node.col_offset
    if node.end_lineno != node.lineno:
        return text
    data = text.encode()
    for read in reversed(_outer_reads(node)):
        inner = receiver_of_read(read)
        assert inner is not None
        kept = device_side(found, inner).encode()
        data = data[: read.col_offset - start] + kept + data[(read.end_col_offset or 0) - start :]
    return data.decode("utf-8", "replace")


def receiver_of_read(node: ast.expr) -> ast.expr | None:
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
        if isinstance(current, ast.expr) and receiver_of_read(current) is not None:
            found.append(current)
        else:
            queue.extend(ast.iter_child_nodes(current))
    return sorted(found, key=lambda n: n.col_offset)


def _mentions_cpu(node: ast.Call) -> bool:
    arguments = [*node.args, *(k.value for k in node.keywords)]
    return any("cpu" in ast.unparse(a) for a in arguments)
