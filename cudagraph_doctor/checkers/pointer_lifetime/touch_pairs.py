"""Unordered pairs that the watch outside of captures saw on a GPU: operators on memory of graphs, replays, waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.pointer_lifetime.unordered import LAUNCHES, Access, Unordered, name_at
from cudagraph_doctor.checkers.pointer_lifetime.window_use import UsedStorages, used_storages
from cudagraph_doctor.findings import Confidence
from cudagraph_doctor.session.stream_order import StreamOrder
from cudagraph_doctor.trace import events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.session.model import CaptureState, Session


def touch_pairs(session: Session) -> Iterator[Unordered]:
    """Replays, and what the watch outside of captures saw of other work on their memory."""
    order = StreamOrder(session)
    lost = min((record.q for record in session.lost if "order streams" in record.why), default=None)
    memory = {capture.id: used_storages(capture) for capture in session.captures if capture.status == "completed"}
    replays: list[tuple[events.Replay, CaptureState]] = []
    since: list[events.Touch] = []
    """The latest work on each storage, of each kind and stream."""
    works: list[events.Touch | events.Replay] = [*session.touches, *session.replays]
    for record in sorted(works, key=lambda one: one.q):
        if lost is not None and record.q > lost:
            return
        if isinstance(record, events.Touch):
            for replay, of in replays:
                pair = _behind(session, order, replay, of, record, memory[of.id])
                if pair is not None:
                    yield pair
            since = [t for t in since if (t.storage, t.stream, t.what) != (record.storage, record.stream, record.what)]
            since.append(record)
            continue
        capture = None if record.total else session.exec_captures.get(record.exec)
        if capture is None or capture.id not in memory:
            continue
        for touch in since:
            pair = _before(session, order, touch, record, capture, memory[capture.id])
            if pair is not None:
                yield pair
        replays = [(one, of) for one, of in replays if of is not capture]
        replays.append((record, capture))


def _before(
    session: Session,
    order: StreamOrder,
    touch: events.Touch,
    replay: events.Replay,
    capture: CaptureState,
    memory: UsedStorages,
) -> Unordered | None:
    """Work that was given to another stream before the replay, on memory that one of the two writes."""
    writes = touch.what == "write"
    meets = touch.storage in memory.used if writes else touch.storage in memory.written
    if not meets or not touch.stream or order.before(touch.q, replay.q):
        return None
    first = Access(touch.name or touch.what, touch.stream, touch.stack, writes)
    second = Access(LAUNCHES[0], replay.stream, replay.stack, touch.storage in memory.written)
    what = "read after unordered write" if writes else "write after unordered read"
    return _pair(session, first, second, what, capture, touch, replay)


def _behind(
    session: Session,
    order: StreamOrder,
    replay: events.Replay,
    capture: CaptureState,
    touch: events.Touch,
    memory: UsedStorages,
) -> Unordered | None:
    """Work on another stream behind the replay: it reads an output, or writes what the replay may still read."""
    writes = touch.what == "write"
    meets = touch.storage in memory.used if writes else touch.storage in memory.written
    if not meets or not touch.stream or order.before(replay.q, touch.q):
        return None
    first = Access(LAUNCHES[0], replay.stream, replay.stack, touch.storage in memory.written)
    second = Access(touch.name or touch.what, touch.stream, touch.stack, writes)
    what = "write after unordered read" if writes else "read after unordered write"
    return _pair(session, first, second, what, capture, touch, replay)


def _pair(
    session: Session,
    first: Access,
    second: Access,
    what: str,
    capture: CaptureState,
    touch: events.Touch,
    replay: events.Replay,
) -> Unordered:
    known = session.storages.get(touch.storage)
    name = name_at(session, known.start, known.end) if known is not None else ""
    return Unordered(first, second, what, capture, name, Confidence.LIKELY, tuple(sorted((touch.q, replay.q))))
