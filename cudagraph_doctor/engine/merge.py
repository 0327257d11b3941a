"""Findings as the report shows them: fingerprinted, duplicates counted once, the surest and worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from cudagraph_doctor.findings import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudagraph_doctor.findings import Consequence, Finding

CONSEQUENCES_KEPT = 20
"""Distinct consequences shown under one finding at most."""


def arrange(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Orders by confidence, level and time; merges what has the same rule, level, line and trigger.

    Findings of several processes (ranks of one job) at the same line are one finding: the first stands for all, with
    the sum of their counts.
    """
    merged: dict[tuple[object, ...], Finding] = {}
    for finding in sorted(findings, key=_order):
        key = _sameness(finding)
        first = merged.get(key)
        merged[key] = _fold(first, finding) if first is not None else finding
    return tuple(replace(finding, fingerprint=_fingerprint(finding)) for finding in merged.values())


def _fingerprint(finding: Finding) -> str:
    place = finding.location
    file, function = (place.file, place.function or "") if place is not None else ("", "")
    return fingerprint(finding.rule.id, file, function, finding.trigger)


def _order(finding: Finding) -> tuple[int, int, int, int]:
    return (
        finding.confidence.rank,
        finding.level.rank,
        finding.process,
        min(finding.evidence, default=2**63),
    )


def _sameness(finding: Finding) -> tuple[object, ...]:
    place = finding.location
    if place is None:
        # Without a line, only the same words tell that it is the same.
        return (finding.rule.id, finding.level, None, finding.trigger, finding.message)
    return (finding.rule.id, finding.level, (place.file, place.line), finding.trigger)


def _fold(first: Finding, other: Finding) -> Finding:
    consequences: dict[Consequence, None] = dict.fromkeys(first.consequences)
    for consequence in other.consequences:
        if len(consequences) < CONSEQUENCES_KEPT:
            consequences.setdefault(consequence)
    return replace(first, count=first.count + other.count, consequences=tuple(consequences))
