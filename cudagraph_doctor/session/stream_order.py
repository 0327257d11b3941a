"""Which work outside of captures is ordered before which: vector clocks over streams, events, waits and the host.

Work is a replay, or something else that touches memory of a graph. Each stream counts its work, and knows how much of
every other stream's work it has waited for; an event carries what its stream knew when it was recorded; the host knows
what it has waited for itself, and whatever it launches afterwards comes behind that.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from cudagraph_doctor.session.apis import Family, family
from cudagraph_doctor.trace import events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.session.model import Session

Clock = dict[int, int]
Work = events.Touch | events.Replay


class StreamOrder:
    """The order of a process's work outside of captures, by the sequence numbers of its records."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._clocks: defaultdict[int, Clock] = defaultdict(dict)
        self._events: dict[int, Clock] = {}
        self._host: Clock = {}
        self._known: dict[int, tuple[int, int, Clock]] = {}
        """Stream, its count and what it knew, of each piece of work."""
        for record in _in_order(session):
            if isinstance(record, events.Call):
                self._call(record)
            else:
                self._work(record)

    def before(self, first: int, second: int) -> bool:
        """Whether the work of record `first` is done before that of record `second` begins.

        Work that is not known, or that the host did itself, counts as ordered: nothing is claimed of it.
        """
        one, other = self._known.get(first), self._known.get(second)
        if one is None or other is None or one[0] == other[0]:
            return True
        return other[2].get(one[0], 0) >= one[1] or self._implicit(one[0], other[0])

    def _implicit(self, one: int, other: int) -> bool:
        """The legacy stream and every blocking stream wait for each other without being told."""
        streams = [self._session.streams.get(number) for number in (one, other)]
        if any(stream is None for stream in streams):
            return False
        kinds = {stream.kind == "legacy" for stream in streams if stream is not None}
        return kinds == {True, False} and any(
            stream.blocking for stream in streams if stream is not None and stream.kind != "legacy"
        )

    def _work(self, record: Work) -> None:
        stream = record.stream
        if not stream:
            return
        clock = self._clocks[stream]
        _merge(clock, self._host)
        clock[stream] = clock.get(stream, 0) + 1
        self._known[record.q] = (stream, clock[stream], dict(clock))
        if isinstance(record, events.Touch) and record.what == "host-read":
            _merge(self._host, clock)

    def _call(self, record: events.Call) -> None:
        what = family(record.api)
        if what is Family.RECORD and record.event and record.stream:
            self._events[record.event] = {**self._host, **self._clocks[record.stream]}
        elif what is Family.WAIT and record.stream:
            known = self._events.get(record.event) if record.event else None
            _merge(self._clocks[record.stream], known if known is not None else self._clocks[record.other])
        elif what is Family.EVENT_SYNC and record.event in self._events:
            _merge(self._host, self._events[record.event])
        elif what is Family.SYNC:
            for clock in [self._clocks[record.stream]] if record.stream else list(self._clocks.values()):
                _merge(self._host, clock)


def _in_order(session: Session) -> Iterator[events.Call | Work]:
    """Work, and the calls that order it, as they were made."""
    found: list[events.Call | Work] = list(session.touches)
    found += [replay for replay in session.replays if not replay.total]
    found += [a.record for a in session.outside if isinstance(a.record, events.Call) and not a.failed]
    return iter(sorted(found, key=lambda record: record.q))


def _merge(clock: Clock, other: Clock) -> None:
    for stream, count in other.items():
        if clock.get(stream, 0) < count:
            clock[stream] = count
