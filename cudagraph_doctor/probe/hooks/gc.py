"""Garbage collections in a capture window: finalisers run where one was triggered, and may break the capture."""

from __future__ import annotations

import gc
from _thread import get_ident, get_native_id
from sys import _getframe

from cudagraph_doctor.probe.arm import Part, Window, windows_of
from cudagraph_doctor.probe.context import Active
from cudagraph_doctor.probe.guard import Outside, inside, outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, ModuleType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

NAME = "gc"
MODULES: tuple[str, ...] = ()
OLDEST = 2
YOUNG = 200
"""Collections told of one window after which only those of the oldest generation are: a compilation has thousands."""


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
        self.tell_guarded = context.guard(NAME)(self.tell_start)
        self._running: dict[int, Running] = {}
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
        """A collection that collects nothing, and in which nothing else happens, is not told.

        So its start is written with the first record that comes after it, or with its end.
        """
        window = self._windows.here()
        if window is None:
            return
        generation = info.get("generation", 0)
        if phase == "start":
            if self._told < YOUNG or generation >= OLDEST:
                self._begin(Running(self, window.id, generation, _place(_getframe(1))))
            return
        running = self._running.pop(get_ident(), None)
        if running is None:
            return
        collected = info.get("collected", 0)
        if collected:
            running.tell()
        running.done = True
        if running.told:
            self._write(phase, running, collected)
        running.frame = None  # keeps nothing of the target alive

    def _begin(self, running: Running) -> None:
        self._running[get_ident()] = running
        if self._context.operator_runs is None:
            self._context.writer.before_next = running.tell
        else:  # the C probe writes records without asking
            running.tell()

    def tell_start(self, running: Running) -> None:
        """Write the record of a collection's start."""
        self._told += 1
        self._write("start", running, 0)

    def _write(self, phase: str, running: Running, collected: int) -> None:
        stacks = self._context.stacks
        fields: dict[str, Any] = {"phase": phase, "generation": running.generation, "cap": running.cap}
        if phase == "stop":
            fields["collected"] = collected
        if stacks is not None:
            fields["stack"] = stacks.of(running.frame)
        self._context.write("gc", tid=running.tid, **fields)


class Running:
    """A collection that runs."""

    __slots__ = ("cap", "done", "frame", "generation", "part", "tid", "told")

    def __init__(self, part: Collections, cap: int, generation: int, frame: FrameType | None) -> None:
        self.part = part
        self.cap = cap
        self.generation = generation
        self.frame = frame
        self.tid = get_native_id()
        self.told = False
        self.done = False

    def tell(self) -> None:
        """Write its start, once; a record made by any hook, or by no hook at all, may bring this about."""
        if not self.told and not self.done:
            self.told = True
            with outside():
                self.part.tell_guarded(self)


def _place(frame: FrameType | None) -> FrameType | None:
    """The frame that a collection is told with: of an import under way, the line that asked for it.

    What is being imported has hundreds of files, and none of them is part of the captured region.
    """
    place = here = frame
    while here is not None:
        if here.f_code.co_filename.startswith(_IMPORT):
            place = here.f_back
        here = here.f_back
    return place


_IMPORT = "<frozen importlib"
