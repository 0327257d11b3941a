"""Identities of CUDA streams and events: a raw handle names an object only within one life."""

from __future__ import annotations

import sys

from cudagraph_doctor.probe.frames import OURS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

    from cudagraph_doctor.probe.arm import Windows
    from cudagraph_doctor.probe.context import Context

LEGACY = (0, 1)
PER_THREAD = 2


class Streams:
    """Streams by raw handle; each is recorded when it is first seen."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._ids: dict[tuple[int, int], int] = {}
        context.after_fork(self._ids.clear)

    def id(self, handle: int, device: int = 0, *, kind: str = "", quiet: bool = True, **facts: Any) -> int:
        """Id of a stream.

        Args:
            handle: raw handle.
            device: index of its device.
            kind: as in `stream` records; found from the handle where it is not given.
            quiet: a capture window is open: the driver is not asked for the stream's flags.
            facts: further fields of the record.
        """
        key = (handle, device if handle in LEGACY or handle == PER_THREAD else -1)
        known = self._ids.get(key)
        if known is not None:
            return known
        number = self._ids[key] = self._context.ids.next("stream")
        if not kind:
            kind = "legacy" if handle in LEGACY else "per-thread" if handle == PER_THREAD else "stream"
        fields: dict[str, Any] = {"id": number, "handle": hex(handle), "device": device, "kind": kind, **facts}
        if not quiet and "blocking" not in fields:
            ask = getattr(self._context.driver, "blocking", None)
            blocking = ask(handle) if ask is not None else None
            if blocking is not None:
                fields["blocking"] = blocking
        self._context.write("stream", **fields)
        return number

    def known(self, handle: int, device: int = 0) -> int:
        """Id of a stream that was seen before, 0 otherwise."""
        return self._ids.get((handle, device if handle in LEGACY or handle == PER_THREAD else -1), 0)

    def forget(self, number: int) -> None:
        """The stream of this id was destroyed: its handle may come back with another life."""
        for key, known in list(self._ids.items()):
            if known == number:
                del self._ids[key]


class EventIdentity:
    """What is known of one CUDA event. It gets an id when a record first speaks of it."""

    __slots__ = ("cap", "external", "id", "pending", "place", "raw", "stream")

    def __init__(self, *, external: bool = False) -> None:
        self.id = 0
        self.external = external
        self.cap = 0
        """Capture in which it was recorded last; 0: outside of any."""
        self.stream = 0
        """Id of the stream it was recorded on last, where that is known."""
        self.raw: int | None = None
        self.place: tuple[CodeType, int, str] | None = None
        """Code, instruction and module of its last record outside windows."""
        self.pending = False
        """That record has not been told yet."""

    def recorded_outside(self, stream: Any) -> None:
        """It was recorded outside windows, by the innermost frame that is neither ours nor of torch's stream classes.

        `stream` is torch's object, a raw handle, or None for the current stream.
        """
        frame = sys._getframe(1)
        while frame.f_back is not None:
            name = frame.f_code.co_filename
            if not name.startswith(OURS) and not name.endswith(_TORCH_STREAMS):
                break
            frame = frame.f_back
        module = dict.get(frame.f_globals, "__name__")
        self.place = (frame.f_code, frame.f_lasti, module if type(module) is str else "")
        self.raw = stream if stream is None or type(stream) is int else getattr(stream, "cuda_stream", None)
        self.stream, self.cap, self.pending = 0, 0, True

    def recorded(self, stream: int, cap: int) -> None:
        """It was recorded inside a window, by a call that is told itself."""
        self.stream, self.cap, self.pending = stream, cap, False

    def tell(self, context: Context, handle: int = 0) -> int:
        """Its id; writes its `event` record at first."""
        if not self.id:
            self.id = context.ids.next("event")
            fields: dict[str, Any] = {"id": self.id, "external": self.external}
            if handle:
                fields["handle"] = hex(handle)
            context.write("event", **fields)
        return self.id

    def tell_record(self, context: Context, windows: Windows) -> None:
        """Write down its last record outside windows, late, because something inside one leans on it."""
        if not self.pending or self.place is None:
            return
        self.pending = False
        stack = context.stacks.of_place(*self.place) if context.stacks is not None else 0
        if self.raw is not None:
            self.stream = streams_of(context).id(self.raw, quiet=bool(windows.open))
        context.write(
            "call",
            api="cuEventRecord",
            layer="torch",
            code=0,
            event=self.tell(context),
            stream=self.stream,
            on=0,
            stack=stack,
        )


_TORCH_STREAMS = ("torch/cuda/streams.py", "torch\\cuda\\streams.py")


class Events:
    """Events by raw handle, for callers that have nothing else."""

    def __init__(self, context: Context) -> None:
        self._handles: dict[int, EventIdentity] = {}
        context.after_fork(self._handles.clear)

    def by_handle(self, handle: int) -> EventIdentity:
        """The event of a raw handle, made at first sight."""
        found = self._handles.get(handle)
        if found is None:
            found = self._handles[handle] = EventIdentity()
        return found

    def by_id(self, number: int) -> EventIdentity:
        """The event that was told under an id; a fresh one if it is gone."""
        return next((known for known in self._handles.values() if known.id == number), None) or EventIdentity()

    def find(self, handle: int) -> EventIdentity | None:
        """The event of a raw handle, if there is one."""
        return self._handles.get(handle)

    def is_handle_of(self, handle: int, event: EventIdentity) -> None:
        """Another part of the recorder knows this event by its object: both speak of one."""
        if handle:
            self._handles[handle] = event

    def forget(self, number: int) -> None:
        """The event of this id was destroyed."""
        for handle, known in list(self._handles.items()):
            if known.id == number:
                del self._handles[handle]


_streams: dict[int, Streams] = {}
_events: dict[int, Events] = {}


def streams_of(context: Context) -> Streams:
    """The streams of a context: one object a process."""
    found = _streams.get(id(context))
    if found is None:
        found = _streams[id(context)] = Streams(context)
    return found


def events_of(context: Context) -> Events:
    """The events of a context: one object a process."""
    found = _events.get(id(context))
    if found is None:
        found = _events[id(context)] = Events(context)
    return found
