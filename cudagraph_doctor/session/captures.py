"""Capture windows: from the begin of a capture to its end, with everything that happened meanwhile on any thread."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import STATUS_INVALIDATED, STATUS_NONE
from cudagraph_doctor.session.invalidation import find_change
from cudagraph_doctor.session.model import Activity, CaptureState
from cudagraph_doctor.trace import events

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Session
    from cudagraph_doctor.session.streams import Streams


OPEN_AT_ONCE = 256
"""Windows kept open at most: far more than a process has, few enough for a hostile trace of begins without ends."""


class Captures:
    """The captures of a process, and those of them that are open."""

    def __init__(self, session: Session, streams: Streams) -> None:
        self._session = session
        self._streams = streams
        self._by_id: dict[int, CaptureState] = {}
        self._by_graph: dict[int, list[CaptureState]] = {}
        self._open: list[CaptureState] = []
        self._intentions: dict[int, CaptureState] = {}
        """Capture of each begin or end intention, by its `q`."""
        self._looks: dict[int, list[events.CaptureStatus]] = {}

    @property
    def any_open(self) -> bool:
        """A window is open."""
        return bool(self._open)

    def get(self, capture: int) -> CaptureState | None:
        """The capture with this id."""
        return self._by_id.get(capture)

    def of_graph(self, graph: int) -> CaptureState | None:
        """The capture that a graph object holds by now; None: none was recorded.

        That is its newest one if it failed (the object is then without a graph, whatever it held before), else its
        newest one that completed.
        """
        mine = self._by_graph.get(graph, ())
        if not mine or mine[-1].status == "failed":
            return mine[-1] if mine else None
        return next((state for state in reversed(mine) if state.status == "completed"), mine[-1])

    def begin(self, activity: Activity) -> None:
        """A capture is about to begin."""
        record = activity.record
        assert isinstance(record, events.Capture)
        for state in [s for s in self._open if s.end is not None and s.end.tid == record.tid]:
            self._close(state)  # its end came back, and that record was lost
        self._add(CaptureState(id=record.id, begin=record))
        self._intentions[record.q] = self._by_id[record.id]

    def end(self, activity: Activity) -> None:
        """A capture is about to end."""
        record = activity.record
        assert isinstance(record, events.CaptureEnd)
        state = self._by_id.get(record.cap) or self._backfill(record, record.cap, record.stream)
        state.end = record
        if record.nodes is not None:
            state.nodes = record.nodes
        self._intentions[record.q] = state

    def outcome(self, activity: Activity, outcome: events.Outcome) -> None:
        """The begin or end of a capture came back."""
        state = self._intentions.pop(outcome.of, None)
        if state is None:
            return
        if activity.kind == "capture":
            state.begin_outcome = outcome
            state.began = not activity.failed
            if not state.began:
                self._close(state)
        else:
            state.end_outcome = outcome
            if outcome.nodes is not None:
                state.nodes = outcome.nodes
            self._close(state)

    def look(self, record: events.CaptureStatus) -> None:
        """Somebody looked at the status and saw a change."""
        self._looks.setdefault(record.cap, []).append(record)
        state = self._by_id.get(record.cap)
        if record.after == STATUS_NONE and state in self._open:
            state.ended_unseen = True
            self._close(state)

    def see(self, activity: Activity) -> bool:
        """Puts an activity into every open window; False if there is none."""
        record = activity.record
        if type(record) is events.Op and record.cap and record.cap not in self._by_id:
            self._backfill(record, record.cap, record.stream)
        for state in self._open:
            state.activities.append(activity)
        return bool(self._open)

    def tell(self, record: events.ExceptionRecord | events.Log | events.Gc | events.Limit, attribute: str) -> None:
        """Puts a record into the capture that it names, or into every open window."""
        named = self._by_id.get(record.cap) if record.cap else None
        for state in [named] if named is not None else self._open:
            getattr(state, attribute).append(record)

    def finish(self, *, running: bool) -> None:
        """The trace is over: decides what became of each capture."""
        for state in list(self._open):
            self._close(state, running=running)
        for state in self._session.captures:
            state.activities.sort(key=attrgetter("record.q"))
            state.change = find_change(state, self._looks.get(state.id, ()))

    def _add(self, state: CaptureState) -> None:
        self._by_id[state.id] = state
        if state.begin.graph:
            self._by_graph.setdefault(state.begin.graph, []).append(state)
        self._open.append(state)
        if len(self._open) > OPEN_AT_ONCE:
            self._close(self._open[0])
        self._session.captures.append(state)
        self._streams.open(state)

    def _backfill(self, record: events.Record, cap: int, stream: int) -> CaptureState:
        """A capture whose begin was not recorded, or was torn."""
        begin = events.Capture(q=record.q, t=record.t, tid=record.tid, id=cap, stream=stream)
        state = CaptureState(id=cap, begin=begin, began=True, backfilled=True)
        self._add(state)
        return state

    def _close(self, state: CaptureState, *, running: bool = True) -> None:
        if state in self._open:
            self._open.remove(state)
        state.status = _status(state, running=running)
        self._streams.close(state)


def _status(state: CaptureState, *, running: bool) -> str:
    """As in the report. A capture that an exception left is failed even where the end itself went well."""
    if state.begin_outcome is not None and not state.began:
        return "failed"
    if state.end is not None and state.end.exc is not None:
        return "failed"
    outcome = state.end_outcome
    if outcome is not None:
        return "failed" if outcome.code or outcome.exc is not None else "completed"
    if state.ended_unseen:
        # An active capture that is over ended well, as far as anybody saw; an invalidated one cannot.
        return "failed" if any(a.before == STATUS_INVALIDATED for a in state.activities) else "completed"
    if state.end is not None and running:
        # The end came back, for its thread went on; how it came back was lost.
        return "failed" if any(a.before == STATUS_INVALIDATED for a in state.activities) else "unfinished"
    return "unfinished" if running else "abandoned"
