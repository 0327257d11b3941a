"""GitHub's workflow commands: annotations in the diff (docs.github.com, "Workflow commands for GitHub Actions").

GitHub shows ten annotations of each level a step and drops the rest silently, so the first ten by certainty are
annotations, and the rest stand in the job's summary (`step_summary`) and, in one line each, in the log.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TextIO

from cudagraph_doctor.reporters.places import region, repository_path, where
from cudagraph_doctor.reporters.unseen import unseen
from cudagraph_doctor.reporters.verdict import captures, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding, Location
    from cudagraph_doctor.report import Report

MOST_ANNOTATIONS = 10
MOST_LINES = 200
_COMMAND = {"error": "error", "warning": "warning", "note": "notice"}
_CONTROL = re.compile(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def write(report: Report, stream: TextIO) -> None:
    """Write a command a line, then the verdict."""
    new = [finding for finding in report.findings if finding.state == "new"]  # the surest first
    stream.writelines(_annotation(report, finding) + "\n" for finding in new[:MOST_ANNOTATIONS])
    for violation in report.gate.violations[:MOST_ANNOTATIONS]:
        properties = _at(report, 0, violation.location)
        stream.write(_command("error", {**properties, "title": "cudagraph-doctor gate"}, violation.what) + "\n")
    if report.gate.exit_code not in (None, 0, 1):
        stream.write(_command("error", {"title": "cudagraph-doctor"}, report.gate.meaning) + "\n")
    stream.writelines(line + "\n" for line in _not_checked(report))
    rest = new[MOST_ANNOTATIONS:]
    stream.writelines(f"{_line(finding)}\n" for finding in rest[:MOST_LINES])
    if len(rest) > MOST_LINES:
        stream.write(f"and {len(rest) - MOST_LINES:,} more findings, in the other formats\n")
    stream.write(f"cudagraph-doctor: {_shown(verdict(report))} · {captures(report.captures)}\n")


def step_summary(report: Report, stream: TextIO) -> None:
    """What goes to the file that `GITHUB_STEP_SUMMARY` names; GitHub refuses more than 1 MiB."""
    from cudagraph_doctor.reporters import markdown

    markdown.write(report, stream)


def _annotation(report: Report, finding: Finding) -> str:
    properties = _at(report, finding.process, finding.location)
    properties["title"] = f"{finding.rule.id} {finding.rule.slug} ({finding.confidence.value})"
    text = f"{finding.message}\n{finding.remedy}"
    if finding.location is None or "file" not in properties:
        text = f"{where(finding.location)}: {text}"
    return _command(_COMMAND[finding.level.value], properties, text)


def _at(report: Report, process: int, place: Location | None) -> dict[str, str]:
    path = repository_path(report.roots, place.file) if place is not None else None
    if place is None or path is None:
        return {}
    found = region(report, process, place)
    told = {"file": path, "line": str(found.line), "endLine": str(found.end_line)}
    if found.column is not None and found.line == found.end_line:
        told |= {"col": str(found.column), "endColumn": str(found.end_column)}
    return told


def _not_checked(report: Report) -> Iterator[str]:
    """What makes the diagnosis incomplete is a warning of its own; the rest is one notice."""
    rows = unseen(report)
    for row in [row for row in rows if row.incomplete][:MOST_ANNOTATIONS]:
        yield _command("warning", {**_at(report, 0, row.location), "title": "cudagraph-doctor: not seen"}, row.sentence)
    rest = [row.sentence for row in rows if not row.incomplete]
    if rest:
        yield _command("notice", {"title": "cudagraph-doctor: not checked"}, "\n".join(rest))
    notices = [f"{where(n.location) + ': ' if n.location else ''}{n.what}" for n in report.gate.notices]
    if notices:
        yield _command("notice", {"title": "cudagraph-doctor: to tidy up"}, "\n".join(notices))


def _line(finding: Finding) -> str:
    text = f"{finding.rule.id} {finding.level.value} {where(finding.location)}: {finding.message}"
    return _shown(" ".join(text.split()))


def _shown(text: str) -> str:
    """A line of the log that is no command, whatever it holds."""
    return _visible(text).replace("\n", " ").replace("\r", " ")


def _command(name: str, properties: dict[str, str], text: str) -> str:
    told = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{name}{' ' + told if told else ''}::{_data(text)}"


def _data(text: str) -> str:
    return _visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _visible(text: str) -> str:
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
