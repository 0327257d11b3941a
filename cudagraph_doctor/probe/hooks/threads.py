"""Names of threads: seen when a window opens, and when one is started."""

from __future__ import annotations

import threading
from _thread import get_native_id

from cudagraph_doctor.probe.arm import Part, Window, windows_of
from cudagraph_doctor.probe.context import Active
from cudagraph_doctor.probe.patch import patch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

NAME = "threads"
MODULES: tuple[str, ...] = ()
THREADS = 5000
"""Threads told of one process: a server may start one for each request."""


def install(module: ModuleType | None, context: Context) -> Active:
    """Wraps `threading.Thread.run`'s caller in the new thread, and looks around when a window opens."""
    names = Threads(context)
    windows_of(context).add(names)
    patch(threading.Thread, "_bootstrap_inner", names.wrap)
    return Active()


class Threads(Part):
    """Records threads once each."""

    NAME = NAME

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: set[tuple[int, str]] = set()
        self._started = context.guard(NAME)(self._note_started)
        context.after_fork(self._known.clear)

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`Thread._bootstrap_inner`, the first Python function of a new thread."""

        def _bootstrap_inner(thread: threading.Thread) -> Any:
            self._started(thread)
            return original(thread)

        return _bootstrap_inner

    def began(self, window: Window) -> None:
        """Tell the threads that there are."""
        self._look()

    def changed(self, window: Window, q: int) -> None:
        """Tell those that came since: the log may speak of them."""
        self._look()

    def _look(self) -> None:
        for ident, thread in list(threading._active.items()):  # type: ignore[attr-defined]
            self._record(thread, ident, getattr(thread, "native_id", 0) or 0, "seen")

    def _note_started(self, thread: threading.Thread) -> None:
        self._record(thread, threading.get_ident(), get_native_id(), "started")

    def _record(self, thread: threading.Thread, ident: int, native: int, what: str) -> None:
        key = (native, thread.name)
        if not native or key in self._known or len(self._known) >= THREADS:
            return
        self._known.add(key)
        self._context.write("thread", tid=native, name=thread.name, what=what, daemon=thread.daemon, ident=ident)
