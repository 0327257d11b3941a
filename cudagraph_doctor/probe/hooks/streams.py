"""`torch.cuda.Stream`, `torch.cuda.Event` and `torch.cuda.synchronize`: order between streams, and waits of the host.

Inside windows every call is recorded, on any thread, under the name of the driver call that it makes. Outside, an event
only remembers where it was recorded last, and whether that was in a capture: for a wait inside a window on work outside
of it, and for a host's use of an event that a capture recorded.
"""

from __future__ import annotations

from _thread import get_ident
from contextlib import suppress

from cudagraph_doctor.probe.arm import Window, windows_of
from cudagraph_doctor.probe.bindings_calls import complete
from cudagraph_doctor.probe.context import Active, Unavailable
from cudagraph_doctor.probe.cuda_codes import raised
from cudagraph_doctor.probe.current import Current
from cudagraph_doctor.probe.objects import EventIdentity, events_of, streams_of
from cudagraph_doctor.probe.patch import patch
from cudagraph_doctor.probe.tracebacks import hide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

NAME = "streams"
MODULES = ("torch",)
ATTRIBUTE = "_cudagraph_doctor"
OUTSIDE = frozenset({
    "cuEventRecord", "cuStreamWaitEvent", "cuEventSynchronize", "cuStreamSynchronize", "cuCtxSynchronize",
})  # fmt: skip
"""Calls that order replays with each other and with what is between them."""
MOST_OUTSIDE = 3000
"""Such calls that are told outside windows, once there is a graph: 150 bytes and 20 µs each."""
_HOST = frozenset({"cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"})


def install(module: ModuleType | None, context: Context) -> Active | Unavailable | None:
    """Patches the classes and `torch.cuda.synchronize`."""
    torch: Any = module
    if not hasattr(torch.cuda, "Event"):
        return Unavailable("this torch has no torch.cuda.Event")
    simulated = context.config.device == "sim"
    calls = StreamCalls(context, torch, windows=not simulated)
    stream, event = torch.cuda.Stream, torch.cuda.Event
    patch(event, "record", calls.wrap("cuEventRecord", calls.event_and_stream))
    patch(event, "wait", calls.wrap("cuStreamWaitEvent", calls.event_and_stream))
    patch(event, "query", calls.wrap("cuEventQuery", calls.event_alone))
    patch(event, "synchronize", calls.wrap("cuEventSynchronize", calls.event_alone))
    patch(event, "elapsed_time", calls.wrap("cuEventElapsedTime", calls.event_alone))
    patch(stream, "wait_event", calls.wrap("cuStreamWaitEvent", calls.stream_and_event))
    patch(stream, "record_event", calls.wrap("cuEventRecord", calls.stream_and_event))
    patch(stream, "wait_stream", calls.wrap("cuStreamWaitEvent", calls.stream_and_stream))
    patch(stream, "query", calls.wrap("cuStreamQuery", calls.stream_alone))
    patch(stream, "synchronize", calls.wrap("cuStreamSynchronize", calls.stream_alone))
    patch(torch.cuda, "synchronize", calls.wrap("cuCtxSynchronize", calls.nothing))
    _mark_external(event)
    if simulated:
        why = "covered by the simulated device; outside windows, uses of captured events are seen"
        context.capability(NAME, "off", why)
        return None
    return Active()


class About:
    """What one call is about."""

    __slots__ = ("event", "other", "stream")

    def __init__(self, stream: Any = None, event: Any = None, other: Any = None) -> None:
        self.stream = stream
        self.event = event
        self.other = other


