"""Which streams belong to a capture, how they came in, and whether their work was joined back: vector clocks.

Each stream of a capture has a clock: for every stream, how much of its captured work this one has waited for. A CUDA
event carries the clock of the stream that it was recorded on; a wait takes it over. A fork is joined when the origin's
clock has all of the fork's work at the end. Record and wait are read from whatever layer saw them (driver, bindings,
torch, simulated device); the same one seen twice changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from cudagraph_doctor._wire import STATUS_ACTIVE, STATUS_NONE
from cudagraph_doctor.session.apis import NODES, Family, family
from cudagraph_doctor.session.model import CaptureState, EventMark, Fork
from cudagraph_doctor.trace import events

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Activity, Session

Clock = dict[int, int]

_MAY_CAPTURE = (None, STATUS_ACTIVE)
"""Status of a stream whose work is captured, if it belongs to a capture at all; None: nobody looked."""


class _Window(Struct):
    """The streams of one open capture."""

    state: CaptureState
    clocks: dict[int, Clock] = field(default_factory=dict)
    forks: dict[int, Fork] = field(default_factory=dict)

    @property
    def origin(self) -> int:
        return self.state.stream

    def merge(self, stream: int, other: Clock) -> None:
        clock = self.clocks.setdefault(stream, {})
        for key, value in other.items():
            if clock.get(key, 0) < value:
                clock[key] = value

    def joined(self, stream: int) -> bool:
        done = self.clocks.get(stream, {}).get(stream, 0)
        return self.clocks.get(self.origin, {}).get(stream, 0) >= done


class Streams:
    """The streams of every open capture, and the events recorded on them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._windows: dict[int, _Window] = {}
        self._member: dict[int, int] = {}
        """Capture of each captured stream."""
        self._event_clocks: dict[int, tuple[int, Clock]] = {}
        """(capture, clock) of each event that was last recorded in an open capture."""

    def open(self, state: CaptureState) -> None:
        """A capture began on its origin stream."""
        window = _Window(state, {state.stream: {}})
        self._windows[state.id] = window
        self._member[state.stream] = state.id

    def close(self, state: CaptureState) -> None:
        """A capture ended: its streams are free again, and what is known of its forks is final."""
        window = self._windows.pop(state.id, None)
        if window is None:
            return
        for fork in state.forks:
            # The driver refuses to end a capture with unjoined work (904): one that ended well had none.
            fork.joined = state.status == "completed" or window.joined(fork.stream)
        self._member = {stream: cap for stream, cap in self._member.items() if cap != state.id}
        self._event_clocks = {e: known for e, known in self._event_clocks.items() if known[0] != state.id}

    def capture_of(self, stream: int) -> int:
        """Id of the open capture that a stream belongs to; 0: none."""
        return self._member.get(stream, 0)

    def see(self, activity: Activity) -> None:
        """Something happened: takes what it means for the streams."""
        record = activity.record
        if type(record) is events.Op:
            outcome = activity.outcome
            if record.kind == "compute" and outcome is not None and outcome.exc is None and not outcome.code:
                self._work(activity, record)
        elif type(record) is events.Call:
            self._call(activity, record)

    def _call(self, activity: Activity, record: events.Call) -> None:
        what = family(record.api)
        if activity.failed:
            return
        if what is Family.RECORD:
            self._record(activity)
        elif what is Family.WAIT:
            self._wait(activity)
        elif what in NODES:
            self._work(activity, record)

    def _work(self, activity: Activity, record: events.Op | events.Call) -> None:
        stream = record.stream
        if not stream or record.on not in _MAY_CAPTURE:
            return
        cap = self._member.get(stream, 0)
        if not cap:
            cap = self._join_unseen(activity)
        window = self._windows.get(cap)
        if window is None:
            return
        clock = window.clocks[stream]
        clock[stream] = clock.get(stream, 0) + 1
        if stream in window.forks:
            fork = window.forks[stream]
            fork.last_work, fork.joined_by = activity, None

    def _join_unseen(self, activity: Activity) -> int:
        """A stream captures although no wait was seen that made it join: it is taken in with this work."""
        window = self._windows.get(activity.cap)
        if window is None or activity.on != STATUS_ACTIVE:
            return 0
        self._join(window, activity.stream, activity, {})
        return activity.cap

    def _record(self, activity: Activity) -> None:
        event: int = activity.record.event  # type: ignore[union-attr]
        if event:
            self._mark(event, activity.stream, activity)

    def _mark(self, event: int, stream: int, activity: Activity) -> None:
        cap = self._member.get(stream, 0)
        if cap and activity.on == STATUS_NONE:
            cap = 0  # the driver knows better: the stream was not capturing
        known = self._session.cuda_events.get(event)
        external = known is not None and known.external
        mark = EventMark(by=activity, stream=stream, capture=cap, external=external)
        self._session.event_marks.setdefault(event, []).append(mark)
        if cap and not external:
            self._event_clocks[event] = (cap, dict(self._windows[cap].clocks.get(stream, {})))
        else:
            self._event_clocks.pop(event, None)

    def _wait(self, activity: Activity) -> None:
        record = activity.record
        waiter = activity.stream
        event: int = record.event  # type: ignore[union-attr]
        other: int = record.other  # type: ignore[union-attr]
        if event and event in self._event_clocks:
            cap, clock = self._event_clocks[event]
        elif other:
            # `wait_stream`, or an event whose record was not told apart: all work of the other stream so far
            cap = self._member.get(other, 0)
            if not cap:
                return
            clock = dict(self._windows[cap].clocks.get(other, {}))
        else:
            return
        window = self._windows.get(cap)
        if not waiter or window is None:
            return
        belongs = self._member.get(waiter, 0)
        if not belongs:
            self._join(window, waiter, activity, clock)
        elif belongs == cap:
            window.merge(waiter, clock)
            for fork in window.forks.values():
                if fork.joined_by is None and window.joined(fork.stream):
                    fork.joined_by = activity
        # else: a merge of two captures, which the driver refuses (902)

    def _join(self, window: _Window, stream: int, by: Activity, clock: Clock) -> None:
        self._member[stream] = window.state.id
        window.merge(stream, clock)
        if stream != window.origin and stream not in window.forks:
            fork = window.forks[stream] = Fork(stream=stream, by=by)
            window.state.forks.append(fork)
