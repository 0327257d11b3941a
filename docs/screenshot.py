"""Draws the README's picture of a terminal: the report of a recorded trace, as SVG.

Usage: `python docs/screenshot.py TRACE docs/images/report.svg`.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from cudagraph_doctor.reporters.table.screen import draw
from cudagraph_doctor.reporters.table.theme import THEME, UNICODE

if TYPE_CHECKING:
    from cudagraph_doctor.report import Report

WIDTH = 88

# rich's own template without its link to a font on the network: the viewer's monospaced font is as good.
TEMPLATE = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix" xml:space="preserve">
{matrix}
</g></g></svg>
"""

COLOURS = TerminalTheme(
    (24, 26, 31),
    (204, 209, 217),
    [
        (40, 44, 52), (224, 108, 117), (152, 195, 121), (229, 192, 123),
        (97, 175, 239), (198, 120, 221), (86, 182, 194), (171, 178, 191),
    ],
    [
        (110, 118, 132), (240, 128, 138), (166, 212, 134), (240, 205, 140),
        (120, 190, 250), (212, 140, 232), (100, 200, 212), (230, 233, 238),
    ],
)  # fmt: skip


def picture(report: Report, title: str) -> str:
    """The report as it looks on a terminal of 88 columns, as SVG text."""
    console = Console(
        record=True,
        width=WIDTH,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        theme=THEME,
        markup=False,
        highlight=False,
        emoji=False,
    )
    draw(report, console, UNICODE, color=True)
    return console.export_svg(title=title, theme=COLOURS, code_format=TEMPLATE, unique_id="report")


def main(trace: str, out: str) -> None:
    """Diagnose the trace and write the picture."""
    from cudagraph_doctor.engine.run import diagnose

    report = diagnose([trace])
    with open(out, "w", encoding="utf-8") as stream:
        stream.write(picture(report, "cudagraph-doctor run " + " ".join(report.argv)))


if __name__ == "__main__":
    main(*sys.argv[1:3])
