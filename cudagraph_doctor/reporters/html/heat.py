"""The heat map: which lines the findings touch, and in which role, hottest first.

A cell is darker the more findings name that line as their cause, pass through it, or follow at it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.reporters.html.element import Html, element
from cudagraph_doctor.reporters.places import is_file, shown_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding, Location
    from cudagraph_doctor.report import Report

ROLES = ("cause", "through", "consequence", "related")
MOST_LINES = 40
SHADES = 5


def section(report: Report) -> Iterator[Html]:
    """The table; nothing where no finding names a line."""
    heat = heat_of(report)
    yield Html('<section id="heat"><h2>Heat map of lines</h2>')
    if not heat:
        yield element("p", "No finding names a line.")
    else:
        hottest = max(max(counts.values()) for counts in heat.values())
        lines = sorted(heat.items(), key=lambda item: (-sum(item[1].values()), item[0]))
        head = element("tr", *(element("th", title, scope="col") for title in ("Line", *ROLES)))
        rows = [
            element("tr", element("th", f"{shown_path(file)}:{line}", scope="row"), *_cells(counts, hottest))
            for (file, line), counts in lines[:MOST_LINES]
        ]
        yield element("div", element("table", element("thead", head), element("tbody", *rows)), class_="wide heat")
        if len(lines) > MOST_LINES:
            yield element("p", f"{len(lines) - MOST_LINES:,} cooler lines are left out.")
    yield Html("</section>")


def heat_of(report: Report) -> dict[tuple[str, int], dict[str, int]]:
    """How often each line stands in each role; occurrences count."""
    heat: dict[tuple[str, int], dict[str, int]] = {}
    for finding in report.findings:
        for role, place in _places(finding):
            if is_file(place.file) and place.line > 0:
                counts = heat.setdefault((place.file, place.line), {})
                counts[role] = counts.get(role, 0) + max(finding.count, 1)
    return heat


def _places(finding: Finding) -> Iterator[tuple[str, Location]]:
    if finding.location is not None:
        yield "cause", finding.location
    here = (finding.location.file, finding.location.line) if finding.location else None
    yield from (("through", place) for place in finding.chain if (place.file, place.line) != here)
    yield from (("consequence", c.location) for c in finding.consequences if c.location is not None)
    yield from (("related", place) for place in finding.related)


def _cells(counts: dict[str, int], hottest: int) -> Iterator[Html]:
    for role in ROLES:
        number = counts.get(role, 0)
        shade = 0 if not number else max(1, round(SHADES * number / hottest))
        yield element("td", f"{number:,}" if number else "", class_=f"heat-{shade}")
