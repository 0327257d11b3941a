"""The objects of a session and the questions checkers ask them.

Built by `session.build` from the records of one process; plain data, no torch, no device. Late starts are normal: an
object whose birth was not recorded has `born=None`, and who leans on it lowers the confidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from cudagraph_doctor.findings import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.report import EvidenceSpan, Exit
    from cudagraph_doctor.session.outputs import OutputState
    from cudagraph_doctor.session.slots import SlotState
    from cudagraph_doctor.session.storages import StorageState
    from cudagraph_doctor.session.uses import FirstUses
    from cudagraph_doctor.trace import events


Intention: TypeAlias = (
    "events.Op | events.Call | events.PyCall | events.Capture | events.CaptureEnd | events.Exec | events.Replay"
)


class Activity(Struct, eq=False, gc=False):  # none is part of a cycle
    """Something a thread did, with how it ended: an operator, a CUDA call, or a call of a C function from Python.

    Begin and end of a capture, instantiation and replay are activities too where they are intentions: they may be the
    fatal call, and what a library does inside them lies `inside` them.
    """

    record: Intention
    outcome: events.Outcome | None = None
    """None: complete in itself, or never came back."""
    inside: Activity | None = None
    """The operator or call on the same thread inside which it ran."""

    @property
    def kind(self) -> str:
        """Kind of its record: `op`, `call`, `pycall`, `capture`, `capture-end`, `exec`, `replay`."""
        return str(self.record.__struct_config__.tag)

    @property
    def q(self) -> int:
        """Sequence number of its record."""
        return self.record.q

    @property
    def end_q(self) -> int:
        """Sequence number of its outcome; its own where it has none."""
        return self.outcome.q if self.outcome is not None else self.record.q

    @property
    def tid(self) -> int:
        """Thread that ran it."""
        return self.record.tid

    @property
    def stack(self) -> int:
        """Python stack at which it was made, or at which what it ran inside of was made; 0: not known."""
        return self.record.stack or (self.inside.stack if self.inside is not None else 0)

    @property
    def cap(self) -> int:
        """Id of the capture whose window it belongs to or that it concerns; 0: none."""
        return int(getattr(self.record, "cap", 0))

    @property
    def stream(self) -> int:
        """Id of the stream it worked on; 0: none, or not known."""
        return int(getattr(self.record, "stream", 0))

    @property
    def on(self) -> int | None:
        """Capture status of that stream before it."""
        return getattr(self.record, "on", None)

    @property
    def name(self) -> str:
        """`aten::copy_`, `cuStreamSynchronize`, `torch._C._cuda_synchronize`."""
        found = getattr(self.record, "api", None) or getattr(self.record, "name", None)
        return str(found) if found else _UNNAMED[self.kind]

    @property
    def code(self) -> int:
        """CUDA error code it ended with, 0 if none is known."""
        own = getattr(self.record, "code", None)
        if own:
            return int(own)
        if self.outcome is not None and self.outcome.code:
            return self.outcome.code
        return self.exc.code if self.exc is not None else 0

    @property
    def exc(self) -> events.Raised | None:
        """Exception it raised."""
        if self.outcome is not None and self.outcome.exc is not None:
            return self.outcome.exc
        return getattr(self.record, "exc", None)

    @property
    def failed(self) -> bool:
        """It raised, or CUDA refused it."""
        return self.code != 0 or self.exc is not None

    @property
    def before(self) -> int | None:
        """Status of the capture concerned before it."""
        return getattr(self.record, "before", None)

    @property
    def after(self) -> int | None:
        """Status of the capture concerned after it."""
        if self.outcome is not None and self.outcome.after is not None:
            return self.outcome.after
        return getattr(self.record, "after", None)

    @property
    def returned(self) -> bool:
        """It came back, with or without an error."""
        if self.outcome is not None or self.kind == "pycall":
            return True
        return getattr(self.record, "code", None) is not None

    def enclosing(self) -> Iterator[Activity]:
        """What it ran inside of, innermost first."""
        outer = self.inside
        while outer is not None:
            yield outer
            outer = outer.inside


_UNNAMED = {
    "op": "an operator",
    "call": "a CUDA call",
    "pycall": "a call",
    "capture": "the begin of a capture",
    "capture-end": "the end of a capture",
    "exec": "the instantiation of a graph",
    "replay": "a replay",
}


class Change(Struct):
    """The first time a capture's status was seen to go Active → Invalidated (901 is never its cause)."""

    record: events.CaptureStatus
    across: Activity | None
    """The innermost activity across which it changed; None: it changed unseen, between two looks."""
    between: tuple[Activity | None, Activity | None] = (None, None)
    """If unseen: the last activity after which it was active, and the first before which it was not."""
    logs: tuple[events.Log, ...] = ()
    """Entries of the driver's log that belong to it, oldest first: the witness (API, code, thread)."""


