"""Collects a region's accesses through `sys.monitoring`, from Python 3.12 on, beside any debugger or coverage tool.

Which functions run is told by PY_START, everywhere; instructions only by those of followed code. Instructions that
touch no slot are switched off at their first event, and so are those whose slot never is another one.
"""

from __future__ import annotations

import sys
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

    from cudagraph_doctor.probe.region.expression import Table
    from cudagraph_doctor.probe.region.region import Region

IDS = (4, 3, 1)
"""Tool ids without a meaning first, then coverage's."""


class MonitoringCollector:
    """The collector of Python 3.12 and newer.

    Args:
        failed: told of an exception in an event of ours.
    """

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._ident = 0
        self._tool: int | None = None
        self._active: dict[int, Table] = {}

    def why_not(self) -> str:
        """Why it cannot be on, or nothing."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        return "" if any(monitoring.get_tool(number) is None for number in IDS) else "every tool id is taken"

    def start(self, region: Region, frames: list[FrameType]) -> None:
        """The window of a region has opened, in this thread; `frames` were running and are named."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        tool = next((number for number in IDS if monitoring.get_tool(number) is None), None)
        if tool is None:
            return
        monitoring.use_tool_id(tool, "cudagraph-doctor region")
        self._tool, self._ident = tool, get_ident()
        events = monitoring.events
        monitoring.register_callback(tool, events.PY_START, self._make_started(region, tool))
        monitoring.register_callback(tool, events.INSTRUCTION, self._make_instruction(region))
        for frame in frames:
            self._watch(frame.f_code, region.table(frame.f_code, frame.f_globals))
        monitoring.set_events(tool, events.PY_START)

    def stop(self, region: Region) -> None:
        """It closes."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        tool, self._tool = self._tool, None
        if tool is None:
            return
        events = monitoring.events
        monitoring.set_events(tool, 0)
        # After the global events: it instruments the code anew, and what was switched off is on in the next window.
        for table in self._active.values():
            monitoring.set_local_events(tool, table.code, 0)
        self._active.clear()
        monitoring.register_callback(tool, events.PY_START, None)
        monitoring.register_callback(tool, events.INSTRUCTION, None)
        monitoring.free_tool_id(tool)

    def _watch(self, code: CodeType, table: Table | None) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        if table is not None and table.accesses and id(code) not in self._active:
            self._active[id(code)] = table
            monitoring.set_local_events(self._tool, code, monitoring.events.INSTRUCTION)

    def _make_started(self, region: Region, tool: int) -> Any:
        disable = sys.monitoring.DISABLE  # type: ignore[attr-defined]
        active, get_frame = self._active, sys._getframe

        def started(code: CodeType, offset: int) -> Any:
            if id(code) in active:
                return disable
            try:
                table = region.table(code, get_frame(1).f_globals)
                if table is not None and table.plain:
                    if get_ident() != self._ident:
                        return None  # another thread was first: the region may still come here
                    self._watch(code, table)
            except Exception as error:
                self._failed(error)
            return disable

        return started

    def _make_instruction(self, region: Region) -> Any:
        disable = sys.monitoring.DISABLE  # type: ignore[attr-defined]
        active, access, get_frame, ident = self._active, region.access, sys._getframe, self._ident
        entered = region.entered

        def instruction(code: CodeType, offset: int) -> Any:
            try:
                table = active.get(id(code))
                if table is None:
                    return disable
                found = table.accesses.get(offset)
                if found is None:
                    return disable
                if get_ident() != ident:
                    return None
                frame = get_frame(1)
                if found.local and id(frame) not in entered:
                    return None
                return disable if access(found, frame, keep=False) else None
            except Exception as error:
                self._failed(error)
                return disable

        return instruction
