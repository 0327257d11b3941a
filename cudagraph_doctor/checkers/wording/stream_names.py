"""What the user calls a stream: its name in the `with` block or the wait that uses it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called
from cudagraph_doctor.checkers.code.text import source_of

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.code.expression import Expression
    from cudagraph_doctor.checkers.code.text import SourceText
    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import Session


def waiting_stream(found: Expression) -> str:
    """`side` of `side.wait_stream(main)`, `side.wait_event(e)`, `e.wait(side)` or `cudaStreamWaitEvent(side, e, 0)`."""
    call = found.call
    if call is None:
        return ""
    name = called(call)
    if name in {"wait_stream", "wait_event"} and found.receiver is not None:
        return _named(found, found.receiver)
    if name == "wait" and call.args:
        return _named(found, call.args[0])
    if "StreamWaitEvent" in name and call.args:
        return _named(found, call.args[0])
    return ""


def awaited(found: Expression) -> str:
    """`copy_stream` of `current.wait_stream(copy_stream)`: what is waited for; also an event's name."""
    call = found.call
    if call is None:
        return ""
    name = called(call)
    if name in {"wait_stream", "wait_event"} and call.args:
        return found.show(call.args[0])
    if name == "wait" and found.receiver is not None:
        return found.show(found.receiver)
    if "StreamWaitEvent" in name and len(call.args) > 1:
        return found.show(call.args[1])
    return ""


@dataclass(frozen=True)
class StreamBlock:
    """A `with torch.cuda.stream(…)` statement around a line."""

    name: str
    """The stream as written."""
    location: Location
    """The user's line inside the block."""
    source: SourceText
    statement: ast.With


def stream_name(session: Session, stack: int) -> str:
    """The stream of the innermost `with torch.cuda.stream(…)` block around any user frame of a stack."""
    block = stream_block(session, stack)
    return block.name if block is not None else ""


def stream_block(session: Session, stack: int) -> StreamBlock | None:
    """The innermost `with torch.cuda.stream(…)` around any user frame of a stack, innermost frame first."""
    for location in (session.location(stack), *session.callers(stack)):
        source = source_of(session, location)
        statement = source.statement_at(location.line) if location is not None else None
        for node in (statement, *source.ancestors(statement)) if statement is not None else ():
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                break
            call = _stream_switch(node)
            if call is not None and isinstance(node, ast.With) and location is not None:
                return StreamBlock(" ".join(source.segment(call.args[0]).split()), location, source, node)
    return None


def _stream_switch(node: ast.AST | None) -> ast.Call | None:
    for item in getattr(node, "items", ()):
        call = item.context_expr
        if called(call) in {"stream", "StreamContext"} and isinstance(call, ast.Call) and call.args:
            return call
    return None


def _named(found: Expression, node: ast.expr) -> str:
    """The expression, unless it is only `torch.cuda.current_stream()`, which names nothing."""
    text = found.full(node)
    return "" if "current_stream" in text else text