class EventMark(Struct):
    """One record of a CUDA event on a stream."""

    by: Activity
    stream: int
    capture: int = 0
    """Id of the capture to which the stream belonged then; 0: outside of every capture, the event is a normal one."""
    external: bool = False
    """Recorded as an external event: an event node, waited for outside."""


class Fork(Struct):
    """A stream joined a capture by waiting for captured work."""

    stream: int
    by: Activity
    """The wait that made it join; the first work seen on it, where the wait was not recorded."""
    last_work: Activity | None = None
    """The last operator or call captured on it."""
    joined: bool = False
    """The origin stream waits, directly or through others, for all of its work."""
    joined_by: Activity | None = None
    """The wait that joined it, as far as it was seen."""


class CaptureState(Struct, eq=False):
    """One stream capture, from its begin to its end."""

    id: int
    begin: events.Capture
    began: bool = False
    """The begin call came back without an error."""
    begin_outcome: events.Outcome | None = None
    end: events.CaptureEnd | None = None
    end_outcome: events.Outcome | None = None
    change: Change | None = None
    activities: list[Activity] = field(default_factory=list)
    """Everything recorded between begin and end on any thread, in order."""
    forks: list[Fork] = field(default_factory=list)
    exceptions: list[events.ExceptionRecord] = field(default_factory=list)
    """Exceptions told while it was open or that passed through its end."""
    logs: list[events.Log] = field(default_factory=list)
    gcs: list[events.Gc] = field(default_factory=list)
    limits: list[events.Limit] = field(default_factory=list)
    nodes: int | None = None
    backfilled: bool = False
    """Its begin was not recorded, or was torn: `begin` is made up from the first record that names it."""
    ended_unseen: bool = False
    """It was over before anybody recorded its end: a call that is not watched ended it."""
    replays: int = 0
    """Replays of its graph that were begun."""
    failed_replays: list[events.Replay] = field(default_factory=list)
    state: events.State | None = None
    status: str = "unfinished"
    """`completed`, `failed`, `abandoned`, `unfinished`: as in the report."""
    retry: CaptureState | None = None
    """A later capture of the same region (same begin line, or same user function) that completed."""

    @property
    def tid(self) -> int:
        """Thread that began it."""
        return self.begin.tid

    @property
    def mode(self) -> str:
        """Capture mode: `global`, `thread_local`, `relaxed`."""
        return self.begin.mode

    @property
    def stream(self) -> int:
        """Id of the origin stream."""
        return self.begin.stream

    @property
    def first_q(self) -> int:
        """Sequence number of its begin."""
        return self.begin.q

    @property
    def last_q(self) -> int:
        """Sequence number of its end, or of the last thing known of it."""
        if self.end_outcome is not None:
            return self.end_outcome.q
        if self.end is not None:
            return self.end.q
        return self.activities[-1].end_q if self.activities else self.begin.q

    def ops(self) -> Iterator[Activity]:
        """The torch operators of the window, in order."""
        return (a for a in self.activities if a.kind == "op")

    def calls(self) -> Iterator[Activity]:
        """The CUDA calls of the window, in order."""
        return (a for a in self.activities if a.kind == "call")

    def fork(self, stream: int) -> Fork | None:
        """How a stream came into this capture; None: it did not, or is the origin."""
        return next((fork for fork in self.forks if fork.stream == stream), None)


