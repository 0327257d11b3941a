"""Errors of a capture that the program caught: it went on without the graph, or without what failed."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.text import source_of
from cudagraph_doctor.checkers.invalidation import texts
from cudagraph_doctor.findings import Consequence, Location

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import CaptureState, Session
    from cudagraph_doctor.trace import events

_ENDS = frozenset({"uncaught", "thread"})


def caught(session: Session, cause: Cause, capture: CaptureState) -> Consequence | None:
    """That the program caught the error of a failed capture; None where it did not, or nothing tells.

    Caught in the region: the cause raised, and what left the region neither is that exception nor hangs on it. Caught
    around it: an exception left the region, and the program ended well, or with an error that has none of it. The place
    is that of the handler, where the recorded text of the capture's or the cause's own file shows it.
    """
    if capture.retry is not None or capture.end is None:
        return None  # CGD116 tells of attempts that a good capture followed
    raised = _exception_of(cause)
    ended = [link.message for r in session.exceptions if r.where in _ENDS for link in r.chain]
    left = list(_left(capture))
    if raised is not None and not any(
        texts.first_line(raised.message) == texts.first_line(one) for one in (*left, *ended)
    ):
        handler = _handler(session, cause.line(session))
        return Consequence("the program caught this and went on capturing", raised.code or raised.type, handler)
    gone = {texts.first_line(one) for one in ended}
    if not left or any(texts.first_line(one) in gone for one in left):
        return None
    if not ended and (session.seal is None or session.seal.returncode != 0):
        return None  # how the process ended is not known well enough
    handler = _handler(session, session.location(capture.begin.stack))
    return Consequence("the program caught this and went on", None, handler)


def _exception_of(cause: Cause) -> events.Raised | None:
    activity = cause.activity if cause.activity is not None and cause.activity.exc is not None else cause.op
    return activity.exc if activity is not None else None


def _left(capture: CaptureState) -> Iterator[str]:
    """The messages of the exceptions that passed through the end of a capture, or came from it."""
    for exc in (capture.end.exc if capture.end is not None else None, _end_exception(capture)):
        if exc is not None:
            yield exc.message
    for record in capture.exceptions:
        if record.where == "capture-exit":
            yield from (link.message for link in record.chain)


def _end_exception(capture: CaptureState) -> events.Raised | None:
    return capture.end_outcome.exc if capture.end_outcome is not None else None


def _handler(session: Session, place: Location | None) -> Location | None:
    """The `except` line of the innermost `try` whose body holds a place."""
    source = source_of(session, place)
    statement = source.statement_at(place.line) if place is not None else None
    if place is None or statement is None:
        return None
    inner: ast.AST = statement
    for node in source.ancestors(statement):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return None
        if isinstance(node, ast.Try) and node.handlers and inner in node.body:
            line = node.handlers[0].lineno
            code = source.lines[line - 1].strip()
            return Location(place.file, line, function=place.function, code=code, source=place.source)
        inner = node
    return None
