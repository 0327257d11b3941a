"""Profilers that use CUPTI: it is given to them before they ask for it.

CUPTI has one subscriber. Kineto, torch.profiler's engine, subscribes once when it is first prepared and never tries
again: had we not let go by then, the target's profiles would be silently empty.
"""

from __future__ import annotations

import sys

from cudagraph_doctor.probe.context import Active, Unavailable
from cudagraph_doctor.probe.hooks.native import native_probe
from cudagraph_doctor.probe.patch import patch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

NAME = "profiler"
MODULES = ("torch.autograd.profiler", "triton.profiler", "cupti.cupti")

_STARTS = {
    # What every way into torch.profiler comes to: its `prepare_trace` and `start_trace` go through the last two.
    "torch.autograd.profiler": (
        "torch.profiler",
        (("profile", "__enter__"), ("profile", "_prepare_trace"), ("profile", "_start_trace")),
    ),
    "triton.profiler": ("Triton's profiler (Proton)", (("", "start"), ("profile", "start"))),
    "cupti.cupti": ("cupti-python", (("", "subscribe"), ("", "subscribe_v2"))),
}


def install(module: ModuleType | None, context: Context) -> Active | Unavailable | None:
    """Patches what starts the profiler that was just imported."""
    if module is None or context.config.device == "sim":
        return None
    name, starts = _STARTS[module.__name__]
    probe = native_probe(context)
    release = context.guard(NAME)(lambda: probe.release(name))

    def first_release(original: Callable[..., Any]) -> Callable[..., Any]:
        def start(*args: Any, **kwargs: Any) -> Any:
            release()
            return original(*args, **kwargs)

        return start

    for owner_name, function in starts:
        owner = getattr(module, owner_name, None) if owner_name else module
        if owner_name and isinstance(owner, type(sys)):
            owner = sys.modules.get(f"{module.__name__}.{owner_name}", owner)
        if owner is not None:
            patch(owner, function, first_release)
    return None
