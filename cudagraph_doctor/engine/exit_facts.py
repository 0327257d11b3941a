"""What a report says about the exit status, under the user's policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from cudagraph_doctor._wire import EVIDENCE
from cudagraph_doctor.engine.exit_code import ExitFacts

if TYPE_CHECKING:
    from cudagraph_doctor.report import Report


class ExitPolicy(Struct, frozen=True):
    """What the user wants to fail on, beside what the report's gate says of findings."""

    allow_no_capture: bool = False
    require_evidence: str | None = None
    """The weakest level of evidence that is good enough (`driver`, `python`, `simulated`); None: any."""
    require_checked: frozenset[str] = frozenset()
    """Rules that must have been checked."""


def exit_facts(report: Report, policy: ExitPolicy) -> ExitFacts:
    """Reads a report once. Usage errors and targets that never started have no report: those are exceptions."""
    return ExitFacts(
        not_started=lacking_evidence(report, policy.require_evidence) is not None,
        time_limit=report.exit.timed_out,
        incomplete=is_incomplete(report) or bool(unchecked(report, policy.require_checked)),
        findings=any(map(report.gate.counts, report.findings)) or bool(report.gate.violations),
        unexplained_end=report.unexplained_end,
        nothing_captured=not report.captures and not policy.allow_no_capture,
    )


def is_incomplete(report: Report) -> bool:
    """A checker failed, or something that should have been seen was not."""
    return any(c.state == "failed" for c in report.checkers) or any(limit.incomplete for limit in report.limits)


def unchecked(report: Report, required: frozenset[str]) -> frozenset[str]:
    """The required rules that no checker that ran has decided."""
    checked = {
        state.rule for checker in report.checkers if checker.state == "ran" for state in checker.rules if state.checked
    }
    return required - checked


def lacking_evidence(report: Report, level: str | None) -> str | None:
    """One sentence, where a process that captured had, at some time, weaker evidence than `level`; else None.

    Without a capture the strongest level of the run decides. `simulated` is the weakest level: the simulated device
    never counts as python or driver evidence.
    """
    if level is None:
        return None
    captured = {capture.process for capture in report.captures}
    spans = [span for process in report.processes if process.id in captured for span in process.evidence]
    weakest = max((span.level for span in spans), key=EVIDENCE.index, default=report.device.evidence)
    if EVIDENCE.index(weakest) <= EVIDENCE.index(level):
        return None
    return f"{level} evidence was required; the run had {weakest} evidence"
