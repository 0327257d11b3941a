"""Faults that raise nothing in the capture: work that was left out, events used afterwards, empty graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor._wire import STATUS_ACTIVE
from cudagraph_doctor.checkers.capture_status import empty_graph, event_use, not_captured, stale_autograd
from cudagraph_doctor.checkers.capture_status.on_other_threads import work_of_other_threads
from cudagraph_doctor.checkers.capture_status.pool_work import pool_work
from cudagraph_doctor.checkers.capture_status.uncaptured import Tie, Uncaptured, uncaptured_work
from cudagraph_doctor.checkers.invalidation import context
from cudagraph_doctor.checkers.invalidation.calls import QUERIES
from cudagraph_doctor.checkers.invalidation.consequences import told_of
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.findings import Confidence, Severity
from cudagraph_doctor.session.apis import Family, base_name, family

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cudagraph_doctor.findings import Finding
    from cudagraph_doctor.session.model import Activity, CaptureState, EventMark, Session

    Group = list[tuple[CaptureState, Uncaptured]]
    """The same line's lost work, in each capture and time that it ran."""


def findings(session: Session) -> Iterator[Finding]:
    """The silent faults of the captures that ended well."""
    missing = _missing_work(session)
    by_place: dict[object, list[tuple[CaptureState, Uncaptured]]] = {}
    for capture, work in missing:
        place = session.location(work.activity.stack)
        key = (capture.id if place is None else place.file, place.line if place is not None else 0)
        by_place.setdefault(key, []).append((capture, work))
    for group in _one_a_stream(session, by_place.values()):
        capture, work = group[0]
        yield _not_captured(session, capture, work, len(group))
    explained = {capture.id for capture, work in missing if work.tie is not Tie.ONCE}
    yield from _by_pools(session, explained)
    for capture in session.captures:
        if capture.status == "completed" and capture.nodes == 0 and capture.id not in explained:
            yield _empty(session, capture)
    yield from _late_uses(session)


def _by_pools(session: Session, explained: set[int]) -> Iterator[Finding]:
    """Work of thread pools that nobody saw, once a line: only possible, for the source text alone tells of it."""
    seen: set[tuple[str, int]] = set()
    for capture in session.captures:
        if capture.status != "completed" or capture.id in explained:
            continue
        for work in pool_work(session, capture):
            key = (work.place.file, work.place.line)
            if key in seen:
                continue
            seen.add(key)
            yield finding(
                session,
                not_captured.RULE,
                not_captured.explain_pool(session, capture, work),
                capture=capture,
                stack=work.reader.stack,
                trigger="thread pool",
                confidence=Confidence.POSSIBLE,
                evidence=(work.reader.q,),
            )


def _missing_work(session: Session) -> list[tuple[CaptureState, Uncaptured]]:
    return [
        (capture, work)
        for capture in session.captures
        if capture.status == "completed"
        for work in (*uncaptured_work(session, capture), *work_of_other_threads(session, capture))
        if work.tie is not Tie.ONCE or not context.under_backward(session, work.activity.stack, work.activity)
    ]


def _one_a_stream(session: Session, groups: Iterable[Group]) -> list[Group]:
    """Lines that lost work to the same stream in the same captures have one cause: the first of them stands for it."""
    kept: dict[tuple[int, int], Group] = {}
    for group in groups:
        capture, work = group[0]
        kept.setdefault((capture.id, work.activity.stream), []).extend(group)
    merged: list[Group] = []
    for group in kept.values():
        # Backward runs on the stream of its forward: work that the region itself put there is the cause, and named.
        group.sort(
            key=lambda pair: (
                context.under_backward(session, pair[1].activity.stack, pair[1].activity),
                not_captured.CONFIDENCE[pair[1].tie].rank,
                pair[1].activity.q,
            )
        )
        merged.append(group)
    return merged


def _not_captured(session: Session, capture: CaptureState, work: Uncaptured, count: int) -> Finding:
    stale = context.under_backward(session, work.activity.stack, work.activity) and not _of_library(work.activity)
    rule = stale_autograd.RULE if stale else not_captured.RULE
    words = (stale_autograd.explain_silent if stale else not_captured.explain)(session, capture, work)
    return finding(
        session,
        rule,
        words,
        capture=capture,
        stack=work.activity.stack,
        trigger=base_name(work.activity.name),
        confidence=not_captured.CONFIDENCE[work.tie],
        level=Severity.NOTE if work.tie is Tie.ONCE else None,
        evidence=(work.activity.q, *((work.other.q,) if work.other is not None else ())),
        count=count,
    )


def _of_library(activity: Activity) -> bool:
    """A call that a library makes on a stream of its own, inside an operator that is captured."""
    return activity.kind == "call" and any(a.kind == "op" and a.on == STATUS_ACTIVE for a in activity.enclosing())


def _empty(session: Session, capture: CaptureState) -> Finding:
    level = empty_graph.RULE.level if capture.replays else Severity.NOTE
    return finding(
        session,
        empty_graph.RULE,
        empty_graph.explain(session, capture),
        capture=capture,
        stack=capture.begin.stack,
        trigger="no node",
        confidence=Confidence.PROVEN,
        evidence=(capture.begin.q,),
        level=level,
    )


def _late_uses(session: Session) -> Iterator[Finding]:
    """Captured events that the host used after their capture, once an event."""
    seen: set[tuple[str, int]] = set()
    for use in session.outside:
        if not _is_host_use(use) or not use.failed:
            continue
        mark = _captured_mark(session, use)
        capture = next((c for c in session.captures if mark is not None and c.id == mark.capture), None)
        if mark is None or capture is None:
            continue
        place = session.location(use.stack)
        key = (place.file if place is not None else "", place.line if place is not None else use.q)
        if key in seen:
            continue
        seen.add(key)
        yield finding(
            session,
            event_use.RULE,
            event_use.late_use(session, capture, mark, use),
            capture=capture,
            stack=mark.by.stack or use.stack,
            trigger=base_name(use.name),
            confidence=Confidence.PROVEN,
            evidence=(mark.by.q, use.q),
            consequences=told_of(session, use),
        )


def _is_host_use(use: Activity) -> bool:
    return family(use.name) is Family.EVENT_SYNC or family(use.name) in QUERIES


def _captured_mark(session: Session, use: Activity) -> EventMark | None:
    """The last record of the event, or of either event of a time, if it was captured."""
    for event in (getattr(use.record, "event", 0), getattr(use.record, "other", 0)):
        marks = [m for m in session.event_marks.get(event, ()) if m.by.q < use.q]
        if marks and marks[-1].capture and not marks[-1].external:
            return marks[-1]
    return None
