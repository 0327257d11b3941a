"""`with torch.cuda.graph(...)`: the exception that passes through the block, and what a failed one leaves behind."""

from __future__ import annotations

from cudagraph_doctor.probe import exceptions
from cudagraph_doctor.probe.arm import Window, windows_of
from cudagraph_doctor.probe.context import Active, Unavailable
from cudagraph_doctor.probe.current import Current
from cudagraph_doctor.probe.graph_identity import of_graph
from cudagraph_doctor.probe.left_behind import left_behind
from cudagraph_doctor.probe.patch import patch
from cudagraph_doctor.probe.tracebacks import hide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

NAME = "capture-block"
MODULES = ("torch",)


def install(module: ModuleType | None, context: Context) -> Active | Unavailable:
    """Patches `torch.cuda.graph`."""
    torch: Any = module
    block = getattr(torch.cuda, "graph", None)
    if block is None or not hasattr(block, "__exit__"):
        return Unavailable("this torch has no torch.cuda.graph")
    blocks = Blocks(context, torch)
    patch(block, "__enter__", blocks.wrap_enter)
    patch(block, "__exit__", blocks.wrap_exit)
    return Active()


class Blocks:
    """Records how capture blocks are left."""

    def __init__(self, context: Context, torch: Any) -> None:
        self._context = context
        self._windows = windows_of(context)
        self._current = Current(torch)
        guard = context.guard(NAME)
        self._entered_guarded = guard(self._entered)
        self._leaving_guarded = guard(self._leaving)
        self._left_guarded = guard(self._left)

    def wrap_enter(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`__enter__`."""

        def __enter__(block: Any) -> Any:  # noqa: N807 - the name of what it wraps
            try:
                result = original(block)
            except BaseException as error:
                hide(error)
                raise
            self._entered_guarded(block)
            return result

        return __enter__

    def wrap_exit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`__exit__`: ends the capture; where that raises, the exception of the block is only its `__context__`."""

        def __exit__(block: Any, *args: Any) -> Any:  # noqa: N807
            passing = args[1] if len(args) > 1 else None
            window = self._leaving_guarded(block, passing)
            try:
                result = original(block, *args)
            except BaseException as error:
                self._left_guarded(window, error, failed=True)
                hide(error)
                raise
            self._left_guarded(window, passing, failed=False)
            return result

        return __exit__

    def _entered(self, block: Any) -> None:
        window = of_graph(block.cuda_graph, self._context).window
        if window is not None:
            window.managed = True

    def _leaving(self, block: Any, passing: BaseException | None) -> Window | None:
        window = of_graph(block.cuda_graph, self._context).window
        if window is not None:
            window.passing = passing
        return window

    def _left(self, window: Window | None, error: BaseException | None, *, failed: bool) -> None:
        if window is not None:
            window.passing = None  # keeps no frame of the target alive
        if error is not None:
            exceptions.record(self._context, error, "capture-exit", cap=window.id if window is not None else 0)
        if failed and window is not None:
            left_behind(self._context, window, self._current)
