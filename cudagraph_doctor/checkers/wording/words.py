"""What a finding says about a cause, and the small phrases that several rules share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import ROOTS
from cudagraph_doctor.session.apis import base_name

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.findings import Confidence, Fix, Location
    from cudagraph_doctor.session.model import CaptureState, Session

_ROOT = re.compile(rf"^(?:{'|'.join(ROOTS)}):")


@dataclass(frozen=True)
class Words:
    """The cause in the user's terms, and the way out."""

    message: str
    remedy: str
    fix: Fix | None = None
    related: tuple[Location, ...] = ()
    location: Location | None = None
    """Another place than the cause's own line, where the line to change is elsewhere."""
    confidence: Confidence | None = None
    """Less sure than the classification, where the words lean on more."""


def code(text: str) -> str:
    """Text as code in a sentence; backticks of its own would end it."""
    return "`" + text.replace("`", "'") + "`"


def place(location: Location | None) -> str:
    """`decode.py:24`; empty where there is no line."""
    if location is None:
        return ""
    return f"{_ROOT.sub('', location.file, count=1)}:{location.line}"


def at(location: Location | None) -> str:
    """` at decode.py:24`, to be put behind a noun; empty where there is no line."""
    return f" at {place(location)}" if location is not None else ""


def begin_place(
    session: Session, capture: CaptureState | None, note: str = "the capture begins here"
) -> tuple[Location, ...]:
    """Where a capture begins, as a related place; none where there is no capture, or that is not known."""
    location = session.location(capture.begin.stack) if capture is not None else None
    return (location.with_note(note),) if location is not None else ()


def refused(cause: Cause, said: str = "") -> str:
    """` (cuStreamSynchronize, cudaError 900)`: what the driver refused, behind a sentence; may be empty.

    Args:
        cause: The refused call.
        said: What the sentence has said already: a call that it names is not named again.
    """
    api = base_name(cause.api) if cause.api.startswith("cu") else ""
    number = f"cudaError {cause.code}" if cause.code else ""
    both = ", ".join(part for part in (api if api not in said else "", number) if part)
    return f" ({both})" if both else ""


def inside(cause: Cause) -> str:
    """` inside aten::linalg_inv_ex`: the operator, where the user's line does not show it; may be empty."""
    return f" inside {code(cause.op.name)}" if cause.op is not None else ""


def stream_words(session: Session, stream: int, name: str = "") -> str:
    """A stream as the user knows it: by the name in their code, as the default stream, or by its handle."""
    found = session.streams.get(stream)
    if name:
        return code(name)
    if found is None:
        return "another stream"
    if found.kind == "legacy":
        return "the default stream"
    if found.kind == "per-thread":
        return "the per-thread default stream"
    return f"stream {found.handle}"


def graph_name(session: Session, capture: CaptureState) -> str:
    """The graph's name in the code that captures it: `g` of `with torch.cuda.graph(g):`, else `graph`."""
    import ast

    from cudagraph_doctor.checkers.code.expression import called, dotted
    from cudagraph_doctor.checkers.code.text import source_of

    location = session.location(capture.begin.stack)
    source = source_of(session, location)
    statement = source.statement_at(location.line) if location is not None else None
    for node in source.expressions(statement) if statement is not None else ():
        if isinstance(node, ast.Call) and called(node) == "graph" and node.args and dotted(node.args[0]):
            return dotted(node.args[0])
        if isinstance(node, ast.Call) and called(node) == "capture_begin" and isinstance(node.func, ast.Attribute):
            return dotted(node.func.value) or "graph"
    return "graph"
