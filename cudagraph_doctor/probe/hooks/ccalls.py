"""Calls of C functions in a capture window, on every thread: which one broke the capture, which one raised.

Python 3.12 and newer: `sys.monitoring` with a tool id of our own, its events on only while a window is open. Older:
`sys.setprofile`, only where nobody else profiles.
"""

from __future__ import annotations

import sys

from cudagraph_doctor.probe.arm import Part, Window, windows_of
from cudagraph_doctor.probe.c_call_records import CCallRecords
from cudagraph_doctor.probe.context import Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

NAME = "c-calls"
MODULES: tuple[str, ...] = ()


def install(module: ModuleType | None, context: Context) -> Unavailable | None:
    """Goes on and off with the windows; says at the first one whether it could."""
    records = CCallRecords(context, NAME)
    windows = windows_of(context)
    watch: Any
    if hasattr(sys, "monitoring"):
        from cudagraph_doctor.probe.monitoring_watch import MonitoringWatch

        watch = MonitoringWatch(records)
    elif context.config.device == "sim":
        return Unavailable("before Python 3.12 not beside the simulated device, which records its calls itself")
    else:
        from cudagraph_doctor.probe.profile_watch import ProfileWatch

        watch = ProfileWatch(records)
        windows.pause, windows.resume = watch.pause, watch.resume
    windows.add(CCalls(context, watch))
    return None


class CCalls(Part):
    """Turns the watch on with the first window and off with the last."""

    NAME = NAME

    def __init__(self, context: Context, watch: Any) -> None:
        self._context = context
        self._windows = windows_of(context)
        self._watch = watch
        self._state: tuple[str, str] | None = None

    def began(self, window: Window) -> None:
        """A window was opened: watch."""
        self._told(self._watch.on(window))

    def ended(self, window: Window) -> None:
        """A window is closed."""
        self._watch.off(window, last=not self._windows.open)

    def _told(self, why_not: str) -> None:
        state = ("off", why_not) if why_not else ("on", self._watch.LIMITS)
        if state != self._state:
            self._state = state
            self._context.capability(NAME, *state)
