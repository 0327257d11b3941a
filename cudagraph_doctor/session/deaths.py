"""Storages that were gone when a graph that uses them was replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from cudagraph_doctor.session.uses import Use, first_use, node_use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.session.model import CaptureState, Session
    from cudagraph_doctor.session.storages import StorageState
    from cudagraph_doctor.trace import events


class Death(Struct, frozen=True):
    """A storage was dead, or had moved, before a replay of a graph that uses it."""

    storage: StorageState
    use: Use
    found: events.Free
    """The first look before a replay of that graph which found it so."""
    last: events.Free
    """The last one: what is at its address by then."""

    @property
    def capture(self) -> CaptureState:
        """The capture that made the graph."""
        return self.use.capture

    @property
    def replay(self) -> int:
        """Number of the first replay for which it was gone, from 1."""
        return max(self.found.replay, 1)

    @property
    def certain(self) -> bool:
        """The storage itself was an argument of captured work; False: only a word among a node's parameters says so."""
        return self.use.tensor is not None


def deaths(session: Session) -> Iterator[Death]:
    """Every storage that was gone at a replay, once for each graph that uses it, oldest first."""
    for storage in session.storages.values():
        looks: dict[int, list[events.Free]] = {}
        for free in storage.frees:
            capture = session.exec_captures.get(free.exec) if free.exec else None
            if capture is not None:
                looks.setdefault(id(capture), []).append(free)
        for found in looks.values():
            capture = session.exec_captures[found[0].exec]
            use = first_use(session, storage, capture) or node_use(session, storage, capture)
            if use is not None:
                yield Death(storage, use, found[0], found[-1])
