"""`--deep`: torch's own history of allocations and frees, with the Python stacks that made them.

Torch records it itself, 2 µs an event (measured on an H200). It is turned on when CUDA comes up, so that the weights of
a model are in it too, unless the program records a history of its own: that one is left alone.
"""

from __future__ import annotations

from cudagraph_doctor.probe.context import Active, Unavailable
from cudagraph_doctor.probe.guard import inside
from cudagraph_doctor.probe.patch import patch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

NAME = "allocations"
MODULES = ("torch",)
ENTRIES = 200_000
"""Events that torch keeps: the newest ones, some 100 bytes each beside their stacks, which it shares."""


def install(module: ModuleType | None, context: Context) -> Active | Unavailable | None:
    """Asks torch to call back when it initialises CUDA: turning the history on would do that itself."""
    if not context.config.get("deep") or context.config.device == "sim":
        return None
    torch: Any = module
    memory = getattr(torch.cuda, "memory", None)
    later = getattr(torch.cuda, "_lazy_call", None)
    if later is None or not hasattr(memory, "_record_memory_history"):
        return Unavailable("this torch keeps no history of allocations")
    history = history_of(context)
    history.start_with(torch)
    patch(memory, "_record_memory_history", history.wrap)
    later(context.guard(NAME)(history.begin))
    return None


class AllocationHistory:
    """What torch remembers of its caching allocator."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._torch: Any = None
        self.on = False
        """It is ours and running."""
        context.after_fork(self._forked)

    def start_with(self, torch: Any) -> None:
        """The module to ask."""
        self._torch = torch

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`_record_memory_history(...)` of the program: from then on the history is its own."""

        def _record_memory_history(*args: Any, **kwargs: Any) -> Any:
            if not inside():
                self._leave()
            return original(*args, **kwargs)

        return _record_memory_history

    def begin(self) -> None:
        """CUDA is up: turn it on, unless it is on."""
        enabled = getattr(self._torch._C, "_cuda_isHistoryEnabled", None)
        if enabled is not None and enabled():
            self._context.capability(NAME, "off", "the program records a history of its own")
            return
        self._torch.cuda.memory._record_memory_history("all", context="all", stacks="python", max_entries=ENTRIES)
        self.on = True
        self._context.capability(NAME, "on")

    def freed(self, address: int, since: int) -> int:
        """Id of the Python stack that gave a block back first after `since`; 0 where the history does not tell.

        Never inside a window: the list is copied, up to a second of work for a full one.

        Args:
            address: of the block's first byte.
            since: microseconds of the wall clock.
        """
        stacks = self._context.stacks
        if not self.on or stacks is None:
            return 0
        for device in self._torch.cuda.memory._snapshot().get("device_traces", ()):
            for entry in device:
                if entry["action"] == "free_requested" and entry["addr"] == address and entry["time_us"] >= since:
                    frames = [(f["filename"], f["line"], f["name"]) for f in entry.get("frames", ())]
                    return int(stacks.of_lines(frames))
        return 0

    def _leave(self) -> None:
        if self.on:
            self.on = False
            self._context.capability(NAME, "off", "the program records a history of its own")

    def _forked(self) -> None:
        self.on = False


_of: dict[int, AllocationHistory] = {}


def history_of(context: Context) -> AllocationHistory:
    """The history of a context: one object a process."""
    found = _of.get(id(context))
    if found is None:
        found = _of[id(context)] = AllocationHistory(context)
    return found
