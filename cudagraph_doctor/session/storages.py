"""Storages that captured work uses: which graphs use them, and what became of them before each replay.

The recorder tells facts: a storage when a window first meets it, its death when that happens or when a look before a
replay finds it, host memory that was rewritten. Here they are put together, with the questions that checkers ask:
which graph's work uses this storage, was it alive at that replay, who has its address now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field, structs

from cudagraph_doctor.session.pointers import address_of

if TYPE_CHECKING:
    from cudagraph_doctor.session.captures import Captures
    from cudagraph_doctor.session.model import CaptureState, Session
    from cudagraph_doctor.trace import events

GENERAL = "general"
"""Pool of a storage that lies in ordinary memory of the caching allocator."""
AUTOCAST_CACHE = "autocast cache"
"""Owner of a storage that is a cast which autocast keeps."""
_CACHE_CLEARED = "clear_autocast_cache"
"""Call in which such casts die."""


class StorageState(Struct, eq=False):
    """One storage, or one allocation that is not torch's, and its fate."""

    record: events.Storage
    capture: CaptureState | None = None
    """The capture whose window met it first."""
    frees: list[events.Free] = field(default_factory=list)
    """Its death or move: when it happened, as far as that was seen, and at each look that found it so."""
    rewrites: list[events.Rewrite] = field(default_factory=list)
    """Of host memory: written again, recycled or freed."""

    @property
    def id(self) -> int:
        """As `Tensor.storage`."""
        return self.record.id

    @property
    def start(self) -> int:
        """Address of its first byte; 0 where it has none."""
        return address_of(self.record.ptr) or 0

    @property
    def end(self) -> int:
        """Address behind its last byte."""
        return self.start + max(self.record.size, 1)

    @property
    def on_host(self) -> bool:
        """It lies in host memory."""
        return not self.record.dev.startswith("cuda")

    @property
    def cached_cast(self) -> bool:
        """It came from outside of its window, and is a cast that autocast kept or let go."""
        cast = self.record.owner == AUTOCAST_CACHE or any(free.api.endswith(_CACHE_CLEARED) for free in self.frees)
        return cast and not self.record.inside

    @property
    def freed_by(self) -> events.Free | None:
        """The record of the free itself, made as it happened; None: it was only noticed later."""
        return next((free for free in self.frees if not free.noticed and not free.moved), None)


class Storages:
    """Takes the records of storages into the session."""

    def __init__(self, session: Session, captures: Captures) -> None:
        self._session = session
        self._captures = captures

    def storage(self, record: events.Storage) -> None:
        """A window met a storage; told again when more is known of it."""
        known = self._session.storages.get(record.id)
        if known is None:
            self._session.storages[record.id] = StorageState(record, self._captures.get(record.cap))
        else:
            known.record = record

    def free(self, record: events.Free) -> None:
        """A storage died or moved."""
        known = self._session.storages.get(record.id) if record.id else self._at(record.ptr)
        if known is not None:
            known.frees.append(record)

    def touch(self, record: events.Touch) -> None:
        """Work outside of windows. The simulated device tells an address: the newest storage there is meant."""
        if not record.storage and (found := self._holding(record.ptr)) is not None:
            record = structs.replace(record, storage=found.id)
        self._session.touches.append(record)

    def rewrite(self, record: events.Rewrite) -> None:
        """Host memory changed."""
        known = self._session.storages.get(record.storage)
        if known is not None:
            known.rewrites.append(record)

    def _holding(self, ptr: str) -> StorageState | None:
        address = address_of(ptr)
        if address is None:
            return None
        return next((s for s in reversed(self._session.storages.values()) if s.start <= address < s.end), None)

    def _at(self, ptr: str) -> StorageState | None:
        """The newest storage that begins at an address."""
        found = [state for state in self._session.storages.values() if state.record.ptr == ptr]
        return found[-1] if found else None
