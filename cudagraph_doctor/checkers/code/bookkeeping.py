"""Whether a branch only keeps the host's books: flags, counters, lists and logs that the code behind it never reads."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called, dotted

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.code.text import SourceText

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
"""What names belong to."""

_REMARKS = frozenset({"print", "debug", "info", "warning", "warn", "error", "exception", "log", "write"})
"""Calls that tell somebody something."""
_COLLECTS = frozenset({"append", "extend", "add", "put"})
"""Calls that keep something for later."""


def is_remark(part: ast.stmt) -> bool:
    """Whether a statement only tells or checks: without it the program calculates the same."""
    return isinstance(part, (ast.Pass, ast.Raise)) or (isinstance(part, ast.Expr) and called(part.value) in _REMARKS)


def collects(part: ast.stmt) -> bool:
    """Whether a statement keeps a value in a collection, or changes a tensor in place."""
    return isinstance(part, ast.Expr) and (
        called(part.value) in _COLLECTS or (called(part.value).endswith("_") and called(part.value) != "_")
    )


def is_bookkeeping(source: SourceText, branch: ast.If | ast.While, region: ast.AST | None = None) -> bool:
    """Whether nothing that runs behind the branch can depend on it.

    Args:
        source: The file.
        branch: The branch; its body is looked at.
        region: What holds the captured code; the whole function or module where None.
    """
    return all(_keeps_books(source, part) for part in branch.body) and not _read_later(source, branch, region)


def stored_before(source: SourceText, statement: ast.stmt, target: str) -> bool:
    """Whether a name or attribute surely has a value already: a parameter, or assigned above in the same function."""
    scope = source.enclosing(statement, *SCOPES)
    if scope is None:
        return False
    if "." in target:
        return True
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) and any(
        isinstance(n, ast.arg) and n.arg == target for n in ast.walk(scope.args)
    ):
        return True
    return any(
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == target
        for node in ast.walk(scope)
        if getattr(node, "lineno", statement.lineno) < statement.lineno
    )


def result_is_read(source: SourceText, statement: ast.Assign | ast.AnnAssign) -> bool:
    """Whether the code behind an assignment reads what it assigns; True for anything but plain local names."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    return len(names) < len(targets) or _reads_behind(source, statement, names, None)


def _keeps_books(source: SourceText, part: ast.stmt) -> bool:
    if is_remark(part):
        return True
    if isinstance(part, ast.Expr):
        return called(part.value) in _COLLECTS
    if isinstance(part, ast.Assign):
        return isinstance(part.value, ast.Constant) and all(dotted(target) for target in part.targets)
    if isinstance(part, ast.AugAssign):
        return dotted(part.target) in _counters(source)
    return False


def _counters(source: SourceText) -> frozenset[str]:
    """What the file gives a plain number or text somewhere: `count` of `count = 0`. It is no tensor."""
    found: set[str] = set()
    for node in ast.walk(source.tree) if source.tree is not None else ():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            found |= {dotted(target) for target in node.targets}
    return frozenset(found - {""})


def _read_later(source: SourceText, branch: ast.If | ast.While, region: ast.AST | None) -> bool:
    """Whether the code behind the branch, or around it in a loop, reads what the branch assigns or notes down."""
    names = {
        dotted(node)
        for part in branch.body
        for node in ast.walk(part)
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store)
    }
    names |= {
        dotted(node.func.value)
        for part in branch.body
        for node in ast.walk(part)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and called(node) in _COLLECTS
    }
    return _reads_behind(source, branch, names - {""}, region)


def _reads_behind(source: SourceText, statement: ast.stmt, names: set[str], region: ast.AST | None) -> bool:
    """Whether names are read behind a statement, or anywhere around it where it stands in a loop."""
    scope = region if region is not None else source.enclosing(statement, *SCOPES)
    inside = set(ast.walk(statement))
    loop = any(isinstance(a, (ast.For, ast.AsyncFor, ast.While)) for a in source.ancestors(statement))
    first = 0 if loop else statement.end_lineno or statement.lineno
    return any(
        isinstance(node, (ast.Name, ast.Attribute))
        and isinstance(node.ctx, ast.Load)
        and node not in inside
        and node.lineno > first
        and dotted(node) in names
        for node in (ast.walk(scope) if scope is not None else ())
    )
