"""Captures and graphs made through cuda-bindings."""

from __future__ import annotations

from _thread import get_native_id
from time import monotonic_ns

from cudagraph_doctor._wire import MODES, STATUS_NONE
from cudagraph_doctor.probe.arm import Window, windows_of
from cudagraph_doctor.probe.bindings_calls import HOOK
from cudagraph_doctor.probe.bindings_values import argument, code_of, created, handle_of, mode_of, update_result
from cudagraph_doctor.probe.objects import streams_of
from cudagraph_doctor.probe.tracebacks import hiding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cudagraph_doctor.probe.context import Context

    Wrapped = Callable[[Callable[..., Any]], Callable[..., Any]]

BEGUN, DONE, LAST, STREAM, TID = 1, 2, 3, 4, 5
"""Positions in `_wire.SLOT_WORDS`."""


class Executable:
    """An executable graph by handle."""

    __slots__ = ("graph", "id", "raw", "words")

    def __init__(self, number: int, graph: int) -> None:
        self.id = number
        self.graph = graph
        self.raw = -1
        self.words: memoryview | None = None


class BindingCaptures:
    """Wraps the calls that begin and end captures, and those of graphs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._windows = windows_of(context)
        self._streams = streams_of(context)
        self._open: dict[int, Window] = {}
        self._graphs: dict[int, int] = {}
        self._execs: dict[int, Executable] = {}
        self._guard = context.guard(HOOK)

    def _around(self, before: Callable[..., Any], after: Callable[..., None]) -> Wrapped:
        before, after = self._guard(before), self._guard(after)

        def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                seen = before(args, kwargs)
                result = original(*args, **kwargs)
                after(seen, args, kwargs, result)
                return result

            return hiding(call)

        return wrapped

    # ── captures ────────────────────────────────────────────────────────────────────────────────
    def begin(self, api: str, mode_at: int) -> Wrapped:
        """`cudaStreamBeginCapture(stream, mode)`."""

        def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, Window]:
            context, windows = self._context, self._windows
            there = windows.prepare()
            handle = handle_of(argument(args, kwargs, 0, "stream", "hStream")) or 0
            stream = self._streams.id(handle, quiet=bool(windows.open))
            mode = mode_of(argument(args, kwargs, mode_at, "mode"))
            name = MODES[mode] if 0 <= mode < len(MODES) else str(mode)
            window = Window(context.ids.next("capture"), handle, stream, 0, name, context.ids.next("graph"))
            fields: dict[str, Any] = {"id": window.id, "stream": stream, "mode": name, "api": api}
            fields["graph"] = window.graph
            if there:
                fields["on"] = context.driver.status(handle)
            q = context.write("capture", **fields, stack=context.stack())
            windows.beginning(window)
            return q, window

        def after(seen: tuple[int, Window] | None, args: Any, kwargs: Any, result: Any) -> None:
            if seen is None:
                return
            q, window = seen
            context = self._context
            code = code_of(result)
            status = context.driver.status(window.handle) if context.driver is not None else None
            outcome = context.write("outcome", of=q, code=code, after=status)
            if code == 0:
                window.last = q
                self._open[window.handle] = window
                self._windows.enter(window)
            else:
                self._windows.look(q, "call")
                self._windows.done(window, outcome)

        return self._around(before, after)

    def end(self, api: str) -> Wrapped:
        """`cudaStreamEndCapture(stream)`."""

        def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, Window | None]:
            context, windows = self._context, self._windows
            handle = handle_of(argument(args, kwargs, 0, "stream", "hStream")) or 0
            windows.look(0, "end", across=False)
            window = self._open.get(handle) or windows.of_stream(handle)
            fields: dict[str, Any] = {"cap": 0, "api": api, "stack": context.stack()}
            fields["stream"] = self._streams.id(handle)
            if window is not None:
                fields["cap"] = window.id
                if context.driver is not None:
                    fields["before"], _, fields["nodes"] = context.driver.capture_info(window.handle)
            q = context.write("capture-end", **fields)
            if window is not None:
                windows.leave(window)
            return q, window

        def after(seen: tuple[int, Window | None] | None, args: Any, kwargs: Any, result: Any) -> None:
            if seen is None:
                return
            (q, window), code, context = seen, code_of(result), self._context
            fields: dict[str, Any] = {"of": q, "code": code}
            status = None
            if window is not None and context.driver is not None:
                status = fields["after"] = context.driver.status(window.handle)
            outcome = context.write("outcome", **fields)
            if window is None:
                return
            if status in {None, STATUS_NONE}:
                self._open.pop(window.handle, None)
            self._windows.done(window, outcome)
            graph = created(result)
            if code == 0 and graph:
                self._graphs[graph] = window.graph
                counts = window.counts()
                context.write("graph", id=window.graph, handle=hex(graph), cap=window.id, kept=True, **counts)
                self._windows.captured(window)
            elif code:
                context.write("state", cap=window.id, stream=window.stream, status=status)

        return self._around(before, after)

    # ── executable graphs ───────────────────────────────────────────────────────────────────────
    def instantiate(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`cudaGraphInstantiate(graph, flags)`. Refused while another capture is open."""

        def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._windows.look(0, "call", across=False)

        def after(seen: None, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            context, code = self._context, code_of(result)
            graph = handle_of(argument(args, kwargs, 0, "graph", "hGraph")) or 0
            number = context.ids.next("exec")
            fields: dict[str, Any] = {"id": number, "graph": self._graphs.get(graph, 0), "code": code}
            handle = created(result)
            if code == 0 and handle:
                fields["handle"] = hex(handle)
                fields["slot"] = context.slots.index(number)
                self._execs[handle] = Executable(number, fields["graph"])
            flags = argument(args, kwargs, 1, "flags")
            if type(flags) is int:
                fields["flags"] = flags
            q = context.write("exec", **fields, stack=context.stack())
            if self._windows.open:
                self._refused(original.__name__, code, q)

        return self._around(before, after)(original)

    def update(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`cudaGraphExecUpdate(exec, graph)`."""

        def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            return

        def after(seen: None, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            known = self._execs.get(handle_of(argument(args, kwargs, 0, "hGraphExec")) or 0)
            graph = handle_of(argument(args, kwargs, 1, "hGraph")) or 0
            self._context.write(
                "update",
                exec=known.id if known is not None else 0,
                graph=self._graphs.get(graph, 0),
                code=code_of(result) or 0,
                result=update_result(result),
                stack=self._context.stack(),
            )

        return self._around(before, after)(original)

    def destroy(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`cudaGraphExecDestroy(exec)`."""

        def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            known = self._execs.pop(handle_of(argument(args, kwargs, 0, "graphExec", "hGraphExec")) or 0, None)
            if known is not None:
                self._context.write("destroy", what="exec", id=known.id, stack=self._context.stack())

        def after(seen: None, args: Any, kwargs: Any, result: Any) -> None:
            return

        return self._around(before, after)(original)

    def launch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`cudaGraphLaunch(exec, stream)`: counted in its slot, as torch's replays are."""
        windows, execs = self._windows, self._execs
        told = self._around(self._launch_before, self._launch_after)(original)

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                known = execs.get(int(args[0]))
            except (TypeError, ValueError, IndexError):
                known = None  # keyword arguments, or a mistake that is the target's to see
            if known is None or known.words is None or windows.open:
                return told(*args, **kwargs)
            words = known.words
            words[BEGUN] += 1
            words[LAST] = monotonic_ns()
            words[TID] = get_native_id()
            result = original(*args, **kwargs)
            if result[0] == 0:
                words[DONE] += 1
            else:
                self._guard(self._launch_failed)(known, args, code_of(result))
            return result

        return hiding(call)

    def _launch_before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, Executable]:
        context, windows = self._context, self._windows
        handle = handle_of(argument(args, kwargs, 0, "graphExec", "hGraphExec")) or 0
        known = self._execs.get(handle) or Executable(0, 0)
        windows.look(0, "call", across=False)
        fields = self._launch_facts(known, handle_of(argument(args, kwargs, 1, "stream", "hStream")) or 0)
        fields["first"] = known.words is None
        return context.write("replay", **fields), known

    def _launch_after(self, seen: tuple[int, Executable] | None, args: Any, kwargs: Any, result: Any) -> None:
        if seen is None:
            return
        (q, known), code = seen, code_of(result)
        if known.id and known.words is None:
            known.words = self._context.slots.open(known.id)
        if known.words is not None:
            known.words[BEGUN] += 1
            known.words[DONE] += code == 0
            known.words[LAST] = monotonic_ns()
            known.words[TID] = get_native_id()
        window = self._windows.here()
        changed = self._windows.changed()
        fields: dict[str, Any] = {"of": q, "code": code}
        if window is not None:
            fields["after"] = window.status
        self._context.write("outcome", **fields)
        if changed:
            self._windows.tell(changed, q, "call")
        elif code and window is not None:
            self._windows.failed(window, q)

    def _launch_failed(self, known: Executable, args: tuple[Any, ...], code: int | None) -> None:
        fields = self._launch_facts(known, handle_of(args[1]) or 0)
        self._context.write("replay", **fields, code=code, done=0)

    def _launch_facts(self, known: Executable, raw: int) -> dict[str, Any]:
        context, windows = self._context, self._windows
        window = windows.of_stream(raw) or windows.mine()
        stream = self._streams.id(raw, quiet=bool(windows.open))
        fields: dict[str, Any] = {"exec": known.id, "graph": known.graph, "stream": stream, "stack": context.stack()}
        if known.words is not None:
            known.words[STREAM] = stream
        if context.driver is not None:
            fields["on"] = context.driver.status(raw)
        if window is not None:
            fields["cap"] = window.id
        return fields

    def _refused(self, api: str, code: int | None, q: int) -> None:
        """An instantiation inside a window: its `call` record is what broke the capture, if it did."""
        context, windows = self._context, self._windows
        window = windows.here()
        if window is None:
            return
        before = window.status
        changed = windows.changed()
        told = context.write(
            "call",
            api=api,
            layer="bindings",
            code=code,
            cap=window.id,
            before=before,
            after=window.status,
            stack=context.stack(),
        )
        if changed:
            windows.tell(changed, told, "call")
        elif code:
            windows.failed(window, told)
