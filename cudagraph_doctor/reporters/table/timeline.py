"""The capture status of each capture's streams over time, one row a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from cudagraph_doctor.reporters.table.findings_table import short_place
from cudagraph_doctor.reporters.table.foreign import visible

if TYPE_CHECKING:
    from cudagraph_doctor.report import StatusStep, Timeline
    from cudagraph_doctor.reporters.table.theme import Glyphs

MOST_CAPTURES = 20
"""Timelines shown; the JSON report has them all."""
MOST_STEPS = 40
"""Rows of one capture; the last one is always among them."""


def heading(timeline: Timeline, *, name_process: bool) -> Text:
    """`Capture 1 · failed`."""
    where = f" of process {timeline.process}" if name_process else ""
    begun = f"  {timeline.status}, begun by {visible(timeline.thread)}"
    return Text.assemble((f"Capture {timeline.capture}{where}", "label"), begun)


def timeline_table(timeline: Timeline, glyphs: Glyphs) -> Table:
    """Time from the capture's begin, stream, status, call, and place of each step."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", expand=False)
    table.add_column("ms", no_wrap=True, justify="right")
    table.add_column("Stream", no_wrap=True)
    table.add_column("Status", no_wrap=True)
    table.add_column("Call", overflow="fold", ratio=1)
    table.add_column("Place", no_wrap=True)
    steps = timeline.steps
    zero = steps[0].time if steps else 0.0
    kept = steps if len(steps) <= MOST_STEPS else (*steps[: MOST_STEPS - 1], steps[-1])
    for index, step in enumerate(kept):
        if index == MOST_STEPS - 1 and len(kept) < len(steps):
            table.add_row("", "", Text(f"{len(steps) - len(kept)} more, in the JSON report", style="dim"), "", "")
        table.add_row(
            Text(f"{(step.time - zero) * 1e3:.2f}"),
            Text(visible(step.stream)),
            _status(step, glyphs),
            _call(step, timeline),
            Text(short_place(step.location, glyphs), style="place"),
        )
    return table


def _status(step: StatusStep, glyphs: Glyphs) -> Text:
    style = {"invalidated": "error", "end": "", "begin": "good"}.get(step.what, "")
    if step.what == "join":
        return Text("joined", style=style)
    change = f"{step.before or '?'} {glyphs.arrow} {step.after or '?'}"
    return Text(f"{change} (fork)" if step.what == "fork" else change, style=style)


def _call(step: StatusStep, timeline: Timeline) -> Text:
    call = step.call or "not seen"
    if call.startswith("torch."):
        call = call.rpartition(".")[2]
    said = Text(visible(call))
    if step.code:
        said.append(f" ({step.code})", style="error")
    if step.thread != timeline.thread:
        said.append(f", thread {visible(step.thread)}", style="warning")
    return said
