"""The captured work of one window, found by the place in the source that launched it."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_doctor.checkers.code.text import EMPTY, SourceText, parsed
from cudagraph_doctor.session.memory import is_work

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Activity, CaptureState, Session
    from cudagraph_doctor.trace.events import Frame


class Launched(NamedTuple):
    """One activity of the window, seen from one of the frames on its stack."""

    activity: Activity
    depth: int
    """Index of the frame in the stack; 0 is the innermost."""
    frame: Frame


class WindowWork:
    """Operators and launches of a window, by the lines that are on their stacks."""

    def __init__(self, session: Session, capture: CaptureState) -> None:
        self.session = session
        self.capture = capture

    @cached_property
    def _by_line(self) -> dict[tuple[int, int], list[Launched]]:
        found: defaultdict[tuple[int, int], list[Launched]] = defaultdict(list)
        for activity in self.capture.activities:
            if activity.failed or not (activity.kind == "op" or is_work(activity)):
                continue
            record = self.session.stacks.get(activity.stack)
            for depth, frame in enumerate(record.frames if record is not None else ()):
                found[frame[0], frame[1]].append(Launched(activity, depth, frame))
        return found

    def source(self, number: int) -> SourceText:
        """The recorded text of a source file; empty where there is none."""
        text = self.session.text(number)
        return parsed(text) if text is not None else EMPTY

    def frames(self, activity: Activity) -> tuple[Frame, ...]:
        """The stack of an activity, innermost frame first."""
        record = self.session.stacks.get(activity.stack)
        return record.frames if record is not None else ()

    def at(self, source: int, node: ast.AST) -> list[Launched]:
        """What was launched by exactly this expression or statement, directly or through what it calls.

        Where the recorder knew no columns, what was launched from the line of the node.
        """
        first = getattr(node, "lineno", 0)
        last = getattr(node, "end_lineno", None) or first
        extents = {_extent(node)}
        if isinstance(node, ast.Call):
            extents.add(_extent(node.func))  # Python 3.11 gives a method call the position of its attribute
        return [
            launched
            for line in range(first, last + 1)
            for launched in self._by_line.get((source, line), ())
            if _stands_at(launched.frame, extents)
        ]

    def on_line(self, source: int, line: int) -> list[Launched]:
        """What was launched from a line."""
        return list(self._by_line.get((source, line), ()))

    def in_function(self, source: int, name: str) -> tuple[Activity, ...]:
        """What was launched from a function, by its qualified name."""
        found = (one for (number, _), launched in self._by_line.items() if number == source for one in launched)
        return tuple(dict.fromkeys(one.activity for one in found if one.frame[2] == name))

    def within(self, source: int, body: list[ast.stmt]) -> list[Launched]:
        """What was launched from the lines of these statements."""
        if not body:
            return []
        first, last = body[0].lineno, max(part.end_lineno or part.lineno for part in body)
        return [one for line in range(first, last + 1) for one in self._by_line.get((source, line), ())]


def _extent(node: ast.AST) -> tuple[int, int, int, int]:
    line: int = getattr(node, "lineno", 0)
    return (
        line,
        getattr(node, "col_offset", 0),
        getattr(node, "end_lineno", None) or line,
        getattr(node, "end_col_offset", None) or 0,
    )


def _stands_at(frame: Frame, extents: set[tuple[int, int, int, int]]) -> bool:
    _, line, _, end_line, column, end_column = frame
    if column is None or end_column is None:
        return any(first <= line <= last for first, _, last, _ in extents)
    return (line, column, end_line or line, end_column) in extents or any(
        # a chain of calls over several lines: the start moves to the attribute, the end does not
        (end_line or line, end_column) == (last, last_column) and first < line
        for first, _, last, last_column in extents
    )
