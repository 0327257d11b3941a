"""Unordered pairs that the simulated device saw: it knows the order of all its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.pointer_lifetime.unordered import Access, Unordered, name_at
from cudagraph_doctor.findings import Confidence
from cudagraph_doctor.session.pointers import address_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.session.model import CaptureState, Session
    from cudagraph_doctor.trace import events


def race_pairs(session: Session) -> Iterator[Unordered]:
    """The races in which a replay takes part, in the order in which they were seen."""
    yield from (pair for race in session.races if (pair := _of_race(session, race)) is not None)


def _of_race(session: Session, race: events.Race) -> Unordered | None:
    """A race that the simulated device saw, if one of its accesses is a replay, and no shared pool explains it."""
    if race.cap or " unordered " not in race.what:
        return None
    if any(capture.first_q < race.q < capture.last_q for capture in session.captures):
        return None  # work beside an open capture is the matter of CGD108 and CGD113
    second, _, first = race.what.partition(" after unordered ")
    one = Access(race.first_name, race.first, race.first_stack, first == "write")
    other = Access(race.name, race.stream, race.stack, second == "write")
    if not (one.replay or other.replay) or (one.replay and other.replay and _shared_pool(session, race)):
        return None
    capture = _capture(session, one if one.replay else other)
    start = address_of(race.ptr) or 0
    return Unordered(
        one, other, race.what, capture, name_at(session, start, start + race.size), Confidence.PROVEN, (race.q,)
    )


def _shared_pool(session: Session, race: events.Race) -> bool:
    """Whether the memory is of a pool that several graphs have: then they may not run at the same time at all."""
    pools = [graph.pool for graph in session.graphs.values() if graph.pool]
    known = _storage(session, race)
    if known is not None and not known.inside:
        return False
    return len(pools) > len(set(pools)) and (known is None or not known.pool or pools.count(known.pool) > 1)


def _storage(session: Session, race: events.Race) -> events.Storage | None:
    start = address_of(race.ptr) or 0
    found = None
    for state in session.storages.values():
        if state.start < start + race.size and start < state.end:
            found = state.record
    return found


def _capture(session: Session, replay: Access) -> CaptureState | None:
    """The capture whose graph was replayed there."""
    for record in session.replays:
        if record.stack == replay.stack and record.stack:
            return next(
                (c for c in session.captures if c.begin.graph == record.graph and c.status == "completed"), None
            )
    completed = [capture for capture in session.captures if capture.status == "completed"]
    return completed[0] if len(completed) == 1 else None
