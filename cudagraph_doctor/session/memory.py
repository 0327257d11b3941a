"""Who reads and writes which memory in a capture window.

Answers whether work that was not captured matters: a kernel on another stream that fills a buffer which the graph then
reads leaves every replay with the old content, and one that reads what the graph writes saw nothing of it.
Operators tell their tensors (storage address and size, or the storage's id); CUDA calls only the addresses they name.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from msgspec import Struct

from cudagraph_doctor._wire import STATUS_ACTIVE
from cudagraph_doctor.session.apis import WORK, Family, family
from cudagraph_doctor.session.pointers import address_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudagraph_doctor.session.model import Activity, CaptureState
    from cudagraph_doctor.trace.events import Tensor


class Touch(Struct, frozen=True, gc=False):
    """A range of device memory that an activity reads or writes."""

    start: int
    """Address of the storage, or the address that a call names."""
    size: int
    """Bytes; at least 1."""
    reads: bool
    writes: bool
    storage: int = 0
    """Id of the storage object, 0 where none was given."""


def touches(activity: Activity) -> tuple[Touch, ...]:
    """The device memory that an activity reads and writes; empty where it is not known.

    An argument that an operator writes counts as written only: whether it is read first (`add_`) or not (`fill_`) its
    schema does not tell. A pointer of a CUDA call counts as both.
    """
    found = [_of_tensor(tensor, writes=tensor.written) for tensor in getattr(activity.record, "tensors", ())]
    if activity.outcome is not None:
        found += [_of_tensor(tensor, writes=True) for tensor in activity.outcome.tensors]
    if activity.kind == "call":
        found += _of_call(activity)
    return tuple(touch for touch in found if touch is not None)


def is_work(activity: Activity) -> bool:
    """Whether it puts work on a stream: a node where the stream captures, else something that runs at once."""
    if activity.kind == "op":
        return getattr(activity.record, "kind", "") == "compute"
    return activity.kind == "call" and family(activity.name) in WORK


class WindowMemory:
    """What the captured work of one window reads and writes."""

    def __init__(self, capture: CaptureState) -> None:
        self._writes = _Index()
        self._reads = _Index()
        for activity in capture.activities:
            if activity.on == STATUS_ACTIVE and is_work(activity) and not activity.failed:
                for touch in touches(activity):
                    if touch.writes:
                        self._writes.add(touch, activity)
                    if touch.reads:
                        self._reads.add(touch, activity)

    def writer(self, touched: Iterable[Touch]) -> Activity | None:
        """The first captured activity that writes any of this memory."""
        return self._writes.first(touched)

    def reader(self, touched: Iterable[Touch]) -> Activity | None:
        """The first captured activity that reads any of this memory."""
        return self._reads.first(touched)


class _Index:
    """The first activity of each range of memory, found by storage id or by address."""

    def __init__(self) -> None:
        self._by_storage: dict[int, Activity] = {}
        self._by_start: dict[int, tuple[int, int, Activity]] = {}
        """Size, storage id and activity of each range, by its address."""
        self._starts: list[int] | None = None
        self._largest = 0

    def add(self, touch: Touch, activity: Activity) -> None:
        if touch.storage:
            self._by_storage.setdefault(touch.storage, activity)
        known = self._by_start.get(touch.start)
        if known is None or known[0] < touch.size:
            first = known[2] if known is not None else activity
            self._by_start[touch.start] = (touch.size, touch.storage, first)
            self._starts = None
            self._largest = max(self._largest, touch.size)

    def first(self, touched: Iterable[Touch]) -> Activity | None:
        found = [activity for touch in touched for activity in self._meeting(touch)]
        return min(found, key=lambda activity: activity.q, default=None)

    def _meeting(self, touch: Touch) -> list[Activity]:
        if touch.storage and touch.storage in self._by_storage:
            return [self._by_storage[touch.storage]]
        if self._starts is None:
            self._starts = sorted(self._by_start)
        found = []
        for index in range(bisect_right(self._starts, touch.start + touch.size - 1) - 1, -1, -1):
            start = self._starts[index]
            if start + self._largest <= touch.start:
                break  # nothing that begins this far below can reach it
            size, storage, activity = self._by_start[start]
            # Ids decide where both have one: an address is reused.
            if start + size > touch.start and not (storage and touch.storage):
                found.append(activity)
        return found


def _of_tensor(tensor: Tensor, *, writes: bool) -> Touch | None:
    start = address_of(tensor.ptr)
    if start is None or not tensor.dev.startswith("cuda"):
        return None
    return Touch(start, max(tensor.size, 1), reads=not writes, writes=writes, storage=tensor.storage)


def _of_call(activity: Activity) -> list[Touch | None]:
    record = activity.record
    size = max(getattr(record, "size", None) or 1, 1)
    words = getattr(record, "ptrs", ())
    if family(activity.name) is not Family.LAUNCH:  # there it is the function's handle
        words = (*words, getattr(record, "ptr", ""))
    addresses = [address for address in map(address_of, words) if address is not None]
    return [Touch(address, size, reads=True, writes=True) for address in addresses]
