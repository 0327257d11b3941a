"""`--repeat N`: the reports of several runs of one target as one, with the rate at which each finding was seen."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

from msgspec.structs import replace

from cudagraph_doctor.findings import Runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_doctor.findings import CheckerState, Finding
    from cudagraph_doctor.report import Exit, Report

_Z = 1.959964
"""Two-sided 95 % quantile of the normal distribution."""


def combine(reports: Sequence[Report]) -> Report:
    """One report on all runs.

    A finding stands once, with the number of runs that had it; processes, captures and timelines of all runs stand one
    after the other, with processes numbered anew. The exit is the first abnormal one.
    """
    first = reports[0]
    if len(reports) == 1:
        return replace(first, findings=tuple(replace(f, runs=_runs(1, 1)) for f in first.findings))
    shifted: list[Report] = []
    for report in reports:
        shifted.append(_shifted(report, sum(len(other.processes) for other in shifted)))
    seen: dict[tuple[object, ...], tuple[Finding, set[int]]] = {}
    for number, report in enumerate(shifted):
        for finding in report.findings:
            kept, runs = seen.setdefault(_sameness(finding), (finding, set()))
            runs.add(number)
            if (finding.confidence.rank, finding.state != "new") < (kept.confidence.rank, kept.state != "new"):
                seen[_sameness(finding)] = (finding, runs)
    findings = [replace(finding, runs=_runs(len(runs), len(reports))) for finding, runs in seen.values()]
    findings.sort(key=lambda finding: (finding.confidence.rank, finding.level.rank))
    gate = replace(
        first.gate,
        violations=tuple(dict.fromkeys(v for report in shifted for v in report.gate.violations)),
        notices=tuple(n for n in first.gate.notices if all(n in report.gate.notices for report in shifted)),
    )
    return replace(
        first,
        exit=_exit([report.exit for report in shifted]),
        processes=tuple(p for report in shifted for p in report.processes),
        captures=tuple(c for report in shifted for c in report.captures),
        timelines=tuple(t for report in shifted for t in report.timelines),
        checkers=_checkers([report.checkers for report in shifted]),
        findings=tuple(findings),
        limits=tuple(dict.fromkeys(limit for report in shifted for limit in report.limits)),
        refusal=next((report.refusal for report in shifted if report.refusal is not None), None),
        gate=gate,
    )


def wilson(seen: int, of: int) -> tuple[float, float]:
    """The 95 % score interval of a rate (Wilson 1927): sound for few runs, and for 0 and all of them."""
    rate, square = seen / of, _Z * _Z
    middle = (rate + square / (2 * of)) / (1 + square / of)
    half = _Z / (1 + square / of) * sqrt(rate * (1 - rate) / of + square / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)


def _runs(seen: int, of: int) -> Runs:
    return Runs(seen, of, *wilson(seen, of))


def _sameness(finding: Finding) -> tuple[object, ...]:
    place = finding.location
    return finding.fingerprint, finding.level, place.line if place is not None else finding.message


def _shifted(report: Report, by: int) -> Report:
    if not by:
        return report
    return replace(
        report,
        processes=tuple(
            replace(p, id=p.id + by, parent=p.parent + by if p.parent is not None else None) for p in report.processes
        ),
        captures=tuple(replace(c, process=c.process + by) for c in report.captures),
        timelines=tuple(replace(t, process=t.process + by) for t in report.timelines),
        findings=tuple(replace(f, process=f.process + by) for f in report.findings),
    )


def _exit(exits: Sequence[Exit]) -> Exit:
    return next((one for one in exits if one.timed_out or one.abnormal), exits[0])


def _checkers(runs: Sequence[tuple[CheckerState, ...]]) -> tuple[CheckerState, ...]:
    """Of each checker its weakest state: it failed if it failed once, a rule was checked if it was every time."""
    order = ("failed", "ran", "skipped")
    told = []
    for states in zip(*runs, strict=True):
        worst = min(states, key=lambda state: order.index(state.state))
        rules = tuple(
            next((rule for rule in same if not rule.checked), same[0])
            for same in zip(*(state.rules for state in states), strict=True)
        )
        told.append(replace(worst, rules=rules))
    return tuple(told)
