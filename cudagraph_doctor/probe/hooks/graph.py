"""`torch.cuda.CUDAGraph`: begin and end of captures, instantiation, reset.

Everything of torch that captures passes through this class: `torch.cuda.graph`, `make_graphed_callables`, the graph
trees of `torch.compile(mode="reduce-overhead")`.
"""

from __future__ import annotations

from cudagraph_doctor.probe.arm import Window, windows_of
from cudagraph_doctor.probe.context import Active, Unavailable
from cudagraph_doctor.probe.cuda_codes import raised
from cudagraph_doctor.probe.current import Current
from cudagraph_doctor.probe.graph_identity import of_graph
from cudagraph_doctor.probe.left_behind import left_behind
from cudagraph_doctor.probe.liveness.watcher import watcher_of
from cudagraph_doctor.probe.objects import streams_of
from cudagraph_doctor.probe.patch import patch
from cudagraph_doctor.probe.tracebacks import hide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

NAME = "capture"
MODULES = ("torch",)
BEGIN = "torch.cuda.CUDAGraph.capture_begin"
END = "torch.cuda.CUDAGraph.capture_end"


def install(module: ModuleType | None, context: Context) -> Active | Unavailable:
    """Patches `torch.cuda.CUDAGraph`."""
    torch: Any = module
    graph = getattr(torch.cuda, "CUDAGraph", None)
    if graph is None or not hasattr(graph, "capture_begin"):
        return Unavailable("this torch has no torch.cuda.CUDAGraph")
    captures = Captures(context, torch)
    patch(graph, "capture_begin", captures.wrap_begin)
    # torch 2.14 ends the capture in `capture_end_pre` and goes on to instantiate in Python.
    patch(graph, "capture_end_pre" if hasattr(graph, "capture_end_pre") else "capture_end", captures.wrap_end)
    patch(graph, "instantiate", captures.wrap_instantiate)
    patch(graph, "reset", captures.wrap_reset)
    return Active(versions={"torch": str(torch.__version__)})


