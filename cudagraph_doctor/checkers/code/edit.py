"""Changed code: a fix made from the user's own lines, offered only if the file still parses with it."""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING

from cudagraph_doctor.findings import Fix

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cudagraph_doctor.checkers.code.text import SourceText
    from cudagraph_doctor.findings import Location

LONGEST = 40
"""Lines of a fix that still help; a longer one hides the change."""


def replace_lines(source: SourceText, location: Location, start: int, end: int, new: Iterable[str]) -> Fix | None:
    """Lines `start` to `end` (from 1, inclusive) replaced; None where the result is no valid Python or too long."""
    lines = [line for block in new for line in block.split("\n")]
    if not source.lines or end - start + 1 > LONGEST or len(lines) > LONGEST:
        return None
    if tuple(lines) == source.lines[start - 1 : end]:
        return None
    try:
        ast.parse("\n".join((*source.lines[: start - 1], *lines, *source.lines[end:])))
    except (SyntaxError, ValueError, RecursionError):
        return None
    return Fix(file=location.file, start=start, end=end, replacement="\n".join(lines), source=location.source)


def replace_nodes(
    source: SourceText, location: Location, statement: ast.stmt, changes: Mapping[ast.expr, str], comment: str = ""
) -> Fix | None:
    """Expressions of one statement replaced where they stand; everything else of its lines stays as it is."""
    start, end = _span(statement, changes)
    text = "\n".join(source.lines[start - 1 : end]).encode()
    for node, new in sorted(changes.items(), key=lambda c: (c[0].lineno, c[0].col_offset), reverse=True):
        first = _offset(source, start, node.lineno, node.col_offset)
        last = _offset(source, start, node.end_lineno or node.lineno, node.end_col_offset or 0)
        text = text[:first] + new.encode() + text[last:]
    lines = text.decode("utf-8", "replace").split("\n")
    if comment:
        lines[-1] = f"{lines[-1]}  # {comment}" if "#" not in lines[-1] else lines[-1]
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


def _span(statement: ast.stmt, changes: Iterable[ast.expr]) -> tuple[int, int]:
    nodes = list(changes)
    first = min([node.lineno for node in nodes], default=statement.lineno)
    last = max([node.end_lineno or node.lineno for node in nodes], default=statement.lineno)
    return first, last


def _offset(source: SourceText, start: int, line: int, column: int) -> int:
    """Offset in bytes of a position, within the text that begins at line `start`."""
    return sum(len(source.lines[n].encode()) + 1 for n in range(start - 1, line - 1)) + column
