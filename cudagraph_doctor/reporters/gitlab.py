"""GitLab's code quality report: a list of issues (docs.gitlab.com, "Code Quality report format").

GitLab shows an issue once a fingerprint, so findings that share one are numbered.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, TextIO

from cudagraph_doctor.reporters.places import HIGHEST_LINE, repository_path, shown_path
from cudagraph_doctor.reporters.unseen import unseen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.report import Report

_SEVERITY = {"error": "critical", "warning": "major", "note": "minor"}
_SURROGATE = re.compile("[\ud800-\udfff]")


def write(report: Report, stream: TextIO) -> None:
    """Write one JSON array, ASCII only."""
    json.dump(_numbered(_issues(report)), stream, indent=2)
    stream.write("\n")


def _issues(report: Report) -> Iterator[dict[str, Any]]:
    """Findings that are neither known nor suppressed, broken conditions of the gate, and what was not checked."""
    for finding in report.findings:
        if finding.state == "new":
            severity = _SEVERITY[finding.level.value] if report.gate.counts(finding) else "info"
            text = f"{finding.message} {finding.remedy}"
            yield _issue(report, finding.rule.id, severity, text, finding.location, finding.fingerprint)
    for violation in report.gate.violations:
        yield _issue(report, "gate", "critical", violation.what, violation.location)
    if report.gate.exit_code not in (None, 0, 1):
        yield _issue(report, "incomplete", "critical", report.gate.meaning, None)
    for row in unseen(report):
        severity = "major" if row.incomplete else "info"
        yield _issue(report, "not-checked", severity, row.sentence, row.location)


def _issue(
    report: Report, check: str, severity: str, text: str, place: Location | None, fingerprint: str = ""
) -> dict[str, Any]:
    path = repository_path(report.roots, place.file) if place is not None else None
    line = place.line if place is not None and path is not None else 1
    if place is not None and path is None:
        text = f"{shown_path(place.file)}:{place.line}: {text}"
    return {
        "description": _SURROGATE.sub("\ufffd", text),
        "check_name": check,
        "fingerprint": fingerprint or _digest(check, text),
        "severity": severity,
        "location": {"path": _SURROGATE.sub("\ufffd", path or _script(report)), "lines": {"begin": _line(line)}},
    }


def _script(report: Report) -> str:
    """GitLab wants a file for everything: without a line, the target's own."""
    for argument in report.argv:
        path = repository_path(report.roots, argument) if argument.endswith(".py") else None
        if path is not None:
            return path
    return "."


def _line(line: int) -> int:
    return min(max(line, 1), HIGHEST_LINE)


def _digest(*parts: str) -> str:
    import hashlib

    return hashlib.sha256("\x1f".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]


def _numbered(issues: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    times: dict[str, int] = {}
    for issue in issues:
        fingerprint = issue["fingerprint"]
        times[fingerprint] = number = times.get(fingerprint, 0) + 1
        told.append(issue if number == 1 else {**issue, "fingerprint": _digest(fingerprint, str(number))})
    return told
