"""The capture status of each stream over time: who began, forked, joined, invalidated and ended a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor._wire import STATUS_ACTIVE, STATUS_INVALIDATED, STATUS_NONE
from cudagraph_doctor.report import StatusStep, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.session.model import Activity, CaptureState, Change, Session

NAMES = {STATUS_NONE: "none", STATUS_ACTIVE: "active", STATUS_INVALIDATED: "invalidated"}


def timelines_of(session: Session) -> Iterator[Timeline]:
    """The timeline of every capture of a process, in order."""
    for capture in session.captures:
        steps = [_begin(session, capture), *_forks(session, capture)]
        if capture.change is not None:
            steps.append(_invalidated(session, capture, capture.change))
        end = _end(session, capture)
        yield Timeline(
            capture=capture.id,
            process=session.index,
            status=capture.status,
            thread=session.thread_name(capture.tid),
            steps=(*sorted(steps, key=lambda step: step.seq), *end),  # what is known of the change may come later
        )


def _begin(session: Session, capture: CaptureState) -> StatusStep:
    began = capture.began or capture.begin_outcome is None
    code = capture.begin_outcome.code if capture.begin_outcome is not None else None
    return StatusStep(
        what="begin",
        seq=capture.begin.q,
        time=_seconds(session, capture.begin.t),
        stream=_stream(session, capture.stream),
        before=NAMES[STATUS_NONE],
        after=NAMES[STATUS_ACTIVE] if began else NAMES[STATUS_NONE],
        call=capture.begin.api or None,
        thread=session.thread_name(capture.tid),
        location=session.location(capture.begin.stack),
        code=code or None,
    )


def _forks(session: Session, capture: CaptureState) -> Iterator[StatusStep]:
    for fork in capture.forks:
        yield _of_activity(session, "fork", fork.by, fork.stream, STATUS_NONE, STATUS_ACTIVE)
        if fork.joined_by is not None:
            # A joined stream goes on capturing until the end of the capture.
            yield _of_activity(session, "join", fork.joined_by, fork.stream, STATUS_ACTIVE, STATUS_ACTIVE)


def _invalidated(session: Session, capture: CaptureState, change: Change) -> StatusStep:
    if change.across is not None:
        return _of_activity(session, "invalidated", change.across, capture.stream, STATUS_ACTIVE, STATUS_INVALIDATED)
    last = change.between[0]
    return StatusStep(
        what="invalidated",
        seq=change.record.q,
        time=_seconds(session, change.record.t),
        stream=_stream(session, capture.stream),
        before=NAMES[STATUS_ACTIVE],
        after=NAMES[STATUS_INVALIDATED],
        call=None,
        thread=session.thread_name(change.record.tid),
        location=session.location(last.stack) if last is not None else None,
    )


def _end(session: Session, capture: CaptureState) -> Iterator[StatusStep]:
    end = capture.end
    if end is None:
        return
    outcome = capture.end_outcome
    before = end.before
    if before is None:
        before = STATUS_INVALIDATED if capture.change is not None else STATUS_ACTIVE
    code = outcome.code if outcome is not None else None
    if not code and outcome is not None and outcome.exc is not None:
        code = outcome.exc.code
    yield StatusStep(
        what="end",
        seq=end.q,
        time=_seconds(session, end.t),
        stream=_stream(session, end.stream or capture.stream),
        before=NAMES.get(before),
        after=NAMES.get(outcome.after) if outcome is not None and outcome.after is not None else None,
        call=end.api or None,
        thread=session.thread_name(end.tid),
        location=session.location(end.stack),
        code=code or None,
    )


def _of_activity(session: Session, what: str, activity: Activity, stream: int, before: int, after: int) -> StatusStep:
    stack = activity.stack or next((outer.stack for outer in activity.enclosing() if outer.stack), 0)
    return StatusStep(
        what=what,
        seq=activity.q,
        time=_seconds(session, activity.record.t),
        stream=_stream(session, stream),
        before=NAMES[before],
        after=NAMES[after],
        call=activity.name,
        thread=session.thread_name(activity.tid),
        location=session.location(stack),
        code=activity.code or None,
    )


def _stream(session: Session, stream: int) -> str:
    found = session.streams.get(stream)
    if found is None:
        return ""
    return {"legacy": "default", "per-thread": "per-thread"}.get(found.kind, found.handle)


def _seconds(session: Session, t: int) -> float:
    return (t - session.header.t) / 1e9
