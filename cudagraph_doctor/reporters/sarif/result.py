"""A finding as a SARIF result: where, why, what followed, what to change."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cudagraph_doctor.findings import Confidence
from cudagraph_doctor.reporters.places import sources_of
from cudagraph_doctor.reporters.sarif.places import artifact, location

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cudagraph_doctor.findings import Finding, Fix
    from cudagraph_doctor.report import Report

_LINK = re.compile(r"\[(?=[^\[\]]*\]\()")
"""Text that SARIF would take for an embedded link (§3.11.6): `f[0](x)`."""
_RANK = {Confidence.PROVEN: 100.0, Confidence.LIKELY: 70.0, Confidence.POSSIBLE: 30.0}
_PRECISION = {Confidence.PROVEN: "very-high", Confidence.LIKELY: "high", Confidence.POSSIBLE: "low"}


def of_finding(report: Report, finding: Finding, rules: Sequence[str]) -> dict[str, Any]:
    """One `result` object; `rules` are the ids of the run's rules, in order."""
    text = f"{_plain(finding.message)}\n\n{_plain(finding.remedy)}"
    told: dict[str, Any] = {
        "ruleId": finding.rule.id,
        "ruleIndex": rules.index(finding.rule.id),
        "kind": "fail",
        "level": finding.level.value,
        "message": {"text": text},
        "locations": [location(report, finding.process, finding.location)] if finding.location else [],
        "occurrenceCount": max(finding.count, 1),
        "rank": _RANK[finding.confidence],
        "properties": _properties(finding),
    }
    if finding.fingerprint:
        told["partialFingerprints"] = {"cudagraphDoctor/v1": finding.fingerprint}
    if finding.related:
        told["relatedLocations"] = [
            {"id": number, **location(report, finding.process, place, _plain(place.note or "related"))}
            for number, place in enumerate(finding.related)
        ]
    flow = list(_flow(report, finding))
    if len(flow) > 1:
        told["codeFlows"] = [{"threadFlows": [{"locations": flow}]}]
    if finding.fix is not None:
        told["fixes"] = [_fix(report, finding, finding.fix)]
    if report.gate.baseline is not None:
        told["baselineState"] = "unchanged" if finding.state == "known" else "new"
    # An empty array says that nothing suppresses it (§3.27.23).
    told["suppressions"] = list(_suppressions(report, finding))
    return told


def _flow(report: Report, finding: Finding) -> Iterator[dict[str, Any]]:
    """From the cause, through what it called, to its consequences."""
    process = finding.process
    here = None
    if finding.location is not None:
        here = (finding.location.file, finding.location.line)
        yield _step(location(report, process, finding.location, _plain(finding.message)), "essential", 0)
    for place in finding.chain:
        if (place.file, place.line) != here:
            called = f"calls {place.function or place.file}"
            yield _step(location(report, process, place, _plain(called)), "unimportant", 1)
    for consequence in finding.consequences:
        code = f" ({consequence.code})" if consequence.code is not None else ""
        said = _plain(f"then: {consequence.message}{code}")
        yield _step(location(report, process, consequence.location, said), "important", 0)


def _step(place: dict[str, Any], importance: str, nesting: int) -> dict[str, Any]:
    return {"location": place, "importance": importance, "nestingLevel": nesting}


def _fix(report: Report, finding: Finding, fix: Fix) -> dict[str, Any]:
    """Whole lines are replaced, the last without its line break: a file may end without one."""
    text = sources_of(report, finding.process).get(fix.source) if fix.source is not None else None
    lines = text.split("\n") if text is not None else []
    start, end = max(fix.start, 1), max(fix.end, fix.start, 1)
    region: dict[str, Any] = {"startLine": start, "startColumn": 1, "endLine": end}
    if end <= len(lines):
        region["endColumn"] = len(lines[end - 1]) + 1
    replacement = {"deletedRegion": region, "insertedContent": {"text": fix.replacement.removesuffix("\n")}}
    return {
        "description": {"text": _plain(finding.remedy)},
        "artifactChanges": [{"artifactLocation": artifact(report, fix.file), "replacements": [replacement]}],
    }


def _suppressions(report: Report, finding: Finding) -> Iterator[dict[str, Any]]:
    if finding.state == "known":
        yield {
            "kind": "external",
            "status": "accepted",
            "justification": f"known: {report.gate.baseline or 'baseline'}",
        }
    elif finding.state == "suppressed":
        given = finding.suppression
        kind = "inSource" if given is not None and given.kind == "inline" else "external"
        yield {
            "kind": kind,
            "status": "accepted",
            "justification": (given.reason if given else "") or "no reason given",
        }


def _properties(finding: Finding) -> dict[str, Any]:
    told: dict[str, Any] = {
        "confidence": finding.confidence.value,
        "precision": _PRECISION[finding.confidence],
        "evidence": finding.evidence_level.value,
        "records": list(finding.evidence),
        "process": finding.process,
        "capture": finding.capture,
    }
    if finding.aftermath:
        told["aftermath"] = list(finding.aftermath)
    if finding.runs is not None:
        told["runs"] = {"seen": finding.runs.seen, "of": finding.runs.of, "flaky": finding.runs.flaky}
    return told


def _plain(text: str) -> str:
    return _LINK.sub(r"\\[", text) or "-"
