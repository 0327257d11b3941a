"""Reads traces once and rebuilds, for each process, what happened: the `Session` that checkers ask."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_doctor.report import Exit
from cudagraph_doctor.session.activities import Activities
from cudagraph_doctor.session.captures import Captures
from cudagraph_doctor.session.ending import evidence_spans, exit_of
from cudagraph_doctor.session.graphs import Graphs
from cudagraph_doctor.session.handles import Handles
from cudagraph_doctor.session.libraries import Libraries
from cudagraph_doctor.session.model import Session
from cudagraph_doctor.session.outputs import Outputs
from cudagraph_doctor.session.regions import link_retries
from cudagraph_doctor.session.shared_values import SharedValues
from cudagraph_doctor.session.slots import Slots
from cudagraph_doctor.session.storages import Storages
from cudagraph_doctor.session.streams import Streams
from cudagraph_doctor.trace import events
from cudagraph_doctor.trace.reader import TraceReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cudagraph_doctor.session.model import Activity
    from cudagraph_doctor.trace.decode import AnyRecord

_KINDS_KEPT = 64
"""Unknown kinds told by name at most."""


def build(path: Path, *, own: tuple[str, ...] = (), first_index: int = 0) -> list[Session]:
    """The sessions of one trace file: one, or several where the file is a pack.

    Raises:
        TraceError: the file cannot be read at all.
    """
    reader = TraceReader(path)
    builders: list[SessionBuilder] = []
    with _no_collections():
        for record in reader:
            if isinstance(record, events.Header):
                builder = SessionBuilder(record, index=first_index + len(builders), own=own, trace=path.name)
                builders.append(builder)
                handlers = builder.handlers
            handler = handlers.get(type(record))
            if handler is not None:
                handler(record)
        for builder, damage in zip(builders, reader.damage, strict=True):
            builder.session.damaged, builder.session.torn_end = damage.lines, damage.at_end
        return [builder.finish() for builder in builders]


def build_from(records: Iterable[AnyRecord], *, own: tuple[str, ...] = ()) -> Session:
    """The session of records that are at hand, the header first."""
    iterator = iter(records)
    header = next(iterator)
    assert isinstance(header, events.Header)
    builder = SessionBuilder(header, own=own)
    for record in iterator:
        builder.feed(record)
    return builder.finish()


@contextmanager
def _no_collections() -> Iterator[None]:
    """Nothing that is read becomes garbage, and a million live records make collections quadratic."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class SessionBuilder:
    """One pass over the records of one process."""

    def __init__(self, header: events.Header, *, index: int = 0, own: tuple[str, ...] = (), trace: str = "") -> None:
        self.session = Session(index=index, header=header, exit=Exit(running=True), own=own, trace=trace)
        self._activities = Activities()
        self._streams = Streams(self.session)
        self._captures = Captures(self.session, self._streams)
        self._graphs = Graphs(self.session, self._captures)
        self._slots = Slots(self.session, self._captures)
        self._outputs = Outputs(self.session, self._captures)
        self._storages = Storages(self.session, self._captures)
        self._handles = Handles(self.session)
        self._libraries = Libraries(self.session)
        self._shared = SharedValues()
        self._seals: list[events.Seal] = []
        self._levels: list[events.EvidenceLevel] = []
        session = self.session
        self.handlers: dict[type, Callable[..., None]] = {
            events.Op: self._op,
            events.Call: self._call,
            events.PyCall: self._pycall,
            events.Outcome: self._outcome,
            events.Capture: self._capture,
            events.CaptureEnd: self._capture_end,
            events.CaptureStatus: self._captures.look,
            events.Graph: self._graphs.graph,
            events.Exec: self._exec,
            events.Replay: self._replay,
            events.Capability: self._capability,
            events.EvidenceLevel: self._levels.append,
            events.Source: lambda r: session.sources.__setitem__(r.id, r),
            events.Stack: lambda r: session.stacks.__setitem__(r.id, r),
            events.Thread: lambda r: session.threads.__setitem__(r.tid, r),
            events.Stream: self._handles.stream,
            events.Event: self._handles.event,
            events.Library: self._libraries.library,
            events.Module: session.modules.append,
            events.ExceptionRecord: self._exception,
            events.State: self._state,
            events.Log: self._log,
            events.Gc: lambda r: self._captures.tell(r, "gcs"),
            events.Limit: self._limit,
            events.Race: session.races.append,
            events.Touch: self._storages.touch,
            events.Storage: self._storages.storage,
            events.Free: self._storages.free,
            events.Rewrite: self._storages.rewrite,
            events.Node: lambda r: session.nodes.setdefault(r.graph, []).append(r),
            events.Edge: lambda r: session.edges.setdefault(r.graph, []).append(r),
            events.Destroy: session.destroyed.append,
            events.Slot: self._slots.slot,
            events.SlotChange: self._slots.change,
            events.SlotUse: self._slots.use,
            events.Output: self._outputs.output,
            events.Held: self._outputs.held,
            events.Process: session.children.append,
            events.ProbeError: session.probe_errors.append,
            events.Lost: session.lost.append,
            events.HandOver: session.hand_overs.append,
            events.Seal: self._seals.append,
            events.Unknown: self._unknown,
        }

    def feed(self, record: AnyRecord) -> None:
        """Takes the next record."""
        handler = self.handlers.get(type(record))
        if handler is not None:
            handler(record)

    def finish(self) -> Session:
        """The trace is over: what was open is decided."""
        session = self.session
        session.exit = exit_of(self._seals, session.exceptions)
        session.seal = self._seals[-1] if self._seals else None
        session.evidence = evidence_spans(session.header, self._levels)
        session.unreturned = self._activities.unreturned()
        self._libraries.finish()
        self._captures.finish(running=session.exit.running)
        self._graphs.finish()
        self._slots.finish()
        link_retries(session)
        self.handlers.clear()  # they are ours: without them we are no cycle, and go at once
        return session

    # ── activities ───────────────────────────────────────────────────────────────────────────

    def _op(self, record: events.Op) -> None:
        self._shared.share_name(record)
        if record.tensors:
            self._shared.share_tensors(record)
        self._place(self._activities.intend(record))

    def _call(self, record: events.Call) -> None:
        if record.handle or record.event_handle:
            record = self._handles.resolve(record)
        if record.returns:
            record = self._libraries.resolve(record)
        if record.code is None and record.exc is None:
            self._place(self._activities.intend(record))
            return
        activity = self._activities.complete(record)
        self._place(activity)
        self._streams.see(activity)

    def _pycall(self, record: events.PyCall) -> None:
        self._place(self._activities.python_call(record))

    def _place(self, activity: Activity) -> None:
        """Into the open windows, or outside of every one."""
        if not self._captures.see(activity):
            self.session.outside.append(activity)

    def _outcome(self, record: events.Outcome) -> None:
        activity = self._activities.finish(record)
        if activity is None:
            return
        if record.tensors:
            self._shared.share_tensors(record)
        self._streams.see(activity)
        intention = activity.record
        if isinstance(intention, events.Op):
            return  # most are
        if isinstance(intention, (events.Capture, events.CaptureEnd)):
            self._captures.outcome(activity, record)
            if not self._captures.any_open:
                self._activities.forget()
        elif isinstance(intention, events.Replay):
            self._graphs.came_back(intention, record)

    def _capture(self, record: events.Capture) -> None:
        record = self._handles.resolve(record) if record.handle else record
        self._captures.begin(self._activities.intend_graph(record))

    def _capture_end(self, record: events.CaptureEnd) -> None:
        record = self._handles.resolve(record) if record.handle else record
        self._captures.end(self._activities.intend_graph(record))

    def _exec(self, record: events.Exec) -> None:
        self._graphs.exec(record)
        if record.code is None:
            self._activities.intend_graph(record)

    def _replay(self, record: events.Replay) -> None:
        record = self._graphs.replay(record)
        if record.total and record.done is not None and record.done < record.count:
            self._activities.intend_graph(record)  # one was begun and never came back
        elif not record.total and record.code is None and record.exc is None and record.done is None:
            self._activities.intend_graph(record)

    # ── the rest ─────────────────────────────────────────────────────────────────────────────

    def _capability(self, record: events.Capability) -> None:
        self.session.capabilities[record.name] = record
        self.session.versions.update(record.versions)

    def _exception(self, record: events.ExceptionRecord) -> None:
        self.session.exceptions.append(record)
        self._captures.tell(record, "exceptions")

    def _state(self, record: events.State) -> None:
        state = self._captures.get(record.cap)
        if state is not None:
            state.state = record

    def _log(self, record: events.Log) -> None:
        self.session.logs.append(record)
        self._captures.tell(record, "logs")

    def _limit(self, record: events.Limit) -> None:
        self.session.limits.append(record)
        self._captures.tell(record, "limits")

    def _unknown(self, record: events.Unknown) -> None:
        unknown = self.session.unknown
        if record.kind in unknown or len(unknown) < _KINDS_KEPT:
            unknown[record.kind] = unknown.get(record.kind, 0) + 1
