"""Small questions on the syntax of a program: whose argument is it, which function is it in, who reads the name?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.code.text import SourceText
    from cudagraph_doctor.trace.events import Frame


def expression(node: ast.AST | None) -> ast.expr:
    """A node that is known to be an expression."""
    assert isinstance(node, ast.expr)
    return node


def argument_of(source: SourceText, call: ast.Call, node: ast.AST) -> ast.expr:
    """The argument of a call that holds a node."""
    current: ast.AST = node
    while current is not call:
        above = source.parents[current]
        if above is call or (isinstance(above, ast.keyword) and source.parents[above] is call):
            return expression(current)
        current = above
    return expression(node)


def is_index(source: SourceText, node: ast.AST) -> bool:
    """Whether a node is the whole index of a subscript."""
    above = source.parents.get(node)
    return isinstance(above, ast.Subscript) and above.slice is node


def subscript_around(source: SourceText, node: ast.AST) -> ast.Subscript | None:
    """The innermost subscript around a node."""
    found = source.enclosing(node, ast.Subscript)
    return found if isinstance(found, ast.Subscript) else None


def function_at(source: SourceText, line: int, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function of a frame: the innermost of that name around its line."""
    wanted = name.rpartition(".")[2]
    best: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    for node in ast.walk(source.tree) if source.tree is not None else ():
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name != wanted:
            continue
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        if first <= line <= (node.end_lineno or line) and (best is None or node.lineno > best.lineno):
            best = node
    return best


def parameter_of(
    function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call, value: ast.AST, keyword: str | None
) -> str | None:
    """The parameter that takes an argument; None where `*args` or `**kwargs` do."""
    arguments = function.args
    plain = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    if keyword is not None:
        return keyword if keyword in {*plain, *(a.arg for a in arguments.kwonlyargs)} else None
    if any(isinstance(a, ast.Starred) for a in call.args):
        return None
    position = next((i for i, a in enumerate(call.args) if any(n is value for n in ast.walk(a))), None)
    if position is None:
        return None
    position += bool(plain) and plain[0] in {"self", "cls"}
    return plain[position] if position < len(plain) else None


def loads_of(scope: ast.AST, name: str) -> list[ast.Name]:
    """The reads of a name in a function or module, inner functions included, in the order of the text."""
    found = [n for n in ast.walk(scope) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def in_one_loop(source: SourceText, node: ast.AST) -> bool:
    """Whether a node stands in a loop of its function: what comes before it may then run after it."""
    return source.enclosing(node, ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.Module).__class__ in {
        ast.For,
        ast.AsyncFor,
        ast.While,
    }


def same_place(frame: Frame, node: ast.AST) -> bool:
    """Whether a recorded position is that of a node."""
    _, line, _, end_line, column, end_column = frame
    if line != getattr(node, "lineno", None) and (end_line or line) != getattr(node, "end_lineno", None):
        return False
    return column is None or (column, end_column) == (
        getattr(node, "col_offset", None),
        getattr(node, "end_col_offset", None),
    )


def asks_for_length(above: ast.expr, node: ast.AST) -> bool:
    """Whether an expression around a container looks at how many elements it has, not at one or another of them."""
    if isinstance(above, ast.Subscript):
        return above.value is not node
    if isinstance(above, ast.Compare):
        return not any(isinstance(kind, (ast.In, ast.NotIn)) for kind in above.ops)
    if isinstance(above, ast.Attribute):
        return above.attr in {"items", "values", "keys"}
    return True