class StreamCalls:
    """Records calls on streams and events."""

    def __init__(self, context: Context, torch: Any, *, windows: bool) -> None:
        self._context = context
        self._torch = torch
        self._inside = windows
        self._windows = windows_of(context)
        self._streams = streams_of(context)
        self._events = events_of(context)
        self._current = Current(torch)
        self._nested: set[int] = set()
        self._left = MOST_OUTSIDE
        guard = context.guard(NAME)
        self._before_guarded = guard(self._before)
        self._after_guarded = guard(self._after)

    # ── what a call is about ────────────────────────────────────────────────────────────────────
    def event_and_stream(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> About:
        """`event.record(stream=None)`, `event.wait(stream=None)`."""
        stream = args[1] if len(args) > 1 else kwargs.get("stream")
        return About(stream if stream is not None else self._torch.cuda.current_stream(), args[0])

    def stream_and_event(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> About:
        """`stream.wait_event(event)`, `stream.record_event(event=None)`."""
        return About(args[0], args[1] if len(args) > 1 else kwargs.get("event"))

    @staticmethod
    def stream_and_stream(args: tuple[Any, ...], kwargs: dict[str, Any]) -> About:
        """`stream.wait_stream(other)`."""
        return About(args[0], None, args[1] if len(args) > 1 else kwargs.get("stream"))

    @staticmethod
    def event_alone(args: tuple[Any, ...], kwargs: dict[str, Any]) -> About:
        """`event.query()`, `event.elapsed_time(end)`."""
        event = args[0]
        end = args[1] if len(args) > 1 else None
        if end is not None and not _cap(event) and _cap(end):
            event = end
        return About(None, event)

    @staticmethod
    def stream_alone(args: tuple[Any, ...], kwargs: dict[str, Any]) -> About:
        """`stream.synchronize()`."""
        return About(args[0])

    @staticmethod
    def nothing(args: tuple[Any, ...], kwargs: dict[str, Any]) -> About:
        """`torch.cuda.synchronize()`."""
        return About()

    # ── wrappers ────────────────────────────────────────────────────────────────────────────────
    def wrap(self, api: str, about: Callable[..., About]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A wrapper of a method that ends in the driver call `api`."""
        windows, inside, note = self._windows, self._inside, self._note
        orders, outside = api in OUTSIDE, self._outside
        records = api == "cuEventRecord"
        uses = api.startswith("cuEvent") and not records

        def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
            told = self._told(original, api, about)

            def call(*args: Any, **kwargs: Any) -> Any:
                try:
                    if inside if windows.open else orders and windows.newest and outside():
                        return told(*args, **kwargs)
                    return original(*args, **kwargs)
                except BaseException as error:
                    hide(error)
                    raise

            def record(*args: Any, **kwargs: Any) -> Any:
                try:
                    if inside if windows.open else windows.newest and outside():
                        return told(*args, **kwargs)
                    result = original(*args, **kwargs)
                except BaseException as error:
                    hide(error)
                    raise
                note(about, args, kwargs, result)
                return result

            def use(*args: Any, **kwargs: Any) -> Any:
                try:
                    if _captured(args) or (inside if windows.open else orders and windows.newest and outside()):
                        return told(*args, **kwargs)
                    return original(*args, **kwargs)
                except BaseException as error:
                    hide(error)
                    raise

            return record if records else use if uses else call

        return wrapped

    def _outside(self) -> bool:
        """Whether a call outside windows is told: while there is room for it."""
        if self._left <= 0 or get_ident() in self._nested:
            return False
        self._left -= 1
        if not self._left:
            why = f"calls that order streams outside of captures, beyond the first {MOST_OUTSIDE}"
            self._context.write("lost", count=0, why=why)
        return True

    def _told(self, original: Callable[..., Any], api: str, about: Callable[..., About]) -> Callable[..., Any]:
        """The wrapper that records; calls that torch makes inside of it are part of it."""
        nested = self._nested

        def call(*args: Any, **kwargs: Any) -> Any:
            ident = get_ident()
            if ident in nested:
                return original(*args, **kwargs)
            begun = self._before_guarded(api, about, args, kwargs)
            nested.add(ident)
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                nested.discard(ident)
                self._after_guarded(begun, None, error)
                raise
            nested.discard(ident)
            self._after_guarded(begun, result, None)
            return result

        return call

    # ── bodies ──────────────────────────────────────────────────────────────────────────────────
    def _before(
        self, api: str, about: Callable[..., About], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[dict[str, Any], Window | None, int, About]:
        context, windows = self._context, self._windows
        what = about(args, kwargs)
        windows.look(0, "call", across=False)
        fields: dict[str, Any] = {"api": api, "layer": "torch"}
        window = None
        handle = _handle(what.stream)
        if handle is not None:
            fields["stream"] = self._stream(what.stream)
            fields["device"] = getattr(what.stream, "device_index", 0)
            fields["on"] = context.driver.status(handle)
            window = windows.of_stream(handle)
        other = _handle(what.other)
        if other is not None:
            fields["other"] = self._stream(what.other)
            window = window or windows.of_stream(other)
        if what.event is not None:
            known = _identity(what.event)
            if api == "cuStreamWaitEvent":
                known.tell_record(context, windows)
                fields["other"] = known.stream
            fields["event"] = known.tell(context, getattr(what.event, "cuda_event", 0) or 0)
            if window is None and known.cap:
                window = next((one for one in windows.open if one.id == known.cap), None)
        window = window or windows.here()
        if window is not None:
            fields["cap"] = window.id
            fields["before"] = window.status
        fields["op"] = windows.operators.get(get_ident(), 0)
        fields["stack"] = context.stack()
        q = context.write("call", **fields) if api in _HOST else 0
        return fields, window, q, what

    def _after(
        self,
        told: tuple[dict[str, Any], Window | None, int, About] | None,
        result: Any,
        error: BaseException | None,
    ) -> None:
        if told is None:
            return
        fields, window, q, what = told
        context, windows = self._context, self._windows
        changed = windows.changed()
        ended: dict[str, Any] = {"code": 0}
        if error is not None:
            ended["exc"] = raised(error)
            ended["code"] = ended["exc"].get("code")
        if window is not None:
            ended["after"] = window.status
        event = what.event if what.event is not None else result
        known = None
        if fields["api"] == "cuEventRecord" and error is None and event is not None:
            known = _identity(event)
            handle = getattr(event, "cuda_event", 0) or 0
            fields["event"] = known.tell(context, handle)  # `stream.record_event()` has made it only now
            self._events.is_handle_of(handle, known)
        q = complete(context, q, fields, ended)
        if changed:
            windows.tell(changed, q, "call")
        if window is not None:
            windows.returned(q, window, fields.get("before"), window.status)
            if error is not None and not changed:
                windows.failed(window, q)
        if known is not None:
            known.recorded(fields.get("stream", 0), fields.get("cap", 0) if fields.get("on") else 0)

    def _note(self, about: Callable[..., About], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """An event was recorded outside windows, or on the simulated device. Half a microsecond, so not guarded."""
        try:
            event = args[0] if result is None else result
            known = event._cudagraph_doctor
        except (AttributeError, IndexError):
            known = None
        try:
            stream = None if len(args) + len(kwargs) < 2 else about(args, kwargs).stream
            if known is None:
                known = _identity(event)
            if self._inside or not self._windows.open:
                known.recorded_outside(stream)
            if not self._inside:
                self._note_simulated(known, event, about(args, kwargs).stream)
        except Exception:
            return  # an object of another class: what it was recorded on is not known

    def _note_simulated(self, known: EventIdentity, event: Any, stream: Any) -> None:
        """The simulated device names events by handle, and gives none twice."""
        raw = getattr(event, "cuda_event", 0) or 0
        told = self._events.find(raw)
        known.id = known.id or (told.id if told is not None else 0)
        self._events.is_handle_of(raw, known)
        handle = _handle(stream)
        window = self._windows.of_stream(handle) if handle is not None else None
        if window is not None:
            known.recorded(self._stream(stream), window.id)

    def _stream(self, stream: Any) -> int:
        device = getattr(stream, "device_index", 0)
        kind = "external" if isinstance(stream, self._torch.cuda.ExternalStream) else ""
        return self._streams.id(stream.cuda_stream, device, kind=kind, quiet=bool(self._windows.open))


def _captured(args: tuple[Any, ...]) -> bool:
    """Whether one of the events was recorded last in a capture."""
    for event in args:
        found = getattr(event, ATTRIBUTE, None)
        if found is not None and found.cap and not found.external:
            return True
    return False


def _identity(event: Any) -> EventIdentity:
    found = getattr(event, ATTRIBUTE, None)
    if found is None:
        found = EventIdentity()
        with suppress(AttributeError):  # an event of another class: known for this call only
            setattr(event, ATTRIBUTE, found)
    return found


def _handle(stream: Any) -> int | None:
    """The raw handle of a stream, None for none, or for one of another accelerator's class."""
    handle = getattr(stream, "cuda_stream", None)
    return handle if type(handle) is int else None


def _cap(event: Any) -> int:
    """The capture in which an event was recorded last, 0 for none; an external event is a real one on every replay."""
    found = getattr(event, ATTRIBUTE, None)
    return 0 if found is None or found.external else found.cap


def _mark_external(event: Any) -> None:
    """Remembers which events were made with `external=True` (torch 2.8): CUDA does not tell afterwards."""
    original = event.__new__

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - the name of what it wraps
        made = original(cls, *args, **kwargs)
        if kwargs.get("external") or (len(args) > 3 and args[3]):
            setattr(made, ATTRIBUTE, EventIdentity(external=True))
        return made

    if "external" in getattr(original, "__code__", _mark_external.__code__).co_varnames:
        import functools

        event.__new__ = staticmethod(functools.update_wrapper(__new__, original))
