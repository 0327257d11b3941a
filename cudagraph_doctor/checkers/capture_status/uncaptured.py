"""Work in a capture's window that went to a stream which does not capture, and whether the graph depends on it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import STATUS_ACTIVE, STATUS_NONE
from cudagraph_doctor.checkers.invalidation.calls import WORK, family_of
from cudagraph_doctor.checkers.invalidation.operators import is_copy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cudagraph_doctor.session.model import Activity, CaptureState
    from cudagraph_doctor.trace import events


class Tie(enum.Enum):
    """How uncaptured work is tied to the graph, the surest first."""

    READS_RESULT = "reads-result"
    """It reads memory that captured work wrote."""
    FEEDS_GRAPH = "feeds-graph"
    """It writes memory that captured work reads or writes."""
    UNKNOWN_MEMORY = "unknown-memory"
    """What it reads and writes was not recorded."""
    SHARES_INPUT = "shares-input"
    """It calculates from the same inputs as the graph."""


@dataclass(frozen=True)
class Uncaptured:
    """One piece of work that is missing from the graph."""

    activity: Activity
    tie: Tie
    other: Activity | None = None
    """The captured work that it is tied to."""


@dataclass
class _Memory:
    """Which captured work read and wrote which storage."""

    writers: dict[int, Activity] = field(default_factory=dict)
    readers: dict[int, Activity] = field(default_factory=dict)
    ranges: dict[int, int] = field(default_factory=dict)
    """Bytes of each storage, by address."""

    def add(self, op: Activity) -> None:
        for tensor in reads(op):
            self.readers.setdefault(_address(tensor), op)
            self.ranges[_address(tensor)] = tensor.size
        for tensor in writes(op):
            self.writers.setdefault(_address(tensor), op)
            self.ranges[_address(tensor)] = tensor.size

    def storage_of(self, pointer: str) -> int | None:
        """The storage that an address lies in."""
        value = int(pointer, 16)
        return next((start for start, size in self.ranges.items() if start <= value < start + max(size, 1)), None)


def uncaptured_work(capture: CaptureState) -> Iterator[Uncaptured]:
    """The work of the capturing thread that the graph misses and needs, in order.

    Work on other threads is theirs, and a copy whose target the graph does not read is a prefetch: both are deliberate.
    """
    memory = _Memory()
    for op in capture.ops():
        if is_work(op) and op.on == STATUS_ACTIVE and not op.failed:
            memory.add(op)
    for activity in capture.activities:
        if not _is_loose(capture, activity):
            continue
        tied = _tie_op(activity, memory) if activity.kind == "op" else _tie_call(activity, memory)
        if tied is not None:
            yield tied


def is_work(activity: Activity) -> bool:
    """It gives the device something to do: no view, no allocation, nothing on the host."""
    if activity.kind == "op":
        return getattr(activity.record, "kind", "") == "compute"
    return activity.kind == "call" and family_of(activity.name) in WORK


def reads(op: Activity) -> Iterable[events.Tensor]:
    """CUDA tensors that an operator reads; one that it only overwrites still counts as written."""
    return [
        t for t in getattr(op.record, "tensors", ()) if t.dev.startswith("cuda") and not t.written and t.at[:1] != "r"
    ]


def writes(op: Activity) -> Iterable[events.Tensor]:
    """CUDA tensors that an operator writes, its results included."""
    results = op.outcome.tensors if op.outcome is not None else ()
    given = [t for t in getattr(op.record, "tensors", ()) if t.written]
    return [t for t in (*given, *results) if t.dev.startswith("cuda")]


def _is_loose(capture: CaptureState, activity: Activity) -> bool:
    """Work on the capturing thread and device, on a stream without a capture."""
    thread = getattr(activity.record, "via", 0) or activity.tid
    if thread != capture.tid or activity.on != STATUS_NONE or activity.failed or not is_work(activity):
        return False
    device = getattr(activity.record, "device", None)
    if device is not None and device != capture.begin.device:
        return False
    return not any(outer.kind == "op" and outer.on == STATUS_NONE and is_work(outer) for outer in activity.enclosing())


def _tie_op(op: Activity, memory: _Memory) -> Uncaptured | None:
    read = [_address(t) for t in reads(op)]
    written = [_address(t) for t in writes(op)]
    for address in read:
        writer = memory.writers.get(address)
        if writer is not None:
            return Uncaptured(op, Tie.READS_RESULT, writer)
    for address in written:
        user = memory.readers.get(address) or memory.writers.get(address)
        if user is not None:
            return Uncaptured(op, Tie.FEEDS_GRAPH, user)
    if not is_copy(op.name):
        for address in read:
            reader = memory.readers.get(address)
            if reader is not None:
                return Uncaptured(op, Tie.SHARES_INPUT, reader)
    return None


def _tie_call(call: Activity, memory: _Memory) -> Uncaptured | None:
    record = call.record
    pointers = [p for p in (*getattr(record, "ptrs", ()), getattr(record, "ptr", "")) if p]
    outer = next((a for a in call.enclosing() if a.kind == "op"), None)
    if not pointers:
        # A library's own stream inside a captured operator, or a launch whose parameters nobody read.
        return Uncaptured(call, Tie.UNKNOWN_MEMORY, outer)
    for pointer in pointers:
        storage = memory.storage_of(pointer)
        if storage is None:
            continue
        user = memory.writers.get(storage) or memory.readers.get(storage)
        if user is not None:
            return Uncaptured(call, Tie.READS_RESULT if storage in memory.writers else Tie.FEEDS_GRAPH, user)
    return None


def _address(tensor: events.Tensor) -> int:
    return int(tensor.ptr, 16)
