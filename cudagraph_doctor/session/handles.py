"""Raw handles of streams and events as ids: for writers inside the driver, which know no ids.

A handle names an object only within one life: the newest object with that handle is meant. An object that was never
told of is taken in with a negative id and no birth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cudagraph_doctor.trace import events

if TYPE_CHECKING:
    from typing import TypeVar

    from cudagraph_doctor.session.model import Session

    Handled = TypeVar("Handled", bound=events.Call | events.Capture | events.CaptureEnd)

_LEGACY = (0, 1)
"""Handles that mean the legacy default stream: NULL and CU_STREAM_LEGACY."""
_PER_THREAD = 2


class Handles:
    """The newest object of each handle."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._streams: dict[tuple[int, int], int] = {}
        self._events: dict[int, int] = {}
        self._made_up = 0

    def stream(self, record: events.Stream) -> None:
        """A stream was seen first."""
        self._session.streams[record.id] = record
        number = _number(record.handle)
        if number is not None:
            self._streams[self._stream_key(number, record.device, record.tid)] = record.id

    def event(self, record: events.Event) -> None:
        """A CUDA event was seen first."""
        self._session.cuda_events[record.id] = record
        number = _number(record.handle)
        if number:
            self._events[number] = record.id

    def resolve(self, record: Handled) -> Handled:
        """The record with the ids of its stream and its event."""
        changes: dict[str, int] = {}
        if record.handle and not record.stream:
            changes["stream"] = self._stream_of(record)
        if isinstance(record, events.Call) and record.event_handle and not record.event:
            changes["event"] = self._event_of(record)
        return msgspec.structs.replace(record, **changes) if changes else record

    def _stream_of(self, record: events.Call | events.Capture | events.CaptureEnd) -> int:
        number = _number(record.handle)
        if number is None:
            return 0
        device = getattr(record, "device", None) or 0
        key = self._stream_key(number, device, record.tid)
        found = self._streams.get(key)
        if found is None:
            self._made_up -= 1
            kind = "legacy" if number in _LEGACY else "per-thread" if number == _PER_THREAD else "stream"
            found = self._streams[key] = self._made_up
            blocking = True if kind == "legacy" else None
            self._session.streams[found] = events.Stream(
                q=record.q,
                t=record.t,
                tid=record.tid,
                id=found,
                handle=record.handle,
                device=device,
                kind=kind,
                blocking=blocking,
            )
        return found

    def _event_of(self, record: events.Call) -> int:
        number = _number(record.event_handle)
        if number is None:
            return 0
        found = self._events.get(number)
        if found is None:
            self._made_up -= 1
            found = self._events[number] = self._made_up
            self._session.cuda_events[found] = events.Event(
                q=record.q, t=record.t, tid=record.tid, id=found, handle=record.event_handle
            )
        return found

    @staticmethod
    def _stream_key(number: int, device: int, tid: int) -> tuple[int, int]:
        """The default streams are one a device, the per-thread one a thread; other handles are unique."""
        if number in _LEGACY:
            return (0, device)
        return (number, tid) if number == _PER_THREAD else (number, -1)


def _number(handle: str) -> int | None:
    if not handle or len(handle) > 18:
        return None
    try:
        return int(handle, 16)
    except ValueError:
        return None
