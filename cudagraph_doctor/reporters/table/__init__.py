"""The report for a person at a terminal, or for a log: the same text, with colour only where a terminal shows it.

This package is the only place that imports rich, and it is itself imported late. rich's markup is never parsed:
everything foreign goes through `foreign.visible` into plain `Text`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from cudagraph_doctor.report import Report


def write(report: Report, stream: TextIO, *, width: int | None = None, color: bool | None = None) -> None:
    """Write the report to a stream.

    Args:
        report: What was found, and what was not looked at.
        stream: Text stream. What its encoding cannot hold is written as escapes, never an error.
        width: Columns; by default the terminal's, at most 120, and 80 where there is no terminal.
        color: By default, colour on a terminal unless NO_COLOR is set or TERM is dumb.
    """
    from cudagraph_doctor.reporters.table import screen

    screen.write(report, stream, width=width, color=color)
