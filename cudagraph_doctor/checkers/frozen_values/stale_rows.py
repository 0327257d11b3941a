"""CGD605, second half: the padded rows of a batch keep what an earlier, larger batch put there."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_doctor.checkers.code.expression import find_expression
from cudagraph_doctor.checkers.code.memory_names import owner
from cudagraph_doctor.checkers.frozen_values.index_use import index_uses, writes_by_index
from cudagraph_doctor.checkers.frozen_values.warmup_state import RULE
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.checkers.wording.words import Words, at, begin_place, code, graph_name
from cudagraph_doctor.findings import Confidence, Severity
from cudagraph_doctor.session.pointers import address_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding, Location
    from cudagraph_doctor.session.model import Activity, CaptureState, Session
    from cudagraph_doctor.trace.events import Touch


class _Stale(NamedTuple):
    """A write that covers less of a buffer than an earlier one did."""

    write: Touch
    earlier: Touch


def findings(session: Session) -> Iterator[Finding]:
    """Yield buffers of indices whose tail a smaller batch leaves as it was, while the graph still writes by it."""
    by_storage: defaultdict[int, list[Touch]] = defaultdict(list)
    for touch in session.touches:
        if touch.what == "write" and touch.size and address_of(touch.ptr):
            by_storage[touch.storage].append(touch)
    for storage, touches in by_storage.items():
        stale = _stale(session, touches)
        record = session.storages.get(storage)
        if stale is None or record is None:
            continue
        for capture in session.captures:
            writer = _writer(session, capture, storage, record.record.ptr) if capture.replays > 1 else None
            if writer is not None:
                yield _finding(session, capture, stale, writer)
                break


def _stale(session: Session, touches: list[Touch]) -> _Stale | None:
    """The first write that leaves a tail which an earlier one had filled, and that nobody fills before the replay."""
    for index, touch in enumerate(touches):
        if touch.whole:
            continue
        start, end = _range(touch)
        earlier = next((t for t in touches[:index] if _range(t)[0] <= start and _range(t)[1] > end), None)
        if earlier is None:
            continue
        replay = next((r.q for r in session.replays if r.q > touch.q), None)
        last = next((t.q for t in touches[:index][::-1] if _replayed_between(session, t.q, touch.q)), 0)
        around = [t for t in touches if last < t.q and (replay is None or t.q < replay) and t is not touch]
        if not _covered(end, _range(earlier)[1], around):
            return _Stale(touch, earlier)
    return None


def _replayed_between(session: Session, first: int, second: int) -> bool:
    return any(first < replay.q < second for replay in session.replays)


def _covered(start: int, end: int, touches: list[Touch]) -> bool:
    """Whether writes together cover a range."""
    for first, last in sorted(_range(touch) for touch in touches):
        if first <= start < last:
            start = last
    return start >= end


def _range(touch: Touch) -> tuple[int, int]:
    start = address_of(touch.ptr) or 0
    return start, start + touch.size


def _writer(session: Session, capture: CaptureState, storage: int, ptr: str) -> Activity | None:
    """Captured work that writes memory of the program, not the graph's own, at the places that the buffer names."""
    for activity, _, target in index_uses(capture, storage, ptr):
        known = session.storages.get(target.storage)
        own = known is not None and known.record.inside
        if writes_by_index(activity) and not own:
            return activity
    return None


def _finding(session: Session, capture: CaptureState, stale: _Stale, writer: Activity) -> Finding:
    place = session.location(stale.write.stack)
    name = _name(session, place)
    written = session.location(writer.stack)
    graph = graph_name(session, capture)
    before = session.location(stale.earlier.stack)
    before = before if before != place else None
    words = Words(
        message=f"This fills {stale.write.size} bytes of {name}, less than an earlier batch did "
        f"({stale.earlier.size}{at(before)}): the rows behind keep its indices, and every replay writes to the places "
        "they name again.",
        remedy=f"Fill the padded rows of {name} before each `{graph}.replay()` with an index that harms nobody, such "
        "as that of a scratch row.",
        location=place,
        related=(
            *((written.with_note("captured; writes at the places they name"),) if written is not None else ()),
            *begin_place(session, capture),
        ),
    )
    return finding(
        session,
        RULE,
        words,
        capture=capture,
        stack=stale.write.stack,
        trigger="stale-rows",
        confidence=Confidence.LIKELY,
        level=Severity.ERROR,
        evidence=(stale.earlier.q, stale.write.q, writer.q),
    )


def _name(session: Session, place: Location | None) -> str:
    """The buffer, as the statement that fills it calls it."""
    found = find_expression(session, place)
    target = getattr(found.statement, "targets", [None])[0] if found.statement is not None else None
    name = owner(target) or owner(found.node)
    return code(name) if name and not name.startswith("torch.") else "a buffer of indices"
