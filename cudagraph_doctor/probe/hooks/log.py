"""The driver's own error log (CUDA 12.9 and newer): which API call was refused, why, and on which thread.

Polled, never by callback: a Python callback would wait for the GIL inside the driver, while a thread that has it may
wait for the driver. The log names threads by what pthread_self returns, which is `threading.get_ident()`.
"""

from __future__ import annotations

from cudagraph_doctor.probe.arm import Part, Window, windows_of
from cudagraph_doctor.probe.context import Active

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

NAME = "log"
MODULES: tuple[str, ...] = ()

NOISE = {
    ("cuCtxGetDevice_v2", 201),
    ("cuCtxGetDevice", 201),
    ("cuGetProcAddress_v2", 1),
    ("cuFuncGetParamInfo", 1),  # our own: the graph walk asks until there are no more parameters
}
"""Refusals of calls by which somebody asks whether something is there: no refusal of work (seen on driver 580)."""


def install(module: ModuleType | None, context: Context) -> Active | None:
    """Goes on with the first window: whether there is a log is only known once the driver is mapped."""
    windows_of(context).add(ErrorLog(context))
    return None


class ErrorLog(Part):
    """Reads the error log after a change, after a failed call, and when a window ends."""

    NAME = NAME

    def __init__(self, context: Context) -> None:
        self._context = context
        self._state = ""
        self._on = False

    def prepare(self) -> None:
        """A window is about to open: begin to read here."""
        driver = self._context.driver
        mark = getattr(driver, "mark_log", None)
        if mark is None:
            self._on = hasattr(driver, "error_log")
            if self._on:
                driver.error_log()  # what is older is not ours to tell
        else:
            self._on = bool(mark())
        state = "on" if self._on else "unavailable"
        if state != self._state:
            self._state = state
            why = "" if self._on else "the driver has no error log (it came with CUDA 12.9, driver 575)"
            self._context.capability(NAME, state, why)

    def changed(self, window: Window, q: int) -> None:
        """A call was refused."""
        self._poll(window, q)

    def done(self, window: Window, q: int) -> None:
        """The capture has ended."""
        self._poll(window, q)

    def _poll(self, window: Window, q: int) -> None:
        if not self._on or self._context.pushed_log:
            return
        reasons: list[Entry] = []
        for line in self._context.driver.error_log():
            entry = Entry(line)
            if entry.code is None:
                reasons.append(entry)
                continue
            if (entry.api, entry.code) not in NOISE:
                for told in (*reasons, entry):
                    self._write(told, entry, window, q)
            reasons = []
        for entry in reasons:
            self._write(entry, entry, window, q)

    def _write(self, entry: Entry, call: Entry, window: Window, q: int) -> None:
        """Writes an entry; a reason has its API and code from the "Returning ..." line after it."""
        fields: dict[str, Any] = {"message": entry.message[:1000], "cap": window.id, "after": q}
        if call.api:
            fields["api"] = call.api
        if call.code:
            fields["code"] = call.code
        thread = _native_id(entry.thread)
        if thread:
            fields["thread"] = thread
        if entry.level != "error":
            fields["level"] = entry.level
        self._context.write("log", **fields)


class Entry:
    """A line of the log: `[time][thread][source][severity] message`; a call ends with `Returning N (NAME) from api`."""

    __slots__ = ("api", "code", "level", "message", "thread")

    def __init__(self, line: str) -> None:
        fields: list[str] = []
        rest = line.strip()
        while rest.startswith("[") and "]" in rest and len(fields) < 5:
            field, _, rest = rest[1:].partition("]")
            fields.append(field)
        self.message = rest.strip()
        self.thread = int(fields[1]) if len(fields) > 1 and fields[1].isdecimal() else 0
        self.level = "warning" if len(fields) > 3 and fields[3].upper().startswith("W") else "error"
        self.api = ""
        self.code: int | None = None
        words = self.message.split()
        if len(words) >= 5 and words[0] == "Returning" and words[1].isdecimal() and words[-2] == "from":
            self.code = int(words[1])
            self.api = words[-1].rstrip(".")


def _native_id(ident: int) -> int:
    """The native id of a thread by its identifier; 0 for one that Python does not know."""
    if not ident:
        return 0
    import threading

    thread = threading._active.get(ident)  # type: ignore[attr-defined]
    return int(getattr(thread, "native_id", 0) or 0)
