"""What the gate says beside the findings: conditions that do not hold, files that somebody should tidy up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from cudagraph_doctor.reporters.table import wording
from cudagraph_doctor.reporters.table.foreign import prose, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding, Location
    from cudagraph_doctor.report import Report
    from cudagraph_doctor.reporters.table.theme import Glyphs

MOST_ROWS = 20


def violations(report: Report, glyphs: Glyphs) -> Iterator[Text]:
    """A row a condition, in red: they fail the run as findings do."""
    for violation in report.gate.violations[:MOST_ROWS]:
        yield Text(f"{glyphs.bad} ", style="error").append_text(_told(violation.what, violation.location))
    more = len(report.gate.violations) - MOST_ROWS
    if more > 0:
        yield Text(f"{wording.count(more, 'more condition')} not met", style="error")


def notices(report: Report) -> Iterator[Text]:
    """A row a notice."""
    for notice in report.gate.notices[:MOST_ROWS]:
        yield _told(notice.what, notice.location)
    more = len(report.gate.notices) - MOST_ROWS
    if more > 0:
        yield Text(f"and {more} more", style="dim")


def rate(finding: Finding) -> Text | None:
    """In how many runs of a repeated target a finding was seen; None: the target was not repeated."""
    runs = finding.runs
    if runs is None:
        return None
    text = f"{runs.seen} of {wording.count(runs.of, 'run')} ({runs.low:.0%} to {runs.high:.0%}, 95 % interval)"
    return Text(f"flaky: {text}" if runs.flaky else text, style="warning" if runs.flaky else "")


def _told(what: str, place: Location | None) -> Text:
    at = f"{visible(wording.place(place))}: " if place is not None else ""
    return Text(at, style="place").append_text(prose(what))
