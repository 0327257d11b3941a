"""Python state that captured regions read or wrote: what each slot held at capture, and what was found in it later.

The recorder tells facts: a slot of each capture, each look that found something else, each read outside of the region.
What they mean is the checkers' business; here they are put together, with the questions that several checkers ask.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.session.captures import Captures
    from cudagraph_doctor.session.model import CaptureState, Session
    from cudagraph_doctor.trace import events

UNKNOWN = object()
"""The value of a slot that holds no plain value, or one that was recorded shortened."""


class SlotState(Struct, eq=False):
    """One slot of one capture's region."""

    record: events.Slot
    capture: CaptureState | None = None
    changes: list[events.SlotChange] = field(default_factory=list)
    """Looks before a replay that found something else in it than the look before, oldest first."""
    uses: list[events.SlotUse] = field(default_factory=list)
    """Reads outside of the region after the capture."""
    family: list[SlotState] = field(default_factory=list)
    """The same slot of all captures that began at the same line, itself among them."""

    @property
    def path(self) -> str:
        """As the user writes it: `self.layers[3].scale`."""
        return self.record.path

    @property
    def is_input(self) -> bool:
        """The region read it before it wrote it, if it wrote it at all."""
        return self.record.read and self.record.first == "read"

    @property
    def is_tensor(self) -> bool:
        """It held a tensor when the region first touched it."""
        return bool(self.record.ptr)

    @property
    def name(self) -> str:
        """Last part of the path: `scale` of `self.layers[3].scale`."""
        return self.path.rpartition(".")[2]


class Slots:
    """Takes the records of slots into the session."""

    def __init__(self, session: Session, captures: Captures) -> None:
        self._session = session
        self._captures = captures

    def slot(self, record: events.Slot) -> None:
        """A slot that a region touched; told again when more is known of it (what it held when the region ended)."""
        known = self._session.slots.get(record.id)
        if known is None:
            self._session.slots[record.id] = SlotState(record, self._captures.get(record.cap))
        else:
            known.record = record

    def change(self, record: events.SlotChange) -> None:
        """A look found something else."""
        state = self._session.slots.get(record.slot)
        if state is not None:
            state.changes.append(record)

    def use(self, record: events.SlotUse) -> None:
        """Code outside of the region read it."""
        state = self._session.slots.get(record.slot)
        if state is not None:
            state.uses.append(record)

    def finish(self) -> None:
        """All is told: slots of captures that began at one line are put together."""
        families: dict[object, list[SlotState]] = {}
        sites: dict[int, object] = {}
        for state in self._session.slots.values():
            cap = state.record.cap
            if cap not in sites:
                place = self._session.location(state.capture.begin.stack) if state.capture is not None else None
                sites[cap] = (place.file, place.line) if place is not None else (cap,)
            key = (sites[cap], state.record.kind, state.path)
            state.family = families.setdefault(key, [])
            state.family.append(state)


def plain(text: str) -> object:
    """The value that a record shows, `UNKNOWN` where it shows none that can be compared."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return UNKNOWN


def equal(one: str, other: str) -> bool:
    """Whether two recorded values are the same to a program: `1` and `True`, `2` and `2.0`, equal texts."""
    if one == other:
        return True
    first, second = plain(one), plain(other)
    if first is UNKNOWN or second is UNKNOWN:
        return False
    try:
        return bool(first == second)
    except Exception:  # values of a damaged trace
        return False


def kin(state: SlotState) -> Iterator[SlotState]:
    """The same slot of the other captures that began at the same line: the members of a family of graphs."""
    return (other for other in state.family if other is not state and other.capture is not state.capture)


def rebound(session: Session, storage: int, ptr: str = "") -> SlotState | None:
    """The slot that held this storage at capture and was bound to another tensor before a replay.

    What becomes of the storage afterwards is a consequence of that: "rebound" (CGD402 to 404) goes before "freed".

    Args:
        session: The process.
        storage: Id of the storage; 0 where it is not known.
        ptr: Its address, as recorded, used where the id is not known.
    """
    for state in session.slots.values():
        record = state.record
        same = record.storage == storage if storage and record.storage else bool(ptr) and record.ptr == ptr
        if same and state.is_input and (_moved(state) or _one_of_moved_weights(session, state)):
            return state
    return None


def _moved(state: SlotState) -> bool:
    return any(moved(state, change) for change in state.changes)


def _one_of_moved_weights(session: Session, state: SlotState) -> bool:
    """Whether it is a weight, and others of its capture moved: one that came back to its address moved with them."""
    return bool(state.record.role) and any(
        other.record.cap == state.record.cap and other.record.role == state.record.role and _moved(other)
        for other in session.slots.values()
    )


def moved(state: SlotState, change: events.SlotChange) -> bool:
    """Whether a look found another tensor, at another address, than the region read and left there."""
    return bool(change.ptr) and not change.given and change.ptr not in {state.record.ptr, state.record.left_ptr}
