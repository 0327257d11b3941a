"""The region watch: which Python state a captured region reads and writes, and what becomes of it before replays."""

from __future__ import annotations

import sys

from cudagraph_doctor.probe.arm import Part, Window, windows_of
from cudagraph_doctor.probe.context import Active, Unavailable
from cudagraph_doctor.probe.guard import state_of
from cudagraph_doctor.probe.region.followed import Followed
from cudagraph_doctor.probe.region.held import Holding
from cudagraph_doctor.probe.region.looks import Looks
from cudagraph_doctor.probe.region.lookup import Lookup
from cudagraph_doctor.probe.region.records import SlotRecords
from cudagraph_doctor.probe.region.region import Region

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

NAME = "region"
MODULES = ("torch",)


def install(module: ModuleType | None, context: Context) -> Active | Unavailable | None:
    """Goes on and off with the windows; says at the first one whether it could."""
    windows_of(context).add(RegionWatching(context, module))
    return None


class RegionWatching(Part):
    """Collects while a window is open, and hands what is to be looked at to the window."""

    NAME = NAME

    def __init__(self, context: Context, torch: Any) -> None:
        self._context = context
        self._lookup = Lookup()
        self._holding = Holding(torch)
        self._followed = Followed(context.config)
        self._looks = Looks(context, self._holding, self._lookup, SlotRecords(context))
        self._told: tuple[str, str] | None = None
        self._region: Region | None = None
        self._failure = context.guard(NAME)(_raise)
        self._collector = self._make_collector()
        context.after_fork(self._forked)

    def _make_collector(self) -> Any:
        if hasattr(sys, "monitoring"):
            from cudagraph_doctor.probe.region.monitoring_collector import MonitoringCollector

            return MonitoringCollector(self._failed)
        from cudagraph_doctor.probe.region.trace_collector import TraceCollector

        return TraceCollector(self._failed)

    def began(self, window: Window) -> None:
        """A window was opened: name the frames that run, and collect."""
        if self._region is not None:
            self._tell("on", "of windows that are open at the same time only the first one is watched")
            return
        why_not = self._collector.why_not()
        if why_not:
            self._tell("off", why_not)
            return
        region = Region(window, self._lookup, self._followed, self._holding, self._context.stacks)
        frames = region.enter(sys._getframe(1))
        self._region = region
        self._tell("on", "locals of frames that somebody else traces are not seen" if region.refused else "")
        self._collector.start(region, frames)

    def ended(self, window: Window) -> None:
        """A window is being closed: the region is over."""
        region = self._region
        if region is not None and region.window is window:
            self._collector.stop(region)
            region.close()

    def done(self, window: Window, q: int) -> None:
        """The capture has ended."""
        region = self._region
        if region is not None and region.window is window:
            self._region = None
            window.region = self._looks.settle(region.slots.values(), window.id, sys._getframe(1))

    # ── the parts ───────────────────────────────────────────────────────────────────────────────
    def _tell(self, state: str, why: str) -> None:
        if (state, why) != self._told:
            self._told = state, why
            self._context.capability(NAME, state, why)

    def _failed(self, error: BaseException) -> None:
        """An event of ours failed: told like a failure of a hook, and after the third one it is over."""
        self._failure(error)
        region = self._region
        if region is not None and state_of(NAME).removed:
            region.full = True

    def _forked(self) -> None:
        region, self._region = self._region, None
        if region is not None:
            self._collector.stop(region)


def _raise(error: BaseException) -> None:
    raise error
