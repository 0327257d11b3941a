"""The top of the report: what ran, how it ended, and the verdict in one line."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from rich.text import Text

from cudagraph_doctor.findings import Severity
from cudagraph_doctor.reporters.table import wording
from cudagraph_doctor.reporters.table.foreign import cut, visible

if TYPE_CHECKING:
    from cudagraph_doctor.report import Report
    from cudagraph_doctor.reporters.table.theme import Glyphs

LONGEST_COMMAND = 300


def heading(report: Report) -> Text:
    """The tool and the command that it looked at."""
    command = visible(shlex.join(report.argv)) if report.argv else "(command not recorded)"
    return Text.assemble(("cudagraph-doctor", "bold"), "  ", cut(command, LONGEST_COMMAND))


def summary(report: Report, glyphs: Glyphs, width: int) -> list[Text]:
    """Device, evidence, captures, replays, end of the target: one line, broken between facts where it is too long."""
    facts = [Text(part) for part in wording.device(report.device)]
    facts.append(Text(f"{report.device.evidence} evidence"))
    if len(report.processes) > 1:
        facts.append(Text(wording.count(len(report.processes), "process", "processes")))
    lost = any(info.status in ("failed", "abandoned") for info in report.captures) or not report.captures
    for part in wording.captures(report.captures):
        bad = lost and part.endswith(("failed", "abandoned", "captured"))
        facts.append(Text(part, style="error" if bad else ""))
    facts.append(Text(wording.ended(report.exit), style="error" if report.exit.abnormal else ""))
    rows = _joined(facts, f" {glyphs.dot} ", width - 2)
    if report.exit.exception:
        rows.append(Text(cut(visible(report.exit.exception), LONGEST_COMMAND), style="dim"))
    return rows


def verdict(report: Report, glyphs: Glyphs) -> Text:
    """What was found, or on how much the finding of nothing rests."""
    shown = [finding for finding in report.findings if finding.state == "new"]
    failed = [checker.name for checker in report.checkers if checker.state == "failed"]
    hidden = len(report.findings) - len(shown)
    line = Text()
    if shown:
        worst = min((finding.level for finding in shown), key=lambda level: level.rank)
        line.append(f"{glyphs.bad if worst is Severity.ERROR else glyphs.warn} ", style=worst.value)
        parts = []
        for level in Severity:
            number = sum(finding.level is level for finding in shown)
            if number:
                parts.append(Text(wording.count(number, level.value), style=level.value))
        line.append_text(Text(", ").join(parts))
    else:
        rules = [rule for checker in report.checkers if checker.state == "ran" for rule in checker.rules]
        checked = sum(rule.checked for rule in rules)
        incomplete = any(limit.incomplete for limit in report.limits)
        spoilt = report.unexplained_end or report.refusal or report.gate.violations or incomplete
        clean = checked and not failed and report.captures and not spoilt
        line.append(f"{glyphs.good if clean else glyphs.warn} ", style="good" if clean else "warning")
        if report.unexplained_end:
            line.append("No finding explains how the target ended", style="warning")
        else:
            line.append("No findings", style="bold")
            if incomplete:
                line.append(", but the diagnosis is incomplete", style="warning")
        line.append(f": {wording.count(checked, 'rule')} checked" if checked else ", but no rule was checked")
        if not report.captures:
            line.append(", and nothing was captured")
    if report.unexplained_end and shown and worst is not Severity.ERROR:
        line.append(f" {glyphs.dot} no finding explains how the target ended", style="warning")
    unchecked = sum(not rule.checked for checker in report.checkers for rule in checker.rules)
    if unchecked:
        line.append(f" {glyphs.dot} {wording.count(unchecked, 'rule')} not checked", style="dim")
    if hidden:
        line.append(f" {glyphs.dot} {hidden} known or suppressed", style="dim")
    if failed:
        line.append(f" {glyphs.dot} {wording.count(len(failed), 'checker')} failed", style="error")
    return line


def _joined(facts: list[Text], separator: str, width: int) -> list[Text]:
    """Facts on as few rows as fit; a fact is never broken."""
    rows = [Text()]
    for fact in facts:
        joint = separator if rows[-1] else ""
        if rows[-1] and rows[-1].cell_len + len(joint) + fact.cell_len > width:
            rows.append(Text())
            joint = ""
        rows[-1].append(joint, style="faint").append_text(fact)
    return rows
