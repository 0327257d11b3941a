"""Memory of graph pools: what captures made, who uses it outside of their graphs, where two graphs overlap in it."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from msgspec import Struct

from cudagraph_doctor.session.memory import is_work
from cudagraph_doctor.session.overwriting import overwrites
from cudagraph_doctor.session.pointers import address_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.session.model import Activity, CaptureState, Session
    from cudagraph_doctor.session.storages import StorageState
    from cudagraph_doctor.trace import events


class EarlyRead(Struct, frozen=True):
    """Eager work read what a capture made, before any replay had computed it."""

    capture: CaptureState
    storage: StorageState
    touch: events.Touch
    made: Activity | None
    """The captured operator that made the storage."""


class Overlap(Struct, frozen=True):
    """Bytes that the work of two graphs of one pool has in common, and that one of them writes."""

    start: int
    size: int
    """Bytes."""
    first: Activity
    """Work of the one graph there; it writes."""
    second: Activity
    """Work of the other."""


def early_reads(session: Session) -> Iterator[EarlyRead]:
    """Reads of memory that a capture made, before the first replay of its graph."""
    begins: dict[int, int] = {}
    for touch in session.touches:
        storage = session.storages.get(touch.storage)
        if storage is None or not storage.record.inside or touch.what == "write":
            continue
        if overwrites(touch.name):
            continue  # it is filled there
        capture = storage.capture
        if capture is None or capture.status != "completed" or touch.q < capture.last_q:
            continue
        begin = begins.get(capture.id)
        if begin is None:
            begin = begins[capture.id] = first_replay(session, capture)
        if begin > touch.q:
            yield EarlyRead(capture, storage, touch, maker(capture, storage))


def captured_later(session: Session, early: EarlyRead) -> bool:
    """Whether a later capture takes the storage as its input: what is eager before it is a warm-up of that capture."""
    return any(
        tensor.storage == early.storage.id
        for capture in session.captures
        if capture.first_q > early.touch.q
        for op in capture.ops()
        for tensor in getattr(op.record, "tensors", ())
    )


def maker(capture: CaptureState, storage: StorageState) -> Activity | None:
    """The operator of a window that brought a storage into being; one that computes it before one that allocates."""
    made = None
    for op in capture.ops():
        if op.outcome is not None and any(t.storage == storage.id for t in op.outcome.tensors):
            made = op
            break
    if made is None or getattr(made.record, "kind", "") == "compute":
        return made
    writers = (op for op in capture.ops() if any(t.storage == storage.id and t.written for t in op.record.tensors))  # type: ignore[union-attr]
    return next(writers, made)


def first_replay(session: Session, capture: CaptureState) -> int:
    """`q` of the first replay of a capture's graph; beyond every record where it never was replayed."""
    own = (r.q for r in session.replays if not r.total and session.exec_captures.get(r.exec) is capture)
    return min(own, default=2**63)


def overlap(
    session: Session, one: CaptureState, other: CaptureState, within: StorageState | None = None
) -> Overlap | None:
    """The largest range that work of both captures uses and one of them writes, in memory made in their windows.

    Args:
        session: The process.
        one: A capture.
        other: Another one of the same pool.
        within: Only where the first writes into this storage.
    """
    mine, theirs = _ranges(session, one), _ranges(session, other)
    if within is not None:
        mine = [(max(a, within.start), min(b, within.end), w, who) for a, b, w, who in mine if w]
    theirs.sort(key=itemgetter(0))
    best: Overlap | None = None
    for start, end, writes, activity in mine:
        for other_start, other_end, other_writes, other_activity in theirs:
            if other_start >= end:
                break
            low, high = max(start, other_start), min(end, other_end)
            if low >= high or not (writes or other_writes) or (best is not None and high - low <= best.size):
                continue
            first, second = (activity, other_activity) if writes else (other_activity, activity)
            best = Overlap(low, high - low, first, second)
    return best


def rewiped(session: Session) -> Iterator[EarlyRead]:
    """Writes of eager code into what a capture made, each followed by a replay that makes it anew and another use."""
    seen: set[int] = set()
    for touch in session.touches:
        storage = session.storages.get(touch.storage)
        capture = storage.capture if storage is not None else None
        if storage is None or capture is None or not storage.record.inside or storage.id in seen:
            continue
        if touch.what != "write" or capture.status != "completed" or touch.q < capture.last_q:
            continue
        later = [t for t in session.touches if t.storage == storage.id and t.q > touch.q and t.stack == touch.stack]
        made = maker(capture, storage)
        if capture.replays > 1 and later and made is not None:
            seen.add(storage.id)
            yield EarlyRead(capture, storage, touch, made)


def _ranges(session: Session, capture: CaptureState) -> list[tuple[int, int, bool, Activity]]:
    """The ranges of memory made in a window, each once: start, end, whether it is written, the first work on it."""
    found: dict[tuple[int, int], tuple[bool, Activity]] = {}
    for activity in capture.activities:
        if not is_work(activity) or activity.failed:
            continue
        given = [(t, t.written) for t in getattr(activity.record, "tensors", ())]
        made = [(t, True) for t in (activity.outcome.tensors if activity.outcome is not None else ())]
        for tensor, writes in (*given, *made):
            start = address_of(tensor.ptr)
            if start is None or not tensor.size or not tensor.dev.startswith("cuda"):
                continue
            known = session.storages.get(tensor.storage)
            if known is not None and not (known.record.inside and known.capture is capture):
                continue  # from outside of this window
            key = (start, start + tensor.size)
            before = found.get(key)
            if before is None or (writes and not before[0]):
                found[key] = (writes, activity)
    return [(start, end, writes, activity) for (start, end), (writes, activity) in found.items()]
