"""What failed because of a failed capture: shown under its cause, never on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.invalidation import texts
from cudagraph_doctor.checkers.invalidation.caught import caught
from cudagraph_doctor.findings import Consequence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import Activity, CaptureState, Session
    from cudagraph_doctor.trace import events

MOST = 8
"""Consequences that a finding lists."""


def consequences_of(session: Session, cause: Cause, captures: list[CaptureState]) -> tuple[Consequence, ...]:
    """The errors that followed, in order, each once, the exception that ended the program always among them."""
    found: dict[tuple[str, int | str | None], Consequence] = {}
    handled = caught(session, cause, captures[0]) if captures else None
    if handled is not None:
        found[handled.message, handled.code] = handled
    for one in (*_in_captures(session, cause, captures), *_replays(session, captures)):
        found.setdefault((one.message, one.code), one)
    last = _uncaught(session, cause, captures)
    for ended in last:
        # the end of the capture raised what ended the program: told once, with the end's line
        same = next((key for key, one in found.items() if _is_from_end(captures, one, ended)), None)
        if same is not None:
            last = [Consequence(ended.message, ended.code, found.pop(same).location)]
    kept = list(found.values())[: MOST - len(last)]
    return (*kept, *last)


def told_of(session: Session, use: Activity) -> tuple[Consequence, ...]:
    """The exception that ended the program, if a failed activity raised it."""
    exc = use.exc
    for record in session.exceptions:
        head = record.chain[0] if record.where == "uncaught" and record.chain else None
        if head is None or record.q < use.q:
            continue
        same = exc is not None and any(link.message == exc.message for link in record.chain)
        code = head.code or texts.code_of(head.message)
        if same or (use.code and code == use.code):
            said = f"{head.type}: {texts.first_line(head.message)}"
            return (Consequence(f"the program ended with {said}", code or head.type, session.location(head.stack)),)
    return ()


def is_echo(capture: CaptureState) -> bool:
    """Whether everything that is known to have gone wrong in a capture is the consequence of something earlier."""
    said = [link for record in capture.exceptions for link in record.chain]
    ends = [o.exc for o in (capture.begin_outcome, capture.end_outcome) if o is not None and o.exc is not None]
    messages = [(link.message, link.code) for link in said] + [(exc.message, exc.code) for exc in ends]
    return bool(messages) and all(texts.is_consequence(message, code) for message, code in messages)


def belongs(cause: Cause, chain: Iterable[events.Link], captures: list[CaptureState]) -> bool:
    """Whether a chain of exceptions goes back to a cause.

    It does if it holds the cause's own exception or code, or one that left the capture, or only what an earlier failure
    explains.
    """
    left = {
        link.message
        for c in captures
        for record in c.exceptions
        if record.where == "capture-exit"
        for link in record.chain
    }
    for link in chain:
        code = link.code or texts.code_of(link.message)
        if cause.exc is not None and _first(link.message) == _first(cause.exc.message):
            return True
        if link.message in left or texts.is_consequence(link.message, code) or (code and code == cause.code):
            return True
    return False


def _in_captures(session: Session, cause: Cause, captures: list[CaptureState]) -> Iterator[Consequence]:
    for capture in captures:
        changed = capture.change.record.q if capture.change is not None else cause.key
        for activity in capture.activities:
            exc = activity.exc
            if exc is None or activity.end_q <= changed or activity is cause.activity or activity is cause.op:
                continue
            if texts.is_consequence(exc.message, exc.code or activity.code):
                yield _consequence(session, exc.message, exc.code or activity.code, exc.type, activity.stack)
        for outcome, record in ((capture.begin_outcome, capture.begin), (capture.end_outcome, capture.end)):
            exc = outcome.exc if outcome is not None else None
            if exc is not None and record is not None and not _is_cause(cause, exc):
                yield _consequence(session, exc.message, exc.code, exc.type, record.stack)


def _replays(session: Session, captures: list[CaptureState]) -> Iterator[Consequence]:
    """Replays of graphs that were never captured."""
    for capture in captures:
        for replay in capture.failed_replays:
            if replay.exc is not None:
                yield _consequence(session, replay.exc.message, replay.exc.code, replay.exc.type, replay.stack)


def _uncaught(session: Session, cause: Cause, captures: list[CaptureState]) -> list[Consequence]:
    """The exceptions that ended the program or a thread, if this is where they come from."""
    found = []
    for record in session.exceptions:
        if record.where not in {"uncaught", "thread"} or not record.chain or not belongs(cause, record.chain, captures):
            continue
        head = record.chain[0]
        ended = "the program" if record.where == "uncaught" else f"thread {session.thread_name(record.tid)}"
        code: int | str = head.code or texts.code_of(head.message) or head.type
        first = texts.first_line(head.message)
        said = f"{head.type}: {first}" if first else head.type
        found.append(Consequence(f"{ended} ended with {said}", code, session.location(head.stack)))
    return found[-1:]


def _is_from_end(captures: list[CaptureState], one: Consequence, ended: Consequence) -> bool:
    """Whether a consequence is the exception that ended the program, and the end of a capture raised it."""
    raised = [c.end_outcome.exc for c in captures if c.end_outcome is not None and c.end_outcome.exc is not None]
    same = one.code == ended.code and ended.message.endswith(one.message)
    return same and any(texts.first_line(exc.message) == one.message for exc in raised)


def _is_cause(cause: Cause, exc: events.Raised) -> bool:
    return cause.exc is not None and cause.exc.type == exc.type and cause.exc.message == exc.message


def _consequence(session: Session, message: str, code: int, kind: str, stack: int) -> Consequence:
    number = code or texts.code_of(message)
    return Consequence(texts.first_line(message) or kind, number or kind, session.location(stack))


def _first(message: str) -> str:
    return texts.first_line(message)
