"""Which tensors a statement reads and writes, by the names the user gave them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called, dotted

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.code.text import SourceText

_MODULES = frozenset({"torch", "F", "nn", "tl", "triton", "np", "numpy", "cupy", "cp", "driver", "runtime", "math"})
_FILLS = frozenset({"copy_", "fill_", "zero_", "scatter_", "index_copy_", "index_put_", "masked_fill_", "set_"})


def owner(node: ast.AST | None) -> str:
    """The name that an expression's memory hangs on: `heads` of `heads[i].view(-1)`, `self.buf` of `self.buf[0]`."""
    while node is not None:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            break
    return dotted(node)


def written_by(source: SourceText, statement: ast.stmt) -> frozenset[str]:
    """The names whose memory a statement writes in place: `out=`, methods that end in `_`, items assigned to."""
    found: set[str] = set()
    for node in source.expressions(statement):
        if isinstance(node, ast.Call):
            found |= {owner(k.value) for k in node.keywords if k.arg == "out"}
            name = called(node)
            if isinstance(node.func, ast.Attribute) and name.endswith("_") and not name.endswith("__"):
                found.add(owner(node.func.value))
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    found |= {owner(t) for t in targets if isinstance(t, ast.Subscript)}
    if isinstance(statement, ast.AugAssign):
        found.add(owner(statement.target))
    return frozenset(found - {""})


def read_by(source: SourceText, statement: ast.stmt) -> frozenset[str]:
    """The names that a statement reads; what it only writes (`out=y`, `y.copy_(x)`, `y = …`) is left out."""
    written: set[ast.AST] = set()
    for node in source.expressions(statement):
        if not isinstance(node, ast.Call):
            continue
        written |= {part for k in node.keywords if k.arg == "out" for part in ast.walk(k.value)}
        if called(node) in _FILLS and isinstance(node.func, ast.Attribute):
            written |= set(ast.walk(node.func.value))
    found = {
        dotted(node)
        for node in source.expressions(statement)
        if isinstance(node, (ast.Name, ast.Attribute))
        and isinstance(getattr(node, "ctx", None), ast.Load)
        and node not in written
    }
    return frozenset(found - {""})


def operands_of(source: SourceText, statement: ast.stmt) -> frozenset[str]:
    """The variables that a statement works with: neither modules nor the functions that it calls."""
    aside: set[ast.AST] = set()
    for node in source.expressions(statement):
        if isinstance(node, ast.Call):
            function = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            if dotted(node.func):
                aside |= set(ast.walk(node.func)) if _is_module(function) or function is node.func else {node.func}
        if isinstance(node, ast.Attribute):
            aside.add(node.value)
    found = {dotted(node) for node in source.expressions(statement) if node not in aside and not _is_module(node)}
    return frozenset(found - {""})


def _is_module(node: ast.AST) -> bool:
    return dotted(node).partition(".")[0] in _MODULES


def assigned_by(statement: ast.stmt) -> frozenset[str]:
    """The names that a statement binds: `parts` of `parts = list(pool.map(work, items))`."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    names = {n.id for t in targets if t is not None for n in ast.walk(t) if isinstance(n, ast.Name)}
    return frozenset(names)
