"""Who reads and writes which memory in a capture window.

Answers whether work that was not captured matters: a kernel on another stream that fills a buffer which the graph then
reads leaves every replay with the old content, and one that reads what the graph writes saw nothing of it.
Operators tell their tensors (storage address and size, or the storage's id); CUDA calls only the addresses they name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import STATUS_ACTIVE, STATUS_NONE
from cudagraph_doctor.session.apis import WORK, family

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.session.model import Activity, CaptureState
    from cudagraph_doctor.trace.events import Tensor


@dataclass(frozen=True)
class Touch:
    """A range of memory that an activity reads or writes."""

    start: int
    """Address."""
    size: int
    """Bytes; at least 1."""
    writes: bool
    reads: bool
    device: str = ""
    """`cuda:0`, `cpu`, or nothing where it is not known."""
    storage: int = 0
    """Id of the storage object, 0 where none was given."""

    def meets(self, other: Touch) -> bool:
        """Whether both are (partly) the same memory. Ids decide where both have one: an address may be reused."""
        if self.storage and other.storage:
            return self.storage == other.storage
        if self.device and other.device and self.device != other.device:
            return False
        return self.start < other.start + other.size and other.start < self.start + self.size


@dataclass(frozen=True)
class Flow:
    """How uncaptured work hangs together with the captured work of its window."""

    read_by: tuple[Activity, ...] = ()
    """Captured activities after it that read what it wrote: on replay they find old content."""
    reads_from: tuple[Activity, ...] = ()
    """Captured activities before it that write what it reads: it ran on memory that was not computed yet."""

    @property
    def matters(self) -> bool:
        """The graph and this work exchange data."""
        return bool(self.read_by or self.reads_from)


def touches(activity: Activity) -> tuple[Touch, ...]:
    """The memory that an activity reads and writes; empty where it is not known."""
    record = activity.record
    found = [_of_tensor(tensor, result=False) for tensor in getattr(record, "tensors", ())]
    if activity.outcome is not None:
        found += [_of_tensor(tensor, result=True) for tensor in activity.outcome.tensors]
    if activity.kind == "call":
        found += _of_call(activity)
    return tuple(touch for touch in found if touch is not None)


def is_work(activity: Activity) -> bool:
    """Whether it puts work on a stream: a node where the stream captures, else something that runs at once."""
    if activity.failed:
        return False
    if activity.kind == "op":
        return getattr(activity.record, "kind", "") == "compute"
    return activity.kind == "call" and family(activity.name) in WORK


def captured(capture: CaptureState) -> Iterator[Activity]:
    """The work that went into the graph, in order."""
    return (a for a in capture.activities if is_work(a) and a.on == STATUS_ACTIVE)


def uncaptured(capture: CaptureState) -> Iterator[Activity]:
    """The work of the window that ran at once, on streams without a capture, in order.

    Calls inside an operator of the list are left out.
    """
    told: set[int] = set()
    for activity in capture.activities:
        if is_work(activity) and activity.on == STATUS_NONE:
            told.add(id(activity))
            if not any(id(outer) in told for outer in activity.enclosing()):
                yield activity


def flow(capture: CaptureState, activity: Activity) -> Flow:
    """What uncaptured work exchanges with the captured work around it."""
    mine = touches(activity)
    written = [touch for touch in mine if touch.writes]
    read = [touch for touch in mine if touch.reads]
    read_by: list[Activity] = []
    reads_from: list[Activity] = []
    for other in captured(capture):
        if other.q > activity.q:
            if written and any(t.reads and t.meets(w) for t in touches(other) for w in written):
                read_by.append(other)
        elif read and any(t.writes and t.meets(r) for t in touches(other) for r in read):
            reads_from.append(other)
    return Flow(tuple(read_by), tuple(reads_from))


def _of_tensor(tensor: Tensor, *, result: bool) -> Touch | None:
    start = _address(tensor.ptr)
    if start is None and not tensor.storage:
        return None
    writes = tensor.written or result
    return Touch(
        start=start or 0,
        size=max(tensor.size, 1),
        writes=writes,
        # A written argument may be read too (`add_`); a fresh result is not.
        reads=not result,
        device=tensor.dev,
        storage=tensor.storage,
    )


def _of_call(activity: Activity) -> list[Touch | None]:
    """A call names addresses without saying what it does with them: a pointer of a kernel counts as both."""
    record = activity.record
    size = max(getattr(record, "size", None) or 1, 1)
    words = (getattr(record, "ptr", ""), *getattr(record, "ptrs", ()))
    addresses = [a for a in map(_address, words) if a is not None]
    return [Touch(start=a, size=size, writes=True, reads=True) for a in addresses]


def _address(text: str) -> int | None:
    """The number of a recorded pointer; None for none, a null pointer, or text that is no pointer."""
    if not text or len(text) > 18:
        return None
    try:
        return int(text, 16) or None
    except ValueError:
        return None
