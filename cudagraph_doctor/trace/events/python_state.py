"""Python state that a captured region read or wrote."""

from cudagraph_doctor.trace.events.base import Pointer, Record


class Slot(Record, tag="slot", frozen=True, kw_only=True):
    """A Python slot that a captured region read or wrote."""

    id: int
    path: str
    """As the user writes it: `self.layers[3].scale`, `options["penalty"]`."""
    kind: str
    """`global`, `local`, `cell`, `attribute`, `item`."""
    cap: int = 0
    read: bool = True
    written: bool = False
    value: str = ""
    ptr: Pointer = ""
    stack: int = 0


class SlotChange(Record, tag="slot-change", frozen=True, kw_only=True):
    """A watched slot held something else before a replay."""

    slot: int
    value: str = ""
    ptr: Pointer = ""
    exec: int = 0
    replay: int = 0
    stack: int = 0
    guess: bool = False
