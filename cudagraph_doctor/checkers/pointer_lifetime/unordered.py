"""A replay and other work on the same memory that no stream, event or wait orders: what CGD408 is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudagraph_doctor.session.pointers import address_of

if TYPE_CHECKING:
    from cudagraph_doctor.findings import Confidence
    from cudagraph_doctor.session.model import CaptureState, Session

LAUNCHES = ("cuGraphLaunch", "cudaGraphLaunch")


@dataclass(frozen=True)
class Access:
    """One of the two."""

    name: str
    stream: int
    stack: int
    writes: bool

    @property
    def replay(self) -> bool:
        """It is the launch of a graph."""
        return self.name.startswith(LAUNCHES)


@dataclass(frozen=True)
class Unordered:
    """Two accesses of which nothing says which comes first, the one that was made first in the program first."""

    first: Access
    second: Access
    what: str
    capture: CaptureState | None
    name: str
    """The memory, as the program calls it; empty where that is not known."""
    confidence: Confidence
    evidence: tuple[int, ...]


def name_at(session: Session, start: int, end: int) -> str:
    """The slot or output that lies there; empty where none is known."""
    for state in session.slots.values():
        if state.record.ptr and start <= (address_of(state.record.ptr) or 0) < end:
            return state.path
    for output in session.outputs.values():
        if output.record.ptr and start <= (address_of(output.record.ptr) or 0) < end:
            return output.record.path
    return ""
