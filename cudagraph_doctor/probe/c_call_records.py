"""What the watches of C calls record: the call across which a status changed, and exceptions that were raised."""

from __future__ import annotations

import os

from cudagraph_doctor.probe.arm import Window, windows_of
from cudagraph_doctor.probe.callables import Watched, name_of
from cudagraph_doctor.probe.cuda_codes import code_in, message_of, raised
from cudagraph_doctor.probe.tracebacks import DISPATCHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

EXCEPTIONS = 100
"""Exceptions told of one window."""

_CONTROL = (StopIteration, StopAsyncIteration, GeneratorExit, AttributeError, LookupError, ImportError, OSError)
"""Exceptions by which Python code decides what to do next."""
_MACHINERY = tuple(
    f"{os.sep}torch{os.sep}{part}{os.sep}" for part in ("_dynamo", "_inductor", "fx", "_functorch", "_subclasses")
)
_TELLING = tuple(f"{os.sep}{package}{os.sep}" for package in ("torch", "triton", "cuda", "cupy"))
_FROM = ("torch.", "torch", "cuda.", "triton.", "cupy", "c10", "at.")


class CCallRecords:
    """Looks at the captures after a C call, and tells of exceptions."""

    def __init__(self, context: Context, hook: str) -> None:
        self._context = context
        self._windows = windows_of(context)
        self.watched = Watched()
        self.returned = context.guard(hook)(self._returned)
        self.raising = context.guard(hook)(self._raising)
        self.look = self._make_look()
        """As `returned`, for the many calls across which nothing has changed."""
        self._told: dict[int, int] = {}

    @property
    def open(self) -> bool:
        """A window is open."""
        return bool(self._windows.open)

    def begin(self, window: Window) -> None:
        """A window was opened."""
        self._told.clear()

    def _make_look(self) -> Callable[[Any], None]:
        windows, returned, context = self._windows, self.returned, self._context

        def look(function: Any) -> None:
            try:
                status = context.driver.status
                for window in windows.open:
                    if status(window.handle) != window.status:
                        break
                else:
                    return
            except Exception:
                pass  # `returned` says so
            returned(function)

        return look

    def _returned(self, function: Any) -> None:
        """A C function came back, or raised: a change that nobody inside of it saw lies across it."""
        windows = self._windows
        found = windows.changed()
        if not found:
            return
        window, before, after = found[0]
        fields: dict[str, Any] = {"name": name_of(function), "stack": self._context.stack(), "cap": window.id}
        q = self._context.write("pycall", **fields, before=before, after=after)
        windows.tell(found, q, "pycall")

    def _raising(self, error: BaseException, function: Any, filename: str) -> None:
        """An exception was raised, by the C function given or else by Python code of the file."""
        window = self._windows.here()
        if window is None or not worth_telling(error, function, filename):
            return
        count = self._told.get(window.id, 0)
        if count >= EXCEPTIONS:
            return
        self._told[window.id] = count + 1
        name = name_of(function) if function is not None else "raise"
        status = window.status
        q = self._context.write(
            "pycall",
            name=name,
            stack=self._context.stack(),
            cap=window.id,
            before=status,
            after=status,
            exc=raised(error),
        )
        self._windows.failed(window, q)


def worth_telling(error: BaseException, function: Any, filename: str) -> bool:
    """Whether an exception may say why a capture fails: not one of Python's control flow, not one of a compiler's."""
    if isinstance(error, _CONTROL) or not isinstance(error, Exception):
        return False
    if function is not None:
        return name_of(function).startswith(_FROM) or bool(_code(error))
    if any(part in filename for part in _MACHINERY):
        return bool(_code(error))
    return any(part in filename for part in _TELLING) or bool(_code(error))


def _code(error: BaseException) -> int:
    text = message_of(error)
    return code_in(text) or int("CUDA error" in text or "captur" in text)


def without_ours(error: BaseException, ours: str) -> None:
    """Take the recorder's frames out of a traceback that has just reached a frame of the target."""
    outer: TracebackType | None = error.__traceback__
    if outer is None or outer.tb_frame.f_code.co_filename.startswith(ours):
        return
    inner = outer.tb_next
    if inner is None or not inner.tb_frame.f_code.co_filename.startswith(ours):
        return
    while inner is not None and inner.tb_frame.f_code.co_filename.startswith(ours):
        inner = inner.tb_next
        if inner is not None and inner.tb_frame.f_code.co_filename.endswith(DISPATCHED):
            inner = inner.tb_next
    outer.tb_next = inner
