"""Garbage collections in a capture window: finalisers run where one was triggered, and may break the capture."""

from __future__ import annotations

import gc
from _thread import get_ident

from cudagraph_doctor.probe.arm import Part, Window, windows_of
from cudagraph_doctor.probe.context import Active
from cudagraph_doctor.probe.guard import Outside, inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

NAME = "gc"
MODULES: tuple[str, ...] = ()
OLDEST = 2
YOUNG = 400
"""Records of one window after which only collections of the oldest generation are told: a compilation has thousands."""


def install(module: ModuleType | None, context: Context) -> Active:
    """Goes on and off with the windows."""
    windows_of(context).add(Collections(context))
    return Active()


class Collections(Part):
    """Records collections while a window is open, on any thread."""

    NAME = NAME

    def __init__(self, context: Context) -> None:
        self._context = context
        self._windows = windows_of(context)
        self._guarded = context.guard(NAME)(self._record)
        self._ours: dict[int, Outside] = {}
        self._told = 0

    def began(self, window: Window) -> None:
        """First window: listen."""
        self._told = 0
        if self._seen not in gc.callbacks:
            gc.callbacks.append(self._seen)

    def ended(self, window: Window) -> None:
        """Last window: stop listening."""
        if not self._windows.open and self._seen in gc.callbacks:
            gc.callbacks.remove(self._seen)

    def _seen(self, phase: str, info: dict[str, Any]) -> None:
        """What the interpreter calls.

        A collection may begin inside a body of ours: its finalisers are the target's work all the same, and hooks must
        see what they do.
        """
        if not self._windows.open:
            return  # a window that was never closed, and the interpreter is ending
        if phase == "start" and inside():
            self._ours[get_ident()] = away = Outside()
            away.__enter__()
        self._guarded(phase, info)
        if phase == "stop":
            back = self._ours.pop(get_ident(), None)
            if back is not None:
                back.__exit__(None, None, None)

    def _record(self, phase: str, info: dict[str, Any]) -> None:
        window = self._windows.here()
        if window is None:
            return
        self._told += 1
        if self._told > YOUNG and info.get("generation", 0) < OLDEST:
            return
        fields: dict[str, Any] = {"phase": phase, "generation": info.get("generation", 0), "cap": window.id}
        if phase == "stop":
            fields["collected"] = info.get("collected", 0)
        self._context.write("gc", **fields, stack=self._context.stack())
