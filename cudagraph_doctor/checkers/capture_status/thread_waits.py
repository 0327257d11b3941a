"""Where the capturing thread waited for other threads, as its source text tells: between two things it was seen at."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import ROLE_USER
from cudagraph_doctor.checkers.code.expression import called
from cudagraph_doctor.checkers.code.text import SourceText, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.session.model import Session

_WAITS = re.compile(r"^(?:map|imap\w*|starmap\w*|wait|as_completed|run_until_complete)$")
_BARE_WAITS = frozenset({"result", "join", "get"})
"""Waits of threads and queues only if they name nothing but a time-out: `text.join(parts)` and `table.get(key)` do."""


@dataclass(frozen=True)
class ThreadWait:
    """A call that may wait for another thread."""

    source: SourceText
    statement: ast.stmt
    line: int


@dataclass(frozen=True)
class _Frame:
    source: int
    line: int
    function: str

    def in_one_function_with(self, other: _Frame) -> bool:
        return (self.source, self.function) == (other.source, other.function)


def waits_between(session: Session, before: int, after: int) -> Iterator[ThreadWait]:
    """The calls between two stacks of one thread, the later one's own statement included, that may wait for a thread.

    The stacks share their outer frames. What ran between lies in the innermost function that they share, after the
    line of the first and up to that of the second; in the functions that the first has left since, behind its line; and
    in those that the second has entered, before its line.
    """
    first, second = _user_frames(session, before), _user_frames(session, after)
    shared = 0
    while shared < min(len(first), len(second)) and first[shared].in_one_function_with(second[shared]):
        shared += 1
        if first[shared - 1].line != second[shared - 1].line:
            break
    for frame in first[shared:]:
        yield from _waits(session, frame, frame.line, None)
    if shared:
        yield from _waits(session, second[shared - 1], first[shared - 1].line, second[shared - 1].line)
    for frame in second[shared:]:
        yield from _waits(session, frame, None, frame.line)


def _user_frames(session: Session, stack: int) -> list[_Frame]:
    """The user's frames of a stack, outermost first."""
    record = session.stacks.get(stack)
    sources = session.sources
    return [
        _Frame(source, line, function)
        for source, line, function, *_ in reversed(record.frames if record is not None else ())
        if source in sources and sources[source].role == ROLE_USER
    ]


def _waits(session: Session, frame: _Frame, after: int | None, upto: int | None) -> Iterator[ThreadWait]:
    text = session.text(frame.source)
    if text is None:
        return
    source = parsed(text)
    here = source.statement_at(frame.line)
    if here is None:
        return
    scope = source.enclosing(here, ast.FunctionDef, ast.AsyncFunctionDef) or source.tree
    for node in ast.walk(scope) if scope is not None else ():
        if not isinstance(node, ast.Call) or not _may_wait(node) or not _of_scope(source, node, scope):
            continue
        if (after is None or node.lineno >= after) and (upto is None or node.lineno <= upto):
            statement = source.enclosing(node, ast.stmt)
            if isinstance(statement, ast.stmt):
                yield ThreadWait(source, statement, node.lineno)


def _may_wait(node: ast.Call) -> bool:
    if called(node) in _BARE_WAITS:
        return all(isinstance(argument, ast.Constant) and not isinstance(argument.value, str) for argument in node.args)
    # the built-in `map` waits for nobody
    return isinstance(node.func, ast.Attribute) and _WAITS.match(called(node)) is not None


def _of_scope(source: SourceText, node: ast.AST, scope: ast.AST | None) -> bool:
    """Whether a call runs when its function does: not one in a function defined inside."""
    return (source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef) or source.tree) is scope
