"""What was not looked at, and why: never silently clean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from cudagraph_doctor.reporters.table import wording
from cudagraph_doctor.reporters.table.foreign import prose

if TYPE_CHECKING:
    from cudagraph_doctor.report import EvidenceSpan, Report

MOST_LIMITS = 8


def not_checked(report: Report) -> Table | None:
    """Checkers that failed or were skipped, rules not decided, things not seen; one row a reason. None: nothing."""
    rows = [*_failed(report), *_rules(report), *_evidence(report), *_limits(report)]
    if not rows:
        return None
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(max_width=28, overflow="fold")
    table.add_column(overflow="fold", ratio=1)
    for what, why in rows:
        table.add_row(what, why)
    return table


def _failed(report: Report) -> list[tuple[Text, Text]]:
    return [
        (Text(checker.name, style="error"), prose(f"failed: {checker.reason or 'no reason given'}"))
        for checker in report.checkers
        if checker.state == "failed"
    ]


def _rules(report: Report) -> list[tuple[Text, Text]]:
    rows = [
        (Text(checker.name), prose(f"skipped: {checker.reason or 'no reason given'}"))
        for checker in report.checkers
        if checker.state == "skipped"
    ]
    reasons: dict[str, list[str]] = {}
    for checker in report.checkers:
        if checker.state == "ran":
            for rule in checker.rules:
                if not rule.checked:
                    reasons.setdefault(rule.reason or "no reason given", []).append(rule.rule)
    rows += [(Text(" ".join(sorted(rules))), prose(reason)) for reason, rules in reasons.items()]
    return rows


def _evidence(report: Report) -> list[tuple[Text, Text]]:
    """Why evidence changed on the way, and from when to when (seconds of the process): each reason once."""
    spans = {span.why: span for process in report.processes for span in process.evidence if span.why}
    return [(Text(f"{span.level} evidence"), prose(f"{why}{_when(span)}")) for why, span in spans.items()]


def _when(span: EvidenceSpan) -> str:
    if not span.start:
        return ""
    return f", from {span.start:.1f} s " + ("on" if span.end is None else f"to {span.end:.1f} s")


def _limits(report: Report) -> list[tuple[Text, Text]]:
    """What could not be seen, grouped by reason; what makes the diagnosis incomplete stands first."""
    grouped: dict[tuple[bool, str], list[str]] = {}
    for limit in sorted(report.limits, key=lambda limit: not limit.incomplete):
        if limit.what == report.refusal:
            continue  # stands above, in red
        what = limit.what if limit.location is None else f"{limit.what} at {wording.place(limit.location)}"
        group = grouped.setdefault((limit.incomplete, limit.reason), [])
        if what not in group:
            group.append(what)
    rows = []
    for (incomplete, reason), whats in list(grouped.items())[:MOST_LIMITS]:
        shown = ", ".join(whats[:3]) + (f" and {len(whats) - 3} more" if len(whats) > 3 else "")
        rows.append((prose(shown, style="warning" if incomplete else ""), prose(reason)))
    if len(grouped) > MOST_LIMITS:
        rows.append((Text("and more", style="dim"), Text(f"{len(grouped) - MOST_LIMITS} reasons, in the JSON report")))
    return rows
