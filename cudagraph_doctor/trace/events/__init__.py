"""The records of a trace, typed. These files are the format: docs/trace-format.md is generated from them.

Every class is one record kind of `cudagraph_doctor._wire.KINDS`. Fields without a default must be there; a reader
ignores fields it does not know, and keeps records whose kind it does not know as `Unknown`.
"""

from __future__ import annotations

from msgspec import Struct

from cudagraph_doctor.trace.events.activities import Call, Copy, Launch, Op, Outcome, PyCall
from cudagraph_doctor.trace.events.base import Frame, Link, Pointer, Raised, Record, Tensor
from cudagraph_doctor.trace.events.captures import Capture, CaptureEnd, CaptureStatus, ExceptionRecord, Gc, Log, State
from cudagraph_doctor.trace.events.cuda_objects import Context, Destroy, Event, Function, Module, Stream
from cudagraph_doctor.trace.events.graphs import Edge, Exec, Graph, Node, Replay, Update
from cudagraph_doctor.trace.events.memory import Alloc, Free, Race, Rewrite, Storage, Touch
from cudagraph_doctor.trace.events.process import (
    Capability,
    EvidenceLevel,
    HandOver,
    Header,
    Limit,
    Lost,
    ProbeError,
    Process,
    Seal,
    Thread,
)
from cudagraph_doctor.trace.events.python_state import Held, Output, Slot, SlotChange, SlotUse
from cudagraph_doctor.trace.events.sources import Library, Source, Stack


class Unknown(Struct, frozen=True):
    """A record of a kind this version does not know."""

    kind: str
    q: int
    data: dict[str, object]


RECORDS: tuple[type[Record], ...] = (
    Header,
    Capability,
    EvidenceLevel,
    Source,
    Stack,
    Library,
    Thread,
    Stream,
    Event,
    Capture,
    CaptureStatus,
    CaptureEnd,
    Op,
    PyCall,
    Call,
    Outcome,
    Launch,
    Copy,
    Alloc,
    Storage,
    Free,
    Rewrite,
    Touch,
    Graph,
    Node,
    Edge,
    Exec,
    Update,
    Replay,
    Destroy,
    Module,
    Function,
    Context,
    Slot,
    SlotChange,
    SlotUse,
    Output,
    Held,
    Gc,
    ExceptionRecord,
    State,
    Log,
    Limit,
    Race,
    Process,
    ProbeError,
    Lost,
    HandOver,
    Seal,
)
"""Every kind, in the order of `_wire.KINDS`."""

__all__ = [
    "RECORDS",
    "Alloc",
    "Call",
    "Capability",
    "Capture",
    "CaptureEnd",
    "CaptureStatus",
    "Context",
    "Copy",
    "Destroy",
    "Edge",
    "Event",
    "EvidenceLevel",
    "ExceptionRecord",
    "Exec",
    "Frame",
    "Free",
    "Function",
    "Gc",
    "Graph",
    "HandOver",
    "Header",
    "Held",
    "Launch",
    "Library",
    "Limit",
    "Link",
    "Log",
    "Lost",
    "Module",
    "Node",
    "Op",
    "Outcome",
    "Output",
    "Pointer",
    "ProbeError",
    "Process",
    "PyCall",
    "Race",
    "Raised",
    "Record",
    "Replay",
    "Rewrite",
    "Seal",
    "Slot",
    "SlotChange",
    "SlotUse",
    "Source",
    "Stack",
    "State",
    "Storage",
    "Stream",
    "Tensor",
    "Thread",
    "Touch",
    "Unknown",
    "Update",
]