class Session(Struct, eq=False):
    """One process."""

    index: int
    """Its number in the report."""
    header: events.Header
    exit: Exit
    evidence: tuple[EvidenceSpan, ...] = ()
    capabilities: dict[str, events.Capability] = field(default_factory=dict)
    """The newest record of each name."""
    sources: dict[int, events.Source] = field(default_factory=dict)
    stacks: dict[int, events.Stack] = field(default_factory=dict)
    threads: dict[int, events.Thread] = field(default_factory=dict)
    streams: dict[int, events.Stream] = field(default_factory=dict)
    cuda_events: dict[int, events.Event] = field(default_factory=dict)
    event_marks: dict[int, list[EventMark]] = field(default_factory=dict)
    """Where each CUDA event was recorded, by its id, oldest first."""
    captures: list[CaptureState] = field(default_factory=list)
    outside: list[Activity] = field(default_factory=list)
    """Recorded activities outside every capture window: event records and waits, failed calls, late uses of events."""
    exceptions: list[events.ExceptionRecord] = field(default_factory=list)
    replays: list[events.Replay] = field(default_factory=list)
    logs: list[events.Log] = field(default_factory=list)
    limits: list[events.Limit] = field(default_factory=list)
    races: list[events.Race] = field(default_factory=list)
    """Unordered accesses that the simulated device saw."""
    slots: dict[int, SlotState] = field(default_factory=dict)
    """Python state that captured regions read or wrote, by its id."""
    outputs: dict[int, OutputState] = field(default_factory=dict)
    """Tensors made in capture windows that something outside refers to, by their id."""
    touches: list[events.Touch] = field(default_factory=list)
    """Work outside every window on memory of graphs, oldest first."""
    storages: dict[int, StorageState] = field(default_factory=dict)
    """Storages that captured work uses, by their id."""
    probe_errors: list[events.ProbeError] = field(default_factory=list)
    lost: list[events.Lost] = field(default_factory=list)
    unreturned: list[Activity] = field(default_factory=list)
    """Intentions without an outcome, newest last: the newest of a thread names the fatal or hanging call."""
    damaged: int = 0
    """Lines that could not be read."""
    torn_end: bool = False
    """The last of the damaged lines was the last line: the process was killed in mid-write."""
    unknown: dict[str, int] = field(default_factory=dict)
    """How many records of each kind that this version does not know."""
    seal: events.Seal | None = None
    graphs: dict[int, events.Graph] = field(default_factory=dict)
    nodes: dict[int, list[events.Node]] = field(default_factory=dict)
    """The nodes of each graph that could be walked, by its id."""
    edges: dict[int, list[events.Edge]] = field(default_factory=dict)
    """The dependencies between them, by the graph's id."""
    execs: dict[int, events.Exec] = field(default_factory=dict)
    exec_captures: dict[int, CaptureState] = field(default_factory=dict)
    """The capture whose graph each executable graph was made from, by the executable graph's id."""
    destroyed: list[events.Destroy] = field(default_factory=list)
    """Graphs, executable graphs, streams, events and contexts that died, oldest first."""
    modules: list[events.Module] = field(default_factory=list)
    children: list[events.Process] = field(default_factory=list)
    hand_overs: list[events.HandOver] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    """What the capability records say: `torch`, `driver`, `device`, ..."""
    trace: str = ""
    """Name of the trace file."""
    own: tuple[str, ...] = ()
    """Distributions and paths that `--own` made the user's."""
    first_uses: dict[int, FirstUses] = field(default_factory=dict)
    """The first work on each storage, by the id of the capture; made when somebody asks (`session.uses`)."""
    _texts: dict[int, tuple[str | None, tuple[str, ...]]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Session {self.index} of {self.trace or 'records'}>"

    def has(self, capability: str) -> bool:
        """Whether a part of the recorder was on; an evidence level counts by its name."""
        if any(span.level == capability for span in self.evidence):
            return True
        found = self.capabilities.get(capability)
        return found is not None and found.state == "on"

    def why_not(self, names: tuple[str, ...]) -> str:
        """Why none of these was on, in words for the report."""
        for name in names:
            found = self.capabilities.get(name)
            if found is not None and found.why:
                return found.why
        from cudagraph_doctor.session.unrecorded import unrecorded  # most reports never ask

        return unrecorded(names)

    def level_at(self, t: int) -> Evidence:
        """The evidence level in force at a time (nanoseconds of the trace's clock)."""
        seconds = (t - self.header.t) / 1e9
        for span in reversed(self.evidence):
            if span.start is None or span.start <= seconds:
                return Evidence(span.level)
        return Evidence.PYTHON

    def location(self, stack: int) -> Location | None:
        """The line a finding names: innermost user frame, else innermost third-party frame, else None."""
        from cudagraph_doctor.session import frames  # it needs this module's types

        return frames.location(self, stack)

    def chain(self, stack: int) -> tuple[Location, ...]:
        """What the named line called, outermost first: the library frames below it."""
        from cudagraph_doctor.session import frames

        return frames.chain(self, stack)

    def callers(self, stack: int) -> tuple[Location, ...]:
        """The user frames above the named line, innermost first."""
        from cudagraph_doctor.session import frames

        return frames.callers(self, stack)

    def text(self, source: int) -> str | None:
        """The text of a source file, None where it was not recorded."""
        if source not in self._texts:
            from cudagraph_doctor.session import frames

            found = self.sources.get(source)
            text = frames.text_of(found) if found is not None else None
            self._texts[source] = (text, tuple(text.split("\n")) if text is not None else ())
        return self._texts[source][0]

    def line(self, source: int, line: int) -> str | None:
        """One line of a source file, stripped; None where it was not recorded."""
        self.text(source)
        lines = self._texts[source][1]
        return lines[line - 1].strip() if 1 <= line <= len(lines) else None

    def thread_name(self, tid: int) -> str:
        """The thread's name, `thread 1234` where it is not known."""
        found = self.threads.get(tid)
        return found.name if found is not None else f"thread {tid}"
