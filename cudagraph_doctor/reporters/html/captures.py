"""The captures and their timelines: when the status changed, across which call, on which thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.reporters.html.element import Html, element
from cudagraph_doctor.reporters.places import where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.report import Report, StatusStep, Timeline

MOST_CAPTURES = 200
MOST_STEPS = 200


def section(report: Report) -> Iterator[Html]:
    """A table of captures, then a timeline each."""
    yield Html(f'<section id="captures"><h2>Captures ({len(report.captures):,})</h2>')
    if not report.captures:
        yield element("p", "Nothing was captured.")
    else:
        yield element("div", _table(report), class_="wide")
    for timeline in report.timelines[:MOST_CAPTURES]:
        yield _timeline(timeline, several=len(report.processes) > 1)
    if len(report.timelines) > MOST_CAPTURES:
        yield element("p", f"{len(report.timelines) - MOST_CAPTURES:,} more timelines stand in the JSON report.")
    yield Html("</section>")


def _table(report: Report) -> Html:
    head = element(
        "tr", *(element("th", title, scope="col") for title in ("Capture", "Status", "Nodes", "Replays", "Where"))
    )
    rows = [
        element(
            "tr",
            element("th", str(info.id) + (f" [{info.key}]" if info.key else ""), scope="row"),
            element("td", info.status, class_=f"status {info.status}"),
            element("td", f"{info.nodes:,}" if info.nodes is not None else "?"),
            element("td", f"{info.replays:,}"),
            element("td", where(info.location)),
        )
        for info in report.captures[:MOST_CAPTURES]
    ]
    if len(report.captures) > MOST_CAPTURES:
        rows.append(element("tr", element("td", f"{len(report.captures) - MOST_CAPTURES:,} more", colspan="5")))
    return element("table", element("thead", head), element("tbody", *rows))


def _timeline(timeline: Timeline, *, several: bool) -> Html:
    process = f" of process {timeline.process}" if several else ""
    title = f"Capture {timeline.capture}{process}: {timeline.status}, begun by {timeline.thread}"
    steps = (
        timeline.steps if len(timeline.steps) <= MOST_STEPS else (*timeline.steps[: MOST_STEPS - 1], timeline.steps[-1])
    )
    rows = [_step(step, timeline.steps[0].time) for step in steps]
    left_out = len(timeline.steps) - len(steps)
    more = element("p", f"{left_out:,} steps before the last are left out.") if left_out else None
    return element("figure", element("figcaption", title), element("ol", *rows, class_="timeline"), more)


def _step(step: StatusStep, begin: float) -> Html:
    before, after = step.before or "?", step.after or "?"
    return element(
        "li",
        element("span", f"+{(step.time - begin) * 1e3:.3f} ms", class_="time"),
        element("span", f"{step.what}: {before} → {after}", class_=f"status {after}"),
        element("span", " across ", element("code", step.call)) if step.call else " unseen",
        f" (cudaError {step.code})" if step.code else None,
        f" on thread {step.thread}, stream {step.stream or '?'}",
        f", {where(step.location)}" if step.location else None,
        class_=f"step {step.what}",
    )
