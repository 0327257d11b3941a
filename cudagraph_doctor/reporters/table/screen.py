"""Puts the report's parts on one screen, in the stream's own encoding."""

from __future__ import annotations

import io
import os
import shutil
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from cudagraph_doctor.reporters.table import gate, timeline, wording
from cudagraph_doctor.reporters.table.findings_table import findings_table
from cudagraph_doctor.reporters.table.not_checked import not_checked
from cudagraph_doctor.reporters.table.panel import finding_panel
from cudagraph_doctor.reporters.table.summary import heading, summary, verdict
from cudagraph_doctor.reporters.table.theme import ASCII, THEME, UNICODE, Glyphs

if TYPE_CHECKING:
    from cudagraph_doctor.report import Report

NARROWEST, WIDEST, PIPE = 40, 120, 80
MOST_PANELS = 20
"""Findings shown in full; the rest stand in the table of findings, and in the JSON report."""


def write(report: Report, stream: TextIO, *, width: int | None, color: bool | None) -> None:
    """See `cudagraph_doctor.reporters.table.write`."""
    terminal = _is_terminal(stream)
    if color is None:
        color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    if width is None:
        width = shutil.get_terminal_size((PIPE, 24)).columns if terminal else PIPE
    encoding = stream.encoding or "utf-8"
    glyphs = UNICODE if _can_write(encoding) else ASCII
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=max(NARROWEST, min(width, WIDEST)),
        force_terminal=color,
        color_system="standard" if color else None,
        theme=THEME,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        _environ={},  # the decision about colour and width is ours, once
    )
    draw(report, console, glyphs, color=color)
    text = buffer.getvalue()
    if not color:
        text = "\n".join(line.rstrip() for line in text.split("\n"))
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def draw(report: Report, console: Console, glyphs: Glyphs, *, color: bool) -> None:
    """Print the report to a console: summary, table, a panel a finding, what was not checked."""
    console.print(heading(report))
    for row in summary(report, glyphs, console.width):
        console.print(Padding(row, (0, 0, 0, 2)))
    console.print()
    if report.refusal is not None:
        console.print(Text(f"{glyphs.bad} {report.refusal}", style="error"))
    console.print(verdict(report, glyphs))
    for row in gate.violations(report, glyphs):
        console.print(row)
    shown = [finding for finding in report.findings if finding.state == "new"]
    if shown:
        console.print()
        console.print(Padding(findings_table(shown, glyphs, console, console.width - 2), (0, 0, 0, 2)))
    processes = {process.id: process for process in report.processes}
    for finding in shown[:MOST_PANELS]:
        console.print()
        console.print(
            finding_panel(
                finding,
                processes.get(finding.process),
                glyphs,
                console.width,
                color=color,
                name_process=len(processes) > 1,
            )
        )
    if len(shown) > MOST_PANELS:
        console.print()
        more = wording.count(len(shown) - MOST_PANELS, "more finding")
        console.print(Text(f"{more} in the table above; --format json has them in full", style="label"))
    _draw_timelines(report, console, glyphs)
    rest = not_checked(report)
    if rest is not None:
        console.print()
        console.print(Text("Not checked", style="label"))
        console.print(Padding(rest, (0, 0, 0, 2)))
    tidy = list(gate.notices(report))
    if tidy:
        console.print()
        console.print(Text("To tidy up", style="label"))
        for row in tidy:
            console.print(Padding(row, (0, 0, 0, 2)))
    if shown:
        console.print()
        console.print(Text(f"More about a rule: cudagraph-doctor explain {shown[0].rule.id}", style="dim"))


def _draw_timelines(report: Report, console: Console, glyphs: Glyphs) -> None:
    """The timelines, where they were asked for."""
    for one in report.timelines[: timeline.MOST_CAPTURES]:
        console.print()
        console.print(timeline.heading(one, name_process=len(report.processes) > 1))
        console.print(Padding(timeline.timeline_table(one, glyphs), (0, 0, 0, 2)))
    if len(report.timelines) > timeline.MOST_CAPTURES:
        more = wording.count(len(report.timelines) - timeline.MOST_CAPTURES, "more capture")
        console.print()
        console.print(Text(f"{more}; --format json has their timelines", style="label"))


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed by the target
        return False


def _can_write(encoding: str) -> bool:
    try:
        "✗·→…▸▔╭│✓".encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
