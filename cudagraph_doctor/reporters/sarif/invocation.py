"""The run as SARIF's invocation: what was not checked and how the target ended are its notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudagraph_doctor.reporters.sarif.places import location
from cudagraph_doctor.reporters.unseen import unseen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.report import Report
    from cudagraph_doctor.reporters.unseen import Unseen

_TEXTS = {
    "not-checked": "Something was not looked at.",
    "incomplete": "The diagnosis is incomplete.",
    "target-ended": "How the target ended.",
    "gate": "A condition of the gate that does not hold.",
    "tidy": "The gate's own files need attention.",
}
NOTIFICATIONS = [{"id": name, "shortDescription": {"text": text}} for name, text in _TEXTS.items()]


def of_run(report: Report) -> dict[str, Any]:
    """One `invocation` object."""
    complete = not any(row.incomplete for row in unseen(report)) and report.refusal is None
    told: dict[str, Any] = {
        "executionSuccessful": complete,
        "toolExecutionNotifications": list(_execution(report)),
        "toolConfigurationNotifications": list(_configuration(report)),
    }
    if report.gate.exit_code is not None:
        told["exitCode"] = report.gate.exit_code
        if report.gate.meaning:
            told["exitCodeDescription"] = report.gate.meaning
    return told


def _execution(report: Report) -> Iterator[dict[str, Any]]:
    for row in unseen(report):
        if row.kind in ("failed", "limit", "evidence"):
            yield _of_unseen(report, row)
    for violation in report.gate.violations:
        yield _notification(report, "gate", "error", violation.what, violation.location)
    if report.unexplained_end:
        yield _notification(
            report, "target-ended", "error", "no finding explains how the target ended: " + _end(report)
        )
    elif report.exit.abnormal:
        yield _notification(report, "target-ended", "note", "the target ended abnormally: " + _end(report))
    if not report.captures:
        yield _notification(report, "not-checked", "warning", "nothing was captured")


def _configuration(report: Report) -> Iterator[dict[str, Any]]:
    for row in unseen(report):
        if row.kind in ("skipped", "rules"):
            yield _of_unseen(report, row)
    for notice in report.gate.notices:
        yield _notification(report, "tidy", "warning", notice.what, notice.location)


def _of_unseen(report: Report, row: Unseen) -> dict[str, Any]:
    kind, level = ("incomplete", "error") if row.incomplete else ("not-checked", "note")
    return _notification(report, kind, level, row.sentence, row.location)


def _notification(report: Report, kind: str, level: str, text: str, place: Any = None) -> dict[str, Any]:
    told: dict[str, Any] = {"descriptor": {"id": kind}, "level": level, "message": {"text": text}}
    if place is not None:
        told["locations"] = [location(report, 0, place)]
    return told


def _end(report: Report) -> str:
    ended = report.exit
    how = ended.signal or (f"status {ended.returncode}" if ended.returncode is not None else "its end was not seen")
    return f"{how}, {ended.exception}" if ended.exception else how
