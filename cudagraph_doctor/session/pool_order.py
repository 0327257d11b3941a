"""Replays of graphs that share a memory pool, by their order: at the same time, or over what is still read."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from cudagraph_doctor.session.overwriting import overwrites
from cudagraph_doctor.session.pool_memory import Overlap, overlap
from cudagraph_doctor.session.stream_order import StreamOrder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.session.model import CaptureState, Session
    from cudagraph_doctor.session.storages import StorageState
    from cudagraph_doctor.trace import events

_TOLD = 32
"""Replays of one executable graph that are told one by one: beyond, which one came last is not known."""


class Clash(Struct, frozen=True):
    """Two replays of different graphs of one pool, which overlap in it."""

    first: CaptureState
    second: CaptureState
    earlier: events.Replay
    later: events.Replay
    overlap: Overlap
    read: events.Touch | None = None
    """The read of what the earlier replay left and the later one overwrote; None: they run at the same time."""
    output: StorageState | None = None
    """What is read."""


def concurrent(session: Session) -> Iterator[Clash]:
    """Pairs of graphs of one pool that were replayed without an order between them; one a pair."""
    order: StreamOrder | None = None
    seen: dict[frozenset[int], Overlap | None] = {}
    newest: dict[str, dict[int, events.Replay]] = {}
    horizon = min((lost.q for lost in session.lost), default=2**63)
    for replay, capture, pool in _replays(session):
        if replay.q > horizon:
            break  # a wait may be among what was not recorded
        others = newest.setdefault(pool, {})
        for number, earlier in others.items():
            other = session.exec_captures[number]
            pair = frozenset((capture.id, other.id))
            if other is capture or earlier.stream == replay.stream or pair in seen:
                continue
            order = order or StreamOrder(session)
            if order.before(earlier.q, replay.q):
                continue
            found = seen[pair] = overlap(session, other, capture)
            if found is not None:
                yield Clash(other, capture, earlier, replay, found)
        others[replay.exec] = replay


def overwritten(session: Session) -> Iterator[Clash]:
    """Outputs that were read after another graph of the pool had used their memory for itself; one a pair."""
    replays = list(_replays(session))
    order = [replay.q for replay, _, _ in replays]
    told = Counter(replay.exec for replay, _, _ in replays)
    own: dict[int, list[int]] = {}
    for place, (_, capture, _) in enumerate(replays):
        own.setdefault(capture.id, []).append(place)
    seen: set[tuple[int, int]] = set()
    for touch in session.touches if replays else ():
        storage = session.storages.get(touch.storage)
        if storage is None or storage.capture is None or not storage.record.inside or touch.what == "write":
            continue
        until = bisect_left(order, touch.q)
        mine = own.get(storage.capture.id, ())
        last = bisect_left(mine, until) - 1
        if last < 0 or overwrites(touch.name):
            continue
        earlier, _, pool = replays[mine[last]]
        if told[earlier.exec] >= _TOLD:
            continue
        for later, capture, others in replays[mine[last] + 1 : until]:
            if others != pool or (storage.id, capture.id) in seen:
                continue
            seen.add((storage.id, capture.id))
            found = overlap(session, capture, storage.capture, storage)
            if found is not None:
                yield Clash(storage.capture, capture, earlier, later, found, touch, storage)


def _replays(session: Session) -> Iterator[tuple[events.Replay, CaptureState, str]]:
    """The replays that were told one by one, of graphs whose pool another graph has too."""
    pools = [graph.pool for graph in session.graphs.values() if graph.pool]
    shared = {pool for pool in pools if pools.count(pool) > 1}
    for replay in session.replays:
        capture = session.exec_captures.get(replay.exec)
        pool = _pool(session, replay)
        if not replay.total and capture is not None and pool in shared:
            yield replay, capture, pool


def _pool(session: Session, replay: events.Replay) -> str:
    known = session.execs.get(replay.exec)
    graph = session.graphs.get(known.graph) if known is not None else None
    return graph.pool if graph is not None else ""
