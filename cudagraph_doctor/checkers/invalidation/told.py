"""The first exception of a capture, from whatever chain, outcome or record tells of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import STATUS_INVALIDATED
from cudagraph_doctor.checkers.invalidation import texts
from cudagraph_doctor.trace import events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.session.model import Activity, CaptureState, Session

_PLACES = ("capture-exit", "uncaught", "thread", "raised")


@dataclass(frozen=True)
class Told:
    """An exception that passed through a capture, with the activity that raised it."""

    q: int
    tid: int
    type: str
    message: str
    code: int
    stack: int
    activity: Activity | None = None

    @property
    def op(self) -> Activity | None:
        """The torch operator that raised it."""
        found = self.activity
        return found if found is not None and found.kind == "op" else None

    @property
    def raised(self) -> events.Raised:
        """The exception, without its stack."""
        return events.Raised(type=self.type, message=self.message, code=self.code)


def told_by(session: Session, capture: CaptureState) -> Told | None:
    """The earliest exception that ended the region and is no consequence of another; None: it ended without one."""
    for record, link in _links(capture):
        code = link.code or texts.code_of(link.message)
        if texts.is_consequence(link.message, code) or code in {903, 904, 908}:
            continue
        activity = _raiser(session, capture, link.type, link.message)
        if activity is not None and activity.before == STATUS_INVALIDATED:
            continue  # the capture was lost before: an error that surfaced late
        if activity is None and _raised_by_end(capture, link):
            continue  # nothing in the region raised it
        stack = activity.stack if activity is not None and activity.stack else link.stack
        return Told(record.q, record.tid, link.type, link.message, code, stack, activity)
    passing = capture.end.exc if capture.end is not None else None
    if passing is None or capture.end is None or texts.is_consequence(passing.message, passing.code):
        return None
    activity = _raiser(session, capture, passing.type, passing.message)
    if activity is not None and activity.before == STATUS_INVALIDATED:
        return None
    stack = activity.stack if activity is not None else 0
    code = passing.code or texts.code_of(passing.message)
    return Told(
        capture.end.q, capture.end.tid, passing.type, passing.message, code, stack or capture.end.stack, activity
    )


def _raised_by_end(capture: CaptureState, link: events.Link) -> bool:
    """Whether the end of the capture raised it itself: it was refused, as an instantiation may be."""
    exc = capture.end_outcome.exc if capture.end_outcome is not None else None
    return exc is not None and (exc.type, exc.message) == (link.type, link.message)


def _links(capture: CaptureState) -> Iterator[tuple[events.ExceptionRecord, events.Link]]:
    """The exceptions of the chains that left the region, earliest first; what was only raised and caught, last."""
    records = sorted((r for r in capture.exceptions if r.where in _PLACES), key=lambda r: (_PLACES.index(r.where), r.q))
    left = [r for r in records if r.where != "raised"]
    for record in left:
        if record.where == "capture-exit" or record.tid == capture.tid or record.cap == capture.id:
            yield from ((record, link) for link in reversed(record.chain))
    if left or capture.status == "completed":
        return
    # begin and end called one by one: what was raised last, and not caught as far as is known
    for record in records[-1:]:
        yield from ((record, link) for link in reversed(record.chain))


def _raiser(session: Session, capture: CaptureState, kind: str, message: str) -> Activity | None:
    """The innermost activity of the window that raised this exception last.

    Operators are written before what they hold, so the last one is the innermost. A call from Python is written after
    what it held, as the exception passes through it: the one with the deepest stack is the innermost.
    """
    raised = [a for a in capture.activities if a.exc is not None and a.exc.message[:200] == message[:200]]
    same = [a for a in raised if a.exc is not None and a.exc.type.rpartition(".")[2] == kind.rpartition(".")[2]]
    found = same or raised
    operators = [a for a in found if a.kind == "op"]
    if operators:
        return operators[-1]
    return max(found, key=lambda a: (_depth(session, a.stack), a.q), default=None)


def _depth(session: Session, stack: int) -> int:
    record = session.stacks.get(stack)
    return len(record.frames) + record.cut if record is not None else 0
