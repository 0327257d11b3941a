"""The findings: a list that can be filtered by level, each with its source, cause, remedy and consequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.findings import Severity
from cudagraph_doctor.reporters.html.element import Html, element, joined, prose
from cudagraph_doctor.reporters.places import region, sources_of, where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding, Location
    from cudagraph_doctor.report import Report

MOST_OPEN = 5
MOST_IN_FULL = 500
"""Findings with their source and change; the others are rows, so that a browser still opens the page."""
CONTEXT = 3


def section(report: Report) -> Iterator[Html]:
    """Yields the section piece by piece: there may be thousands."""
    total = len(report.findings)
    yield Html(f'<section id="findings" tabindex="-1"><h2>Findings ({total:,})</h2>')
    if not total:
        yield element("p", "No findings. What that rests on stands under “Not checked”.")
    else:
        yield _filters(report)
    opened = 0
    for number, finding in enumerate(report.findings):
        is_open = finding.state == "new" and opened < MOST_OPEN
        opened += is_open
        yield _finding(report, finding, is_open=is_open, full=number < MOST_IN_FULL)
    yield Html("</section>")


def _filters(report: Report) -> Html:
    boxes = []
    for level in Severity:
        number = sum(finding.level is level for finding in report.findings)
        box = element("input", type="checkbox", checked=True, data_level=level.value, disabled=not number)
        boxes.append(element("label", box, f" {level.value} ({number:,})"))
    return element("fieldset", element("legend", "Show"), *boxes, class_="filters")


def _finding(report: Report, finding: Finding, *, is_open: bool, full: bool) -> Html:
    marks = [finding.level.value, finding.confidence.value]
    if finding.state != "new":
        marks.append(finding.state)
    if finding.runs is not None and finding.runs.flaky:
        marks.append(f"flaky: {finding.runs.seen} of {finding.runs.of} runs")
    summary = element(
        "summary",
        element("span", finding.level.value, class_="level"),
        " ",
        element("b", f"{finding.rule.id} {finding.rule.slug}"),
        " ",
        element("span", where(finding.location), class_="place"),
        " ",
        element("span", prose(finding.message), class_="message"),
    )
    body = _body(report, finding, marks) if full else element("p", "Remedy: ", prose(finding.remedy))
    return element(
        "details", summary, body, class_=f"finding {finding.level.value} {finding.state}", open=is_open,
        data_level=finding.level.value,
    )  # fmt: skip


def _body(report: Report, finding: Finding, marks: list[str]) -> Html:
    facts: list[tuple[str, Html]] = [("What", prose(finding.message)), ("Remedy", prose(finding.remedy))]
    if finding.chain:
        steps = [element("li", where(place) if place.line > 0 else place.file) for place in finding.chain]
        facts.append(("Through", element("ol", *steps)))
    if finding.related:
        notes = [element("li", where(place), ": ", prose(place.note or "")) for place in finding.related]
        facts.append(("See", element("ul", *notes)))
    if finding.consequences:
        then = [
            element("li", prose(c.message), f" ({c.code})" if c.code is not None else None,
                    f" at {where(c.location)}" if c.location else None)
            for c in finding.consequences
        ]  # fmt: skip
        facts.append(("Then", element("ol", *then)))
    if finding.aftermath:
        facts.append(("Leaves", element("ul", *(element("li", prose(line)) for line in finding.aftermath))))
    if finding.suppression is not None:
        facts.append(
            ("Suppressed", joined(finding.suppression.kind, ": ", finding.suppression.reason or "no reason given"))
        )
    proof = f"{finding.evidence_level.value} evidence, records {', '.join(map(str, finding.evidence[:6])) or 'none'}"
    facts.append(("Proof", joined(proof, f"; seen {finding.count:,} times" if finding.count > 1 else None)))
    listed = [joined(element("dt", name), element("dd", content)) for name, content in facts]
    return element(
        "div",
        element("p", " · ".join(marks), class_="marks"),
        _source(report, finding.process, finding.location),
        element("dl", *listed),
        _change(report, finding),
        class_="body",
    )


def _source(report: Report, process: int, place: Location | None) -> Html | None:
    """The line with its neighbours, as far as the text was recorded."""
    if place is None:
        return element("p", "No Python line can be named.")
    text = sources_of(report, process).get(place.source) if place.source is not None else None
    where_in = region(report, process, place)
    lines = text.split("\n") if text is not None else []
    if not 1 <= where_in.line <= len(lines):
        return element("pre", element("code", place.code), tabindex="0") if place.code else None
    first = max(1, where_in.line - CONTEXT)
    last = min(len(lines), where_in.end_line + CONTEXT, where_in.line + 30)
    rows = []
    for number in range(first, last + 1):
        here = where_in.line <= number <= where_in.end_line
        # A mark is a block, which ends its line.
        line = element("span", f"{number:>5} ", class_="number"), lines[number - 1][:1000]
        rows.append(element("mark", *line) if here else joined(*line, "\n"))
    label = f"Source of {where(place)}"
    return element("pre", element("code", *rows), tabindex="0", role="region", aria_label=label)


def _change(report: Report, finding: Finding) -> Html | None:
    fix = finding.fix
    if fix is None:
        return None
    text = sources_of(report, finding.process).get(fix.source) if fix.source is not None else None
    old = text.split("\n")[max(fix.start, 1) - 1 : fix.end] if text is not None else []
    new = fix.replacement.removesuffix("\n").split("\n")
    rows = [element("del", f"- {line}") for line in old] + [element("ins", f"+ {line}") for line in new]
    return joined(
        element("p", "Changed code:"),
        element("pre", element("code", *rows), tabindex="0", role="region", aria_label="Changed code"),
    )
