"""One finding in full: what, where, through what, why, what to change, what followed from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from cudagraph_doctor.reporters.table import gate, wording
from cudagraph_doctor.reporters.table.change import changed_code
from cudagraph_doctor.reporters.table.foreign import prose, visible
from cudagraph_doctor.reporters.table.source import excerpt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from cudagraph_doctor.findings import Consequence, Finding, Location
    from cudagraph_doctor.report import ProcessInfo
    from cudagraph_doctor.reporters.table.theme import Glyphs

FRAME = 3
"""Columns of the border and its padding."""
LABEL = 9
"""Columns of the widest label, `through`, and the gap after it."""
MOST_CONSEQUENCES = 4


def finding_panel(
    finding: Finding, process: ProcessInfo | None, glyphs: Glyphs, width: int, *, color: bool, name_process: bool
) -> Panel:
    """The panel of one finding.

    Args:
        finding: The finding.
        process: The process that it belongs to, which holds the recorded source.
        glyphs: What is drawn.
        width: Columns of the whole panel.
        color: Whether code is highlighted.
        name_process: Whether to say which process it was; there are several.
    """
    sources = process.sources if process else {}
    parts: list[RenderableType] = [prose(finding.message, style="bold"), Text()]
    if finding.location is None:
        parts.append(Text("No Python line can be named.", style="dim"))
    else:
        parts.append(Text(wording.place_in(finding.location), style="place"))
        parts += excerpt(finding.location, sources, width - FRAME, glyphs, color=color)
    parts.append(Text())
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(no_wrap=True, style="dim")
    facts.add_column(overflow="fold", ratio=1)
    if name_process and process:
        facts.add_row("process", _process(process))
    if finding.chain:
        facts.add_row("through", chain(finding.chain, finding.location, glyphs, width - FRAME - LABEL))
    for number, place in enumerate(finding.related):
        note = Text(f"  {visible(place.note or '')}", style="dim")
        facts.add_row("" if number else "see", Text.assemble(wording.place_in(place), note))
    facts.add_row("remedy", prose(finding.remedy))
    if finding.fix:
        facts.add_row("", Group(*changed_code(finding.fix, sources, width - FRAME - LABEL)))
    if finding.consequences:
        facts.add_row("then", _listed(_consequences(finding.consequences), glyphs))
    if finding.aftermath:
        facts.add_row("leaves", _listed([prose(line) for line in finding.aftermath], glyphs))
    if finding.count > 1:
        facts.add_row("seen", wording.count(finding.count, "time"))
    rate = gate.rate(finding)
    if rate is not None:
        facts.add_row("runs", rate)
    if finding.evidence:
        numbers = ", ".join(map(str, finding.evidence[:6]))
        facts.add_row("proof", Text(f"{finding.evidence_level.value} evidence, records {numbers}", style="dim"))
    parts.append(facts)
    style = finding.level.value
    title = Text.assemble(
        (f"{finding.rule.id} ", style),
        (finding.rule.slug, style),
        f" {glyphs.dot} {finding.level.value} {glyphs.dot} {finding.confidence.value}",
        "" if finding.state == "new" else f" {glyphs.dot} {finding.state}",
    )
    return Panel(
        Group(*parts),
        box=glyphs.box,
        title=title,
        title_align="left",
        border_style=style,
        padding=(0, 0, 0, 1),
        width=width,
    )


def chain(places: Sequence[Location], own: Location | None, glyphs: Glyphs, width: int) -> Text:
    """The frames from the user's line into the library on one line.

    Where it is too long, the places of the library's functions go first, then the middle.
    """
    here = None if own is None else (own.file, own.line)
    if own is not None and here not in [(place.file, place.line) for place in places]:
        places = [own, *places]
    steps = [wording.place(step) if (step.file, step.line) == here else _step(step) for step in places]
    joint = f" {glyphs.arrow} "
    text = joint.join(steps)
    if cell_len(text) > width:
        steps = [wording.place(step) if (step.file, step.line) == here else _name(step) for step in places]
        text = joint.join(steps)
    keep = len(steps)
    while keep > 2 and cell_len(text) > width:
        keep -= 1
        head = (keep + 1) // 2
        text = joint.join([*steps[:head], glyphs.ellipsis, *steps[len(steps) - (keep - head) :]])
    return Text(text)


def _name(place: Location) -> str:
    return _step(place) if place.function in (None, "<module>") else visible(place.function or "")


def _step(place: Location) -> str:
    where = wording.place(place) if place.line > 0 else wording.path(place.file)
    if place.function in (None, "<module>"):
        return where
    return f"{visible(place.function or '')} ({where})"


def _consequences(consequences: Sequence[Consequence]) -> list[Text]:
    """Each different consequence once, with how often, in order of appearance."""
    counted: dict[tuple[str, object], list[Consequence]] = {}
    for item in consequences:
        counted.setdefault((item.message, item.code), []).append(item)
    rows = []
    for same in list(counted.values())[:MOST_CONSEQUENCES]:
        item = same[0]
        row = prose(item.message)
        if item.code is not None and str(item.code) not in item.message:
            row.append(f" ({visible(str(item.code))})", style="dim")
        if item.location:
            row.append(f" at {wording.place(item.location)}", style="dim")
        if len(same) > 1:
            row.append(f", {len(same)} times", style="dim")
        rows.append(row)
    left = len(counted) - MOST_CONSEQUENCES
    if left > 0:
        rows.append(Text(f"and {left} more, in the JSON report", style="dim"))
    return rows


def _listed(rows: Sequence[Text], glyphs: Glyphs) -> RenderableType:
    """One row as it is; several with a mark before each, so that their beginnings can be told."""
    if len(rows) == 1:
        return rows[0]
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True, style="faint")
    grid.add_column(overflow="fold", ratio=1)
    for row in rows:
        grid.add_row(glyphs.dot, row)
    return grid


def _process(process: ProcessInfo) -> Text:
    parts = [f"pid {process.pid}"]
    if process.rank is not None:
        parts.insert(0, f"rank {process.rank}")
    if process.host:
        parts.append(visible(process.host))
    return Text(", ".join(parts))
