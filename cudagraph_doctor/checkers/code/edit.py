"""Changed code: a fix made from the user's own lines, offered only if the file still parses with it."""

from __future__ import annotations

import ast
import builtins
import textwrap
from typing import TYPE_CHECKING

from cudagraph_doctor.findings import Fix

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cudagraph_doctor.checkers.code.text import SourceText
    from cudagraph_doctor.findings import Location

LONGEST = 40
"""Lines of a fix that still help; a longer one hides the change."""

COLUMNS = 72
"""Width of a comment in changed code, so that no reporter breaks its line."""

_BUILTINS = frozenset(dir(builtins))


def replace_lines(source: SourceText, location: Location, start: int, end: int, new: Iterable[str]) -> Fix | None:
    """Lines `start` to `end` (from 1, inclusive) replaced.

    None where the result is no valid Python, too long, or uses a name that the file neither has nor is given.
    """
    lines = [line for block in new for line in block.split("\n")]
    if not source.lines or end - start + 1 > LONGEST or len(lines) > LONGEST:
        return None
    if tuple(lines) == source.lines[start - 1 : end]:
        return None
    try:
        tree = ast.parse("\n".join((*source.lines[: start - 1], *lines, *source.lines[end:])))
    except (SyntaxError, ValueError, RecursionError):
        return None
    if source.tree is not None and _loaded(tree) - _named(source.tree) - _named(tree, stored=True) - _BUILTINS:
        return None  # it would use a name that nobody gives a value
    return Fix(file=location.file, start=start, end=end, replacement="\n".join(lines), source=location.source)


def replace_nodes(
    source: SourceText, location: Location, statement: ast.stmt, changes: Mapping[ast.expr, str], comment: str = ""
) -> Fix | None:
    """Expressions of one statement replaced where they stand; a comment is put on lines of its own above it."""
    start, end = _span(statement, changes)
    start = statement.lineno if comment else start
    text = "\n".join(source.lines[start - 1 : end]).encode()
    for node, new in sorted(changes.items(), key=lambda c: (c[0].lineno, c[0].col_offset), reverse=True):
        first = _offset(source, start, node.lineno, node.col_offset)
        last = _offset(source, start, node.end_lineno or node.lineno, node.end_col_offset or 0)
        text = text[:first] + new.encode() + text[last:]
    lines = text.decode("utf-8", "replace").split("\n")
    if comment:
        lines = [*comment_lines(comment, indent_of(source, statement)), *lines]
    return replace_lines(source, location, start, end, lines)


def replace_statement(source: SourceText, location: Location, statement: ast.stmt, new: str) -> Fix | None:
    """A whole statement replaced by code written at column 0; it is indented as the statement was."""
    start, end = statement.lineno, statement.end_lineno or statement.lineno
    if not alone(source, statement):
        return None
    return replace_lines(source, location, start, end, [textwrap.indent(new, indent_of(source, statement))])


def insert_before(source: SourceText, location: Location, statement: ast.stmt, new: str) -> Fix | None:
    """Code written at column 0, put before a statement."""
    line = statement.lineno
    code = textwrap.indent(new, indent_of(source, statement))
    return replace_lines(source, location, line, line, [code, source.lines[line - 1]])


def insert_after(source: SourceText, location: Location, statement: ast.stmt, new: str) -> Fix | None:
    """Code written at column 0, put after a statement."""
    line = statement.end_lineno or statement.lineno
    code = textwrap.indent(new, indent_of(source, statement))
    return replace_lines(source, location, line, line, [source.lines[line - 1], code])


def guarded(source: SourceText, location: Location, statement: ast.stmt, condition: str) -> Fix | None:
    """The statement moved under an `if`."""
    if not alone(source, statement):
        return None
    start, end = statement.lineno, statement.end_lineno or statement.lineno
    indent = indent_of(source, statement)
    body = [f"    {line}" if line.strip() else line for line in source.lines[start - 1 : end]]
    return replace_lines(source, location, start, end, [f"{indent}if {condition}:", *body])


def alone(source: SourceText, statement: ast.stmt) -> bool:
    """Whether nothing else stands on the lines of a statement."""
    first, last = source.lines[statement.lineno - 1], source.lines[(statement.end_lineno or statement.lineno) - 1]
    before = first.encode()[: statement.col_offset].decode("utf-8", "replace")
    after = last.encode()[statement.end_col_offset or 0 :].decode("utf-8", "replace").strip()
    return not before.strip() and (not after or after.startswith("#"))


def indent_of(source: SourceText, statement: ast.stmt) -> str:
    """The white space before a statement's line."""
    line = source.lines[statement.lineno - 1]
    return line[: len(line) - len(line.lstrip())]


def comment_lines(comment: str, indent: str) -> list[str]:
    """A comment on lines of its own, short enough to be copied from a terminal."""
    return textwrap.wrap(
        comment,
        width=max(COLUMNS, len(indent) + 32),
        initial_indent=f"{indent}# ",
        subsequent_indent=f"{indent}# ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def free_name(source: SourceText, wanted: str) -> str:
    """The wanted name, or one like it that the file does not use yet."""
    taken = _named(source.tree) if source.tree is not None else frozenset()
    while wanted in taken:
        wanted += "_"
    return wanted


def _loaded(tree: ast.AST) -> frozenset[str]:
    return frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))


def _named(tree: ast.AST, *, stored: bool = False) -> frozenset[str]:
    """The names of a file, or only those that it gives a value."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and (not stored or isinstance(node.ctx, ast.Store)):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
    return frozenset(found)


def _span(statement: ast.stmt, changes: Iterable[ast.expr]) -> tuple[int, int]:
    nodes = list(changes)
    first = min([node.lineno for node in nodes], default=statement.lineno)
    last = max([node.end_lineno or node.lineno for node in nodes], default=statement.lineno)
    return first, last


def _offset(source: SourceText, start: int, line: int, column: int) -> int:
    """Offset in bytes of a position, within the text that begins at line `start`."""
    return sum(len(source.lines[n].encode()) + 1 for n in range(start - 1, line - 1)) + column
