"""Records one plain call of cuda-bindings: a copy, an allocation, a wait, a kernel launch."""

from __future__ import annotations

from _thread import get_ident

from cudagraph_doctor._wire import MODES
from cudagraph_doctor.probe.arm import Window, windows_of
from cudagraph_doctor.probe.bindings_table import HANGS, OUTSIDE, Spec
from cudagraph_doctor.probe.bindings_values import (
    argument,
    code_of,
    created,
    handle_of,
    kernel_pointers,
    mode_of,
)
from cudagraph_doctor.probe.cuda_codes import raised
from cudagraph_doctor.probe.objects import events_of, streams_of
from cudagraph_doctor.probe.tracebacks import hide, hiding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cudagraph_doctor.probe.context import Context

HOOK = "bindings"
LAYER = "bindings"


class Told:
    """A call that was seen before it was made."""

    __slots__ = ("before", "fields", "q", "window")

    def __init__(self, fields: dict[str, Any], window: Window | None, q: int) -> None:
        self.fields = fields
        self.window = window
        self.before = window.status if window is not None else None
        self.q = q
        """Number of its intention; 0 if it is written when it is complete."""


class Calls:
    """Wraps and records calls."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._windows = windows_of(context)
        self._streams = streams_of(context)
        self._events = events_of(context)
        self.kernels: dict[int, str] = {}
        """Kernel names by handle."""
        self._functions: dict[int, list[int]] = {}
        """Handles of functions by the module or library that they were asked of."""
        guard = context.guard(HOOK)
        self._before_guarded = guard(self._before)
        self._after_guarded = guard(self._after)
        self._note_guarded = guard(self._note)

    def wrap(self, api: str, spec: Spec) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A wrapper that records inside windows, and outside where the table says so."""
        windows = self._windows
        always = OUTSIDE in spec.flags
        remembers = spec.event is not None and "Record" in api

        def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                told = None
                try:
                    if not windows.open and not always:
                        if remembers:
                            self._note_guarded(spec, args, kwargs)
                        return original(*args, **kwargs)
                    told = self._before_guarded(api, spec, args, kwargs)
                    result = original(*args, **kwargs)
                except BaseException as error:
                    self._after_guarded(told, None, error)
                    hide(error)
                    raise
                self._after_guarded(told, result, None)
                return result

            return call

        return wrapped

    def wrap_named(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Remembers a kernel's name by its handle."""

        def call(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            name = argument(args, kwargs, 1, "name")
            if isinstance(name, bytes):
                function = created(result)
                self.kernels[function] = name.rstrip(b"\0").decode("utf-8", "replace")
                module = handle_of(argument(args, kwargs, 0, "hmod", "library")) or 0
                self._functions.setdefault(module, []).append(function)
            return result

        return hiding(call)

    def wrap_kernel_of(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Remembers another handle of a kernel."""

        def call(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            kernel = handle_of(argument(args, kwargs, 0, "kernel")) or 0
            name = self.kernels.get(kernel)
            if name:
                function = created(result)
                self.kernels[function] = name
                for functions in self._functions.values():
                    if kernel in functions:
                        functions.append(function)
            return result

        return hiding(call)

    def wrap_exchange(self, api: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """`cuThreadExchangeStreamCaptureMode`: which unsafe calls this thread may make."""
        tell = self._context.guard(HOOK)(self._exchanged)

        def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                tell(api, args, kwargs, result)
                return result

            return hiding(call)

        return wrapped

    # ── bodies ──────────────────────────────────────────────────────────────────────────────────
    def _before(self, api: str, spec: Spec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Told:
        context, windows = self._context, self._windows
        windows.look(0, "call", across=False)
        fields: dict[str, Any] = {"api": api, "layer": LAYER}
        window = self._stream(fields, spec, args, kwargs) or windows.here()
        if spec.event is not None:
            event = handle_of(argument(args, kwargs, spec.event, "event", "hEvent"))
            if event:
                known = self._events.by_handle(event)
                if "Wait" in api:
                    known.tell_record(context, windows)
                fields["event"] = known.tell(context)
                fields["other"] = known.stream
        if spec.size is not None:
            size = handle_of(argument(args, kwargs, spec.size))
            if size is not None:
                fields["size"] = size
        if spec.ptr is not None:
            address = handle_of(argument(args, kwargs, spec.ptr))
            if address:
                fields["ptr"] = hex(address)
        if "Unload" in api and "ptr" in fields:
            fields["ptrs"] = [hex(function) for function in self._functions.get(int(fields["ptr"], 16), ())]
        if "Launch" in api and "Kernel" in api:
            self._launch(fields, args)
            window = windows.of_stream(fields.pop("raw", 0)) or window
        if window is not None:
            fields["cap"] = window.id
            fields["before"] = window.status
        fields["op"] = windows.operators.get(get_ident(), 0)
        fields["stack"] = context.stack()
        q = context.write("call", **fields) if HANGS in spec.flags else 0
        if "StreamDestroy" in api and window is not None and window.stream == fields.get("stream"):
            windows.leave(window)  # nobody may ask about that handle any more
        return Told(fields, window, q)

    def _after(self, told: Told | None, result: Any, error: BaseException | None) -> None:
        if told is None:
            return
        context, windows, window = self._context, self._windows, told.window
        changed = windows.changed()
        ended: dict[str, Any] = {"code": code_of(result)}
        if error is not None:
            ended["exc"] = raised(error)
        if window is not None:
            ended["after"] = window.status
        q = complete(context, told.q, told.fields, ended)
        if changed:
            windows.tell(changed, q, "call")
        if window is not None:
            windows.returned(q, window, told.before, window.status)
            if ended["code"] and not changed:
                windows.failed(window, q)
        self._lives(told.fields, ended["code"], result)

    def _note(self, spec: Spec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """An event is recorded outside of windows: remember where, for a wait on it inside one."""
        event = handle_of(argument(args, kwargs, spec.event or 0, "event", "hEvent"))
        stream = handle_of(argument(args, kwargs, 1, "stream", "hStream"))
        if event:
            self._events.by_handle(event).recorded_outside(stream)

    def _exchanged(self, api: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        mode = mode_of(argument(args, kwargs, 0, "mode"))
        fields: dict[str, Any] = {"code": code_of(result), "mode": MODES[mode] if 0 <= mode < len(MODES) else str(mode)}
        self._context.write("call", api=api, layer=LAYER, stack=self._context.stack(), **fields)

    # ── the parts ───────────────────────────────────────────────────────────────────────────────
    def _stream(
        self, fields: dict[str, Any], spec: Spec, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Window | None:
        if spec.stream is None:
            return None
        handle = handle_of(argument(args, kwargs, spec.stream, "stream", "hStream"))
        if handle is None:
            return None
        fields["stream"] = self._streams.id(handle, quiet=bool(self._windows.open))
        if self._context.driver is not None and "Destroy" not in fields["api"]:
            fields["on"] = self._context.driver.status(handle)
        return self._windows.of_stream(handle)

    def _launch(self, fields: dict[str, Any], args: tuple[Any, ...]) -> None:
        if fields["api"] == "cuLaunchKernelEx":
            config, function, parameters = (*args, None, None, None)[:3]
            numbers = [getattr(config, name, 1) for name in _GEOMETRY]
            handle = handle_of(getattr(config, "hStream", None)) or 0
            fields["stream"] = self._streams.id(handle)
            fields["on"] = self._context.driver.status(handle)
            fields["raw"] = handle
        else:
            function, numbers = args[0] if args else None, [handle_of(value) or 0 for value in args[1:8]]
            parameters = args[9] if len(args) > 9 else None
        if len(numbers) == 7:
            fields["grid"], fields["block"], fields["smem"] = numbers[0:3], numbers[3:6], numbers[6]
        fields["ptrs"] = kernel_pointers(parameters)
        fields["ptr"] = hex(handle_of(function) or 0)
        fields["kernel"] = self.kernels.get(handle_of(function) or 0, "")

    def _lives(self, fields: dict[str, Any], code: int | None, result: Any) -> None:
        """Births and deaths that a call made."""
        api = fields["api"]
        if code != 0:
            return
        if "StreamCreate" in api:
            self._streams.id(created(result), quiet=bool(self._windows.open), stack=fields["stack"])
        elif "Unload" in api:
            self._functions.pop(int(fields.get("ptr", "0x0"), 16), None)
        elif "StreamDestroy" in api:
            self._streams.forget(fields.get("stream", 0))
        elif "EventDestroy" in api:
            self._events.forget(fields.get("event", 0))
        elif "EventRecord" in api and fields.get("event"):
            captured = fields.get("on") == 1
            event = self._events.by_id(fields["event"])
            event.recorded(fields.get("stream", 0), fields.get("cap", 0) if captured else 0)


def complete(context: Context, q: int, fields: dict[str, Any], ended: dict[str, Any]) -> int:
    """Write down how a call ended; returns the number of its record.

    A call whose intention was written (`q`), or that ended without a code, is completed by an outcome.
    """
    if not q:
        if ended["code"] is not None:
            return context.write("call", **fields, **ended)
        q = context.write("call", **fields)
    context.write("outcome", of=q, **ended)
    return q


_GEOMETRY = ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ", "sharedMemBytes")