class Captures:
    """Records the captures that torch makes."""

    def __init__(self, context: Context, torch: Any) -> None:
        self._context = context
        self._windows = windows_of(context)
        self._streams = streams_of(context)
        self._current = Current(torch)
        self._ends_in_python = hasattr(torch.cuda.CUDAGraph, "capture_end_pre")
        guard = context.guard(NAME)
        self._before_begin = guard(self._begin)
        self._after_begin = guard(self._begun)
        self._before_end = guard(self._end)
        self._after_end = guard(self._ended)
        self._after_instantiate = guard(self._instantiated)
        self._before_reset = guard(self._reset)

    # ── wrappers: what the target calls ─────────────────────────────────────────────────────────
    def wrap_begin(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`capture_begin(pool=None, capture_error_mode="global", ...)`."""

        def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
            begun = self._before_begin(graph, args, kwargs)
            try:
                result = original(graph, *args, **kwargs)
            except BaseException as error:
                self._after_begin(begun, error)
                hide(error)
                raise
            self._after_begin(begun, None)
            return result

        return capture_begin

    def wrap_end(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`capture_end()`, or the half of it that ends the stream capture."""

        def capture_end(graph: Any, *args: Any, **kwargs: Any) -> Any:
            ending = self._before_end(graph)
            try:
                result = original(graph, *args, **kwargs)
            except BaseException as error:
                self._after_end(graph, ending, error)
                hide(error)
                raise
            self._after_end(graph, ending, None)
            return result

        return capture_end

    def wrap_instantiate(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`instantiate()`: by the target with `keep_graph=True`; in 2.14 by every capture's end."""

        def instantiate(graph: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                result = original(graph, *args, **kwargs)
            except BaseException as error:
                self._after_instantiate(graph, error)
                hide(error)
                raise
            self._after_instantiate(graph, None)
            return result

        return instantiate

    def wrap_reset(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`reset()`: the graph dies, its object may capture again."""

        def reset(graph: Any, *args: Any, **kwargs: Any) -> Any:
            self._before_reset(graph)
            try:
                return original(graph, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise

        return reset

    # ── bodies: what is recorded ────────────────────────────────────────────────────────────────
    def _begin(self, graph: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, Window]:
        context, windows = self._context, self._windows
        there = windows.prepare()
        device = self._current.device()
        handle = self._current.stream(device)
        stream = self._streams.id(handle, device, quiet=bool(windows.open))
        pool = kwargs.get("pool", args[0] if args else None)
        mode = kwargs.get("capture_error_mode", args[1] if len(args) > 1 else "global")
        known = of_graph(graph, context)
        known.next_life(context)
        window = Window(context.ids.next("capture"), handle, stream, device, str(mode), known.id)
        window.reserved = self._current.reserved(device)
        fields: dict[str, Any] = {
            "id": window.id,
            "stream": stream,
            "mode": window.mode,
            "api": BEGIN,
            "graph": known.id,
            "device": device,
            "stack": context.stack(),
        }
        if pool is not None:
            fields["pool"] = _pool_name(pool)
            fields["shared_pool"] = True
        if there:
            fields["on"] = context.driver.status(handle)
        known.window = window
        q = context.write("capture", **fields)
        windows.beginning(window)
        return q, window

    def _begun(self, begun: tuple[int, Window] | None, error: BaseException | None) -> None:
        if begun is None:
            return
        q, window = begun
        driver = self._context.driver
        fields: dict[str, Any] = {"of": q}
        if driver is not None:
            fields["after"] = driver.status(window.handle)
        if error is not None:
            fields["exc"] = raised(error)
            fields["code"] = fields["exc"].get("code")
            self._windows.done(window, self._context.write("outcome", **fields))
            return
        fields["code"] = 0
        self._context.write("outcome", **fields)
        window.last = q
        self._windows.enter(window)

    def _end(self, graph: Any) -> tuple[int, Window | None]:
        import sys

        context, windows = self._context, self._windows
        window = of_graph(graph, context).window
        fields: dict[str, Any] = {"cap": 0, "api": END, "stack": context.stack()}
        if window is not None:
            windows.look(0, "end", across=False)
            fields["cap"] = window.id
            if context.driver is not None:
                _, _, fields["nodes"] = context.driver.capture_info(window.handle)
                fields["before"] = context.driver.status(window.handle)
        device = window.device if window is not None else self._current.device()
        fields["stream"] = self._streams.id(self._current.stream(device), device)
        passing = (window.passing if window is not None else None) or sys.exception()
        if passing is not None:
            fields["exc"] = raised(passing)
        q = context.write("capture-end", **fields)
        if window is not None:
            windows.leave(window)
        return q, window

    def _ended(self, graph: Any, ending: tuple[int, Window | None] | None, error: BaseException | None) -> None:
        if ending is None:
            return
        context = self._context
        (q, window), known = ending, of_graph(graph, context)
        known.window = None
        fields: dict[str, Any] = {"of": q}
        if error is not None:
            fields["exc"] = raised(error)
            fields["code"] = fields["exc"].get("code")
        else:
            fields["code"] = 0
        if window is not None and context.driver is not None:
            fields["after"] = context.driver.status(window.handle)
        outcome = context.write("outcome", **fields)
        if window is not None:
            self._windows.done(window, outcome)
            if error is not None and not window.managed:
                left_behind(context, window, self._current)
        if error is None:
            kept = known.kept(graph)
            pool = _pool(graph)
            known.watch = window.watch if window is not None else None
            known.region = window.region if window is not None else None
            if known.watch is not None and pool:
                watcher_of(context).pools.join(pool, known.watch)
            fields = {"id": known.id, "cap": window.id if window is not None else 0, "kept": kept, "pool": pool}
            if window is not None:
                fields.update(window.counts())
            context.write("graph", **fields)
            if window is not None:
                self._windows.captured(window)
            if not kept and not self._ends_in_python:
                self._record_exec(known, None)

    def _instantiated(self, graph: Any, error: BaseException | None) -> None:
        self._record_exec(of_graph(graph, self._context), error)

    def _record_exec(self, known: Any, error: BaseException | None) -> None:
        context = self._context
        fields: dict[str, Any] = {"id": context.ids.next("exec"), "graph": known.id, "stack": context.stack()}
        if error is not None:
            fields["code"] = raised(error).get("code")
        else:
            fields["code"] = 0
            known.exec = fields["id"]
            known.words = None
            fields["slot"] = context.slots.index(known.exec)
        context.write("exec", **fields)

    def _reset(self, graph: Any) -> None:
        known = of_graph(graph, self._context)
        if known.exec:
            self._context.write("destroy", what="exec", id=known.exec, stack=self._context.stack())
        known.exec, known.words, known.watch, known.region = 0, None, None, None


def _pool(graph: Any) -> str:
    """The memory pool of a captured graph."""
    try:
        return _pool_name(graph.pool())
    except Exception:  # a class of the target's that has none
        return ""


def _pool_name(pool: Any) -> str:
    """`0,1` of a pool handle, or of a MemPool's."""
    number = getattr(pool, "id", pool)
    try:
        return ",".join(str(int(part)) for part in number)
    except (TypeError, ValueError):
        return "?"
