"""What the captured work of the windows of a process reads and writes, asked by a storage and an address in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cudagraph_doctor.session.memory import Touch, WindowMemory
from cudagraph_doctor.session.pointers import address_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.session.model import Activity, CaptureState, Session
    from cudagraph_doctor.trace.events import Slot, Tensor


class UsedStorages(NamedTuple):
    """Ids of the storages that the operators of a window work on."""

    used: frozenset[int]
    written: frozenset[int]


def used_storages(capture: CaptureState) -> UsedStorages:
    """What a window's operators read and write, results included."""
    written = {tensor.storage for tensor, _ in _written(capture)}
    read = {
        tensor.storage
        for activity in capture.ops()
        if getattr(activity.record, "kind", "") == "compute"
        for tensor in getattr(activity.record, "tensors", ())
    }
    return UsedStorages(frozenset(read | written) - {0}, frozenset(written) - {0})


class WindowUse:
    """Each window is looked at when it is first asked for."""

    def __init__(self, session: Session) -> None:
        self._captures = [capture for capture in session.captures if capture.status == "completed"]
        self._known: dict[int, WindowMemory] = {}
        self._written: dict[int, list[tuple[Tensor, Activity]]] = {}

    def user(self, capture: CaptureState, slot: Slot) -> Activity | None:
        """Captured work on the memory that a slot held; an operator before a bare launch."""
        if capture.id not in self._known:
            self._known[capture.id] = WindowMemory(capture)
        start = address_of(slot.ptr) or 0
        place = (Touch(start, 1, reads=True, writes=False, storage=slot.storage),)
        memory = self._known[capture.id]
        return self.writer(capture, slot) or memory.reader(place) or memory.writer(place)

    def writer(self, capture: CaptureState, slot: Slot) -> Activity | None:
        """The first captured operator that says that it writes there. A bare launch does not say what it writes."""
        if capture.id not in self._written:
            self._written[capture.id] = list(_written(capture))
        start = address_of(slot.ptr) or 0
        for tensor, activity in self._written[capture.id]:
            if tensor.storage and slot.storage:
                if tensor.storage == slot.storage:
                    return activity
            elif 0 <= start - (address_of(tensor.ptr) or 0) < max(tensor.size, 1):
                return activity
        return None

    def another_writes(self, capture: CaptureState, slot: Slot) -> bool:
        """Whether another graph fills the memory that a slot held."""
        return any(self.writer(other, slot) is not None for other in self._captures if other is not capture)


def _written(capture: CaptureState) -> Iterator[tuple[Tensor, Activity]]:
    for activity in capture.ops():
        if activity.failed or getattr(activity.record, "kind", "") == "view":
            continue
        for tensor in getattr(activity.record, "tensors", ()):
            if tensor.written:
                yield tensor, activity
        for tensor in activity.outcome.tensors if activity.outcome is not None else ():
            yield tensor, activity
