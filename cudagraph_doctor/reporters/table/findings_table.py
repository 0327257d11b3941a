"""All findings at one glance: rule, level, confidence, place, cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from cudagraph_doctor.reporters.table import wording
from cudagraph_doctor.reporters.table.foreign import prose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from cudagraph_doctor.findings import Finding, Location
    from cudagraph_doctor.reporters.table.theme import Glyphs

WIDEST_PLACE = 24
CAUSE_ROWS = 2
"""Rows of a cause; the whole of it stands in the finding's panel."""


def findings_table(findings: Sequence[Finding], glyphs: Glyphs, console: Console, width: int) -> Table:
    """One row a finding. A long path keeps its end, which tells more than its beginning."""
    places = [short_place(finding.location, glyphs) for finding in findings]
    taken = sum(len(title) + 2 for title in ("CGD000", "warning", "Confidence")) + max(map(cell_len, places)) + 2
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", expand=False)
    table.add_column("Rule", no_wrap=True)
    table.add_column("Level", no_wrap=True)
    table.add_column("Confidence", no_wrap=True)
    table.add_column("Place", no_wrap=True)
    table.add_column("Cause", overflow="fold", ratio=1)
    for finding, place in zip(findings, places, strict=True):
        table.add_row(
            Text(finding.rule.id, style="label"),
            Text(finding.level.value, style=finding.level.value),
            Text(finding.confidence.value),
            Text(place, style="place"),
            _cause(finding.message, glyphs, console, max(width - taken, 10)),
        )
    return table


def _cause(message: str, glyphs: Glyphs, console: Console, width: int) -> Text:
    """The first rows of the cause."""
    rows = prose(message).wrap(console, width)
    if len(rows) <= CAUSE_ROWS:
        return prose(message)
    last = rows[CAUSE_ROWS - 1]
    last.truncate(width - len(glyphs.ellipsis))
    last.rstrip()
    last.append(glyphs.ellipsis)
    return Text("\n").join(rows[:CAUSE_ROWS])


def short_place(location: Location | None, glyphs: Glyphs) -> str:
    """`decode.py:24`, without its beginning where it is wider than a column."""
    if location is None:
        return "no Python line"
    text = wording.place(location)
    if cell_len(text) <= WIDEST_PLACE:
        return text
    kept = text
    while cell_len(kept) > WIDEST_PLACE - len(glyphs.ellipsis):
        kept = kept[1:]
    return glyphs.ellipsis + kept
