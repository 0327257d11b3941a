"""Watches C calls through `sys.monitoring` (Python 3.12): all threads, and nothing at all outside windows.

Only C_RETURN, C_RAISE and RAISE have callbacks: calls of Python functions cost nothing. The CALL event, which the C
events hang on, has one for two short times: at a window's start, to switch the recorder's own code off, and in windows
with very many calls (a compilation), to switch harmless places off.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident

from cudagraph_doctor.probe.c_call_records import CCallRecords, without_ours
from cudagraph_doctor.probe.callables import INERT, is_inert
from cudagraph_doctor.probe.frames import OURS
from cudagraph_doctor.probe.guard import inside
from cudagraph_doctor.probe.tracebacks import DISPATCHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from cudagraph_doctor.probe.arm import Window

IDS = (3, 4, 1)
"""Tool ids without a meaning first, then coverage's; 0 is the debugger's, 2 the profiler's, 5 the optimiser's."""
SETTLE = 600
"""CALL events in which the recorder's own code is switched off."""
MANY = 50_000
"""Returns of one window after which harmless places are switched off."""
LAST_LOOK = 400_000
"""Returns of one window after which the watch ends: it is no longer a region but a program."""


class MonitoringWatch:
    """The watch of Python 3.12 and newer."""

    LIMITS = ""

    def __init__(self, records: CCallRecords) -> None:
        self._records = records
        self._tool: int | None = None
        self._calls = 0
        self._disable: Any = None
        self._torch = OURS
        self._raising: dict[int, Any] = {}

    def on(self, window: Window) -> str:
        """Turn on; returns why it cannot be, or nothing."""
        self._records.begin(window)
        if self._tool is not None:
            return ""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        tool = next((number for number in IDS if monitoring.get_tool(number) is None), None)
        if tool is None:
            return "every tool id of sys.monitoring is taken"
        monitoring.use_tool_id(tool, "cudagraph-doctor")
        events = monitoring.events
        self._tool = tool
        self._calls = 0
        self._disable = monitoring.DISABLE
        self._torch = _folder_of("torch")
        monitoring.register_callback(tool, events.CALL, self._settling)
        monitoring.register_callback(tool, events.C_RETURN, self._make_returned())
        monitoring.register_callback(tool, events.C_RAISE, self._raised_in_c)
        monitoring.register_callback(tool, events.RAISE, self._raised)
        monitoring.set_events(tool, events.CALL | events.RAISE)
        return ""

    def off(self, window: Window, *, last: bool) -> None:
        """Turn off with the last window, and give the tool id back."""
        tool = self._tool
        if tool is None or not last:
            return
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        events = monitoring.events
        monitoring.set_events(tool, 0)
        for event in (events.CALL, events.C_RETURN, events.C_RAISE, events.RAISE):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
        self._tool = None
        self._raising.clear()

    # ── callbacks ───────────────────────────────────────────────────────────────────────────────
    def _settling(self, code: CodeType, offset: int, function: Any, first: Any) -> Any:
        self._calls += 1
        if self._calls > SETTLE:
            self._on_call(None)
        name = code.co_filename
        if name.startswith(OURS):
            return self._disable
        # A place in torch that calls `isinstance` never calls anything else.
        return self._disable if name.startswith(self._torch) and is_inert(function) else None

    def _sparing(self, code: CodeType, offset: int, function: Any, first: Any) -> Any:
        return None if self._records.watched(function) else self._disable

    def _make_returned(self) -> Any:
        """The callback of C_RETURN, all in local variables: it runs for every C call of the window."""
        watched, ours, look = self._records.watched, inside, self._records.look
        plain, functions, tensors = watched.plain, watched.functions, _tensor_types()
        returns = 0

        def c_return(code: CodeType, offset: int, function: Any, first: Any) -> None:
            nonlocal returns
            returns += 1
            if (type(function) in plain and functions.get(function) is False) or not watched(function):
                if type(first) in tensors and _reads(function) and not ours():
                    look(function)
            elif not ours():
                look(function)
            if returns >= MANY:
                if returns == MANY:
                    self._on_call(self._sparing)
                elif returns == LAST_LOOK:
                    self._on_call(lambda *_: self._disable)

        return c_return

    def _raised_in_c(self, code: CodeType, offset: int, function: Any, first: Any) -> None:
        if inside():
            return
        if self._records.watched.is_c_function(function):
            self._raising[get_ident()] = function
        if self._records.watched(function) or (type(first) in _tensor_types() and _reads(function)):
            self._records.returned(function)

    def _raised(self, code: CodeType, offset: int, error: BaseException) -> None:
        function = self._raising.pop(get_ident(), None) if self._raising else None
        if inside() or code.co_filename.startswith(OURS):
            return
        if code.co_filename.endswith(DISPATCHED) and _is_ours(sys._getframe(1).f_back):
            return  # it goes on to the line that called the operator
        without_ours(error, OURS)
        traceback = error.__traceback__
        if traceback is None or traceback.tb_next is None:  # the first frame of the target that it reaches
            self._records.raising(error, function, code.co_filename)

    def _on_call(self, callback: Any) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        if self._tool is not None:
            monitoring.register_callback(self._tool, monitoring.events.CALL, callback)


def _tensor_types() -> frozenset[type]:
    """The exact types of tensors: asking for subclasses could run code of the target."""
    torch: Any = sys.modules.get("torch")
    return frozenset({torch.Tensor, torch.nn.Parameter}) if hasattr(torch, "nn") else frozenset()


def _reads(function: Any) -> bool:
    """Whether a function of Python that got a tensor as its first argument may read it."""
    return type(function) in _HASHABLE and function not in INERT


def _folder_of(package: str) -> str:
    """Folder of a package that is imported, with its separator; ours where it is not."""
    file = getattr(sys.modules.get(package), "__file__", None)
    return os.path.dirname(file) + os.sep if type(file) is str else OURS


_HASHABLE = frozenset({type, type(len), type(list.append)})


def _is_ours(frame: FrameType | None) -> bool:
    return frame is not None and frame.f_code.co_filename.startswith(OURS)
