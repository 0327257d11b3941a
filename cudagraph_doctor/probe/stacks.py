"""Python stacks, interned: walked, never formatted (5 to 10 µs at a depth of 30), each written once.

The key of a stack is the identity of every code object in it with its instruction; the table keeps the code objects
alive, so an identity is not given twice.
"""

from __future__ import annotations

import sys
from itertools import islice

from cudagraph_doctor.probe.frames import Frames
from cudagraph_doctor.probe.ownership import Ownership

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType, TracebackType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

DEPTH = 128
"""Frames kept; the outer ones are left out and counted."""
_MOST_DISTINCT = 20_000
"""Entries of the table after which it is emptied: a generator of ever new code must not fill the target's memory."""


class Stacks:
    """The stacks of this process, and the source files in them."""

    def __init__(self, context: Context) -> None:
        config = context.config
        self._write = context.write
        self._frames = Frames(context.write, Ownership(config.target, config.cwd, config.own))
        self._known: dict[tuple[int, ...], int] = {}
        self._positions: dict[tuple[int, int], list[Any] | None] = {}
        self._held: dict[int, CodeType] = {}
        self._interned: dict[tuple[Any, ...], int] = {}
        self._count = 0

    def stack(self, skip: int = 0) -> int:
        """Id of the calling thread's stack, without the recorder's own frames and `skip` of the caller's."""
        return self.of(sys._getframe(1 + skip))

    def of(self, frame: FrameType | None) -> int:
        """Id of the stack whose innermost frame is given; 0 where there is none but ours."""
        key: list[int] = []
        add = key.append
        here = frame
        while here is not None:
            add(id(here.f_code))
            add(here.f_lasti)
            here = here.f_back
        whole = tuple(key)
        known = self._known.get(whole)
        return known if known is not None else self._intern(whole, frame)

    def from_traceback(self, traceback: TracebackType | None) -> int:
        """Id of the stack in which an exception was raised: its traceback, and what called that."""
        places: list[tuple[CodeType, int, str]] = []
        outer = traceback.tb_frame.f_back if traceback is not None else None
        while traceback is not None:
            frame = traceback.tb_frame
            places.append((frame.f_code, traceback.tb_lasti, _module_of(frame)))
            traceback = traceback.tb_next
        places.reverse()
        while outer is not None:
            places.append((outer.f_code, outer.f_lasti, _module_of(outer)))
            outer = outer.f_back
        return self._write_stack(places)

    def of_place(self, code: CodeType, lasti: int, module: str) -> int:
        """Id of a stack of one frame: where something was done that was only remembered."""
        return self._write_stack([(code, lasti, module)])

    def frame_of(self, code: CodeType, offset: int, module: str) -> list[Any] | None:
        """One instruction as the trace has a frame (`Frame`); None in the recorder's own code."""
        return self._position(code, offset, module)

    def of_lines(self, lines: list[tuple[str, int, str]]) -> int:
        """Id of a stack that somebody else remembered: (file name, line, function) a frame, innermost first."""
        kept = []
        for filename, line, function in lines[:DEPTH]:
            source = self._frames.source_of(filename, "")
            if source is not None:
                kept.append([source.id, line, function, None, None, None])
        return self._write_frames(kept, max(len(lines) - DEPTH, 0)) if kept else 0

    def others(self) -> list[tuple[int, int]]:
        """(thread identifier, stack id) of every other Python thread."""
        from _thread import get_ident

        mine = get_ident()
        return [(ident, self.of(frame)) for ident, frame in sys._current_frames().items() if ident != mine]

    def of_thread(self, ident: int) -> int:
        """Id of the stack of a Python thread by its identifier; 0 if it has none."""
        return self.of(sys._current_frames().get(ident))

    def reset(self) -> None:
        """In a forked child: its file defines no stack and no source yet. Numbers go on, so none is given twice."""
        self._known.clear()
        self._positions.clear()
        self._interned.clear()
        self._frames.forget()

    # ── the parts ───────────────────────────────────────────────────────────────────────────────
    def _intern(self, whole: tuple[int, ...], frame: FrameType | None) -> int:
        if len(self._known) > _MOST_DISTINCT:
            for table in (self._known, self._positions, self._interned, self._held):
                table.clear()
        places = []
        while frame is not None:
            places.append((frame.f_code, frame.f_lasti, _module_of(frame)))
            frame = frame.f_back
        number = self._write_stack(places)
        self._known[whole] = number
        return number

    def _write_stack(self, places: list[tuple[CodeType, int, str]]) -> int:
        kept: list[list[Any]] = []
        cut = 0
        for code, lasti, module in places:
            position = self._position(code, lasti, module)
            if position is None:
                continue
            if len(kept) < DEPTH:
                kept.append(position)
            else:
                cut += 1
        return self._write_frames(kept, cut) if kept else 0

    def _write_frames(self, kept: list[list[Any]], cut: int) -> int:
        key = tuple(map(tuple, kept))
        number = self._interned.get(key)
        if number is None:
            self._count = number = self._count + 1
            self._interned[key] = number
            fields: dict[str, Any] = {"id": number, "frames": kept}
            if cut:
                fields["cut"] = cut
            self._write("stack", **fields)
        return number

    def _position(self, code: CodeType, lasti: int, module: str) -> list[Any] | None:
        """A frame as the trace has it (`Frame`), of an instruction; None for our frames."""
        key = (id(code), lasti)
        try:
            return self._positions[key]
        except KeyError:
            pass
        self._held[id(code)] = code
        source = self._frames.source(code, module)
        found: list[Any] | None = None
        if source is not None:
            at = next(islice(code.co_positions(), max(lasti, 0) // 2, None), (None, None, None, None))
            line, end_line, column, end_column = at
            if line is None:
                line = code.co_firstlineno
            if source.told:
                column = self._frames.column(source, line, column)
                end_column = self._frames.column(source, end_line or line, end_column)
            else:
                end_line = column = end_column = None
            found = [source.id, line, code.co_qualname, end_line, column, end_column]
        self._positions[key] = found
        return found


def _module_of(frame: FrameType) -> str:
    name = dict.get(frame.f_globals, "__name__")  # the globals of `exec` may be of a class of the target's
    return name if type(name) is str else ""
