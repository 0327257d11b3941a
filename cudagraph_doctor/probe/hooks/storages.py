"""Storages that captured work uses: told when a capture ends, looked at before each replay of its graph."""

from __future__ import annotations

from cudagraph_doctor.probe.arm import Part, Window, windows_of
from cudagraph_doctor.probe.context import Active, Unavailable
from cudagraph_doctor.probe.liveness.storage_layout import layout_of
from cudagraph_doctor.probe.liveness.storages import storages_of
from cudagraph_doctor.probe.liveness.watcher import watcher_of
from cudagraph_doctor.probe.patch import patch
from cudagraph_doctor.probe.tensor_reference import let_go
from cudagraph_doctor.probe.tracebacks import hiding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

NAME = "storages"
MODULES = ("torch",)


def install(module: ModuleType | None, context: Context) -> Active | Unavailable:
    """Finds out how this torch keeps its storages, and goes on with the first window."""
    torch: Any = module
    if hasattr(torch.utils, "swap_tensors"):
        patch(torch.utils, "swap_tensors", _letting_go(context))
    layout = layout_of(torch)
    if layout is None:
        return Unavailable("the storages of this torch are not laid out as expected")
    storages_of(context).start(torch, layout)
    watcher_of(context).start(torch)
    windows_of(context).add(Told(context, torch))
    return Active()


def _letting_go(context: Context) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`swap_tensors` refuses tensors that have weak references: ours must not be what it sees."""
    give_up = context.guard(NAME)(let_go)

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def swap_tensors(*args: Any, **kwargs: Any) -> Any:
            for tensor in (*args, *kwargs.values()):
                give_up(tensor)
            return original(*args, **kwargs)

        return hiding(swap_tensors)

    return wrap


class Told(Part):
    """Tells the storages of a window when its capture has ended."""

    NAME = NAME

    def __init__(self, context: Context, torch: Any) -> None:
        self._context = context
        self._torch = torch
        self._watcher = watcher_of(context)
        self._backend = ""

    def prepare(self) -> None:
        """Which allocator serves the graph: chosen by now, before the first capture."""
        if self._backend:
            return
        self._backend = _backend(self._torch)
        state, why = "on", ""
        if self._backend != "native":
            state, why = "unavailable", f"memory is of the allocator {self._backend}, which tells nothing"
        self._context.capability("allocator", state, why, {"backend": self._backend})

    def done(self, window: Window, q: int) -> None:
        """The capture has ended."""
        window.watch = self._watcher.settle(window)


def _backend(torch: Any) -> str:
    """`native`, `cudaMallocAsync` or `pluggable`."""
    try:
        return str(torch.cuda.get_allocator_backend())
    except Exception:
        return "native"
