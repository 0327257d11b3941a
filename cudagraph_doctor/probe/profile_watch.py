"""Watches C calls through `sys.setprofile` (Python 3.11), on the capturing thread and those that it starts."""

from __future__ import annotations

import sys
import threading
from _thread import get_ident

from cudagraph_doctor.probe.c_call_records import CCallRecords
from cudagraph_doctor.probe.guard import inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from cudagraph_doctor.probe.arm import Window


class ProfileWatch:
    """The watch before Python 3.12."""

    LIMITS = "before Python 3.12 only C calls of the capturing thread are seen, and no exception that is swallowed"

    def __init__(self, records: CCallRecords) -> None:
        self._records = records
        self._idents: set[int] = set()
        self._threads = False

    def pause(self) -> None:
        """The recorder's own work begins in this thread: it would be seen, at a microsecond for each call."""
        if get_ident() in self._idents:
            sys.setprofile(None)

    def resume(self) -> None:
        """The recorder's own work has ended in this thread."""
        if get_ident() in self._idents and sys.getprofile() is None:
            sys.setprofile(self._seen)

    def on(self, window: Window) -> str:
        """Turn on for the calling thread; returns why it cannot be, or nothing."""
        self._records.begin(window)
        if window.ident in self._idents:
            return ""
        if sys.getprofile() is not None:
            return "a profiler is on, and before Python 3.12 there is room for one"
        self._idents.add(window.ident)
        if getattr(threading, "_profile_hook", None) is None:
            threading.setprofile(self._seen)
            self._threads = True
        sys.setprofile(self._seen)
        return ""

    def off(self, window: Window, *, last: bool) -> None:
        """Turn off, unless somebody else has set a profiler since."""
        if window.ident == get_ident() and window.ident in self._idents:
            self._idents.discard(window.ident)
            if sys.getprofile() == self._seen:
                sys.setprofile(None)
        if last and self._threads:
            self._threads = False
            if getattr(threading, "_profile_hook", None) == self._seen:
                threading.setprofile(None)

    def _seen(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "c_return" or event == "c_exception":  # noqa: PLR1714 - twice as fast as a set
            records = self._records
            if records.open:
                if not inside() and records.watched(function):
                    records.returned(function)
            else:
                sys.setprofile(None)  # a thread that outlived the window
