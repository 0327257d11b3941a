"""Collects a region's accesses by opcode tracing, before Python 3.12. One thread, and only where nobody else traces."""

from __future__ import annotations

import sys

from cudagraph_doctor.probe.region.anchors import Anchor, let_go, locals_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from cudagraph_doctor.probe.region.region import Region


class TraceCollector:
    """`sys.settrace`, with events for opcodes in followed code and for nothing else.

    Args:
        failed: told of an exception in an event of ours.
    """

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._region: Region | None = None
        self._tracer: Any = None

    def why_not(self) -> str:
        """Why it cannot be on, or nothing."""
        if sys.gettrace() is not None:
            return "a debugger or a coverage tool traces this thread, and before Python 3.12 there is room for one"
        return ""

    def start(self, region: Region, frames: list[FrameType]) -> None:
        """The window of a region has opened, in this thread; `frames` were running and are named."""
        self._region = region
        # Opcodes first: an interpreter instruments a frame for them only when tracing begins.
        for frame in frames:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            region.entered[id(frame)].tracer = self._event
        self._tracer = self._called
        sys.settrace(self._tracer)

    def stop(self, region: Region) -> None:
        """It closes."""
        if sys.gettrace() == self._tracer:
            sys.settrace(None)
        self._region = None
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if type(frame.f_trace) is Anchor:
                frame.f_trace_opcodes, frame.f_trace_lines = False, True
                variables = locals_of(frame)  # tracing has left the frame's locals in its dictionary
                let_go(frame, variables)
                del variables
            frame = frame.f_back
        for name in region.entered.values():
            name.tracer = None

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        """A function is called: its frame is followed or not."""
        region = self._region
        if region is None:  # another thread ended the window
            if sys.gettrace() == self._tracer:
                sys.settrace(None)
            return None
        try:
            table = region.table(frame.f_code, frame.f_globals)
            if table is None or not table.plain:
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            accesses, access = table.accesses, region.access

            def opcode(frame: FrameType, event: str, argument: Any) -> Any:
                if event == "opcode":
                    found = accesses.get(frame.f_lasti)
                    if found is not None and self._region is region:
                        try:
                            access(found, frame, keep=True)
                        except Exception as error:
                            self._failed(error)
                return opcode

            return opcode
        except Exception as error:
            self._failed(error)
            return None

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        """In a frame that ran when the window opened."""
        region = self._region
        if region is None:
            return
        try:
            if event == "opcode":
                table = region.table(frame.f_code, frame.f_globals)
                found = table.accesses.get(frame.f_lasti) if table is not None else None
                if found is not None:
                    region.access(found, frame, keep=True)
            elif event == "return":
                region.left(frame)
        except Exception as error:
            self._failed(error)
