"""The verdict in one plain line, for formats that are read without a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.findings import Severity

if TYPE_CHECKING:
    from cudagraph_doctor.report import CaptureInfo, Report


def verdict(report: Report) -> str:
    """`1 error, 2 warnings · 12 rules checked, 3 not · 4 known or suppressed`."""
    new = [finding for finding in report.findings if finding.state == "new"]
    numbers = [(sum(finding.level is level for finding in new), level.value) for level in Severity]
    parts = [", ".join(count(number, noun) for number, noun in numbers if number) or "no findings"]
    ran = [rule for checker in report.checkers if checker.state == "ran" for rule in checker.rules]
    checked = sum(rule.checked for rule in ran)
    unchecked = sum(not rule.checked for checker in report.checkers for rule in checker.rules)
    parts.append(f"{count(checked, 'rule')} checked" + (f", {unchecked} not" if unchecked else ""))
    hidden = len(report.findings) - len(new)
    if hidden:
        parts.append(f"{hidden} known or suppressed")
    if report.gate.violations:
        parts.append(count(len(report.gate.violations), "condition") + " of the gate not met")
    failed = [checker.name for checker in report.checkers if checker.state == "failed"]
    if failed:
        parts.append(f"{count(len(failed), 'checker')} failed")
    if report.unexplained_end:
        parts.append("no finding explains how the target ended")
    if report.refusal:
        parts.append(report.refusal)
    return " · ".join(parts)


def captures(infos: tuple[CaptureInfo, ...]) -> str:
    """`3 captures: 2 completed, 1 failed; 128 replays`."""
    if not infos:
        return "nothing was captured"
    statuses = ("completed", "failed", "abandoned", "unfinished")
    numbers = [(sum(info.status == status for info in infos), status) for status in statuses]
    detail = ", ".join(f"{number:,} {status}" for number, status in numbers if number)
    return f"{count(len(infos), 'capture')}: {detail}; {count(sum(info.replays for info in infos), 'replay')}"


def count(number: int, noun: str) -> str:
    """`1 rule`, `12 rules`."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"
