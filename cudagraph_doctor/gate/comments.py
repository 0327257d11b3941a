"""`# cudagraph-doctor: ignore[CGD604] reason`: the comments in a source text, and the lines that each covers."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from datetime import date
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "cudagraph-doctor:"
_COMMENT = re.compile(r"#\s*cudagraph-doctor:\s*(.*)")
_IGNORE = re.compile(r"ignore\s*\[([^\]]*)\]\s*(?:until=(\S+)\s*)?(.*)")


class Comment(Struct, frozen=True):
    """One comment, understood or not."""

    line: int
    """From 1."""
    codes: tuple[str, ...] = ()
    until: date | None = None
    """The last day it holds."""
    reason: str = ""
    wrong: str = ""
    """Why it is not understood."""


def comments(text: str) -> list[Comment]:
    """The comments of one source text, in order. A string that looks like one is none."""
    if MARK not in text:
        return []
    return [
        _understood(line, match[1].strip()) for line, comment in _tokens(text) if (match := _COMMENT.search(comment))
    ]


def covered_lines(text: str, line: int) -> range:
    """The lines whose comments concern a finding at `line`: those of its statement, or of its header."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return range(line, line + 1)
    best = range(line, line + 1)
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            end = node.end_lineno or node.lineno
            body = getattr(node, "body", None)
            if body:
                end = max(node.lineno, body[0].lineno - 1)
            if line <= end:
                best = range(node.lineno, end + 1)
    return best


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, ValueError):
        yield from enumerate(text.split("\n"), 1)  # a file that Python ran has tokens; a cut text has lines
        return
    for token in tokens:
        if token.type == tokenize.COMMENT and MARK in token.string:
            yield token.start[0], token.string


def _understood(line: int, said: str) -> Comment:
    match = _IGNORE.fullmatch(said)
    if match is None:
        return Comment(line, wrong="not understood; write `# cudagraph-doctor: ignore[CODE] reason`")
    codes = tuple(code.strip() for code in match[1].split(",") if code.strip())
    if not codes:
        return Comment(line, wrong="it names no code; write `ignore[CGD101]`")
    until = None
    if match[2]:
        try:
            until = date.fromisoformat(match[2])
        except ValueError:
            return Comment(line, codes, wrong=f"until={match[2][:40]} is no date; write until=2027-01-31")
    return Comment(line, codes, until, match[3].strip())
