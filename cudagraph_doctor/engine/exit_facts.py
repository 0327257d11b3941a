"""What a report says about the exit status, under the user's policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from cudagraph_doctor._wire import EVIDENCE
from cudagraph_doctor.engine.exit_code import ExitFacts
from cudagraph_doctor.findings import Confidence, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.findings import Finding
    from cudagraph_doctor.report import Exit, Report


class ExitPolicy(Struct, frozen=True):
    """What the user wants to fail on."""

    fail_on: Severity | None = Severity.ERROR
    """Findings of this level or worse fail the run; None: no finding does."""
    strict: bool = False
    """Findings that are only `possible` count too."""
    allow_no_capture: bool = False
    require_evidence: str | None = None
    """The weakest level of evidence that is good enough (`driver`, `python`, `simulated`); None: any."""
    require_checked: frozenset[str] = frozenset()
    """Rules that must have been checked."""


def exit_facts(report: Report, policy: ExitPolicy) -> ExitFacts:
    """Reads a report once. Usage errors and targets that never started have no report: those are exceptions."""
    return ExitFacts(
        not_started=policy.require_evidence is not None and not has_evidence(report, policy.require_evidence),
        time_limit=report.exit.timed_out,
        incomplete=is_incomplete(report) or bool(unchecked(report, policy.require_checked)),
        findings=any(counts(finding, policy) for finding in report.findings),
        unexplained_end=report.exit.abnormal and not any(explains(f, report.exit) for f in report.findings),
        nothing_captured=not report.captures and not policy.allow_no_capture,
    )


def counts(finding: Finding, policy: ExitPolicy) -> bool:
    """Whether a finding fails the run. Known (baseline) and suppressed findings never do."""
    if policy.fail_on is None or finding.state != "new":
        return False
    if finding.confidence is Confidence.POSSIBLE and not policy.strict:
        return False
    return finding.level.rank <= policy.fail_on.rank


def is_incomplete(report: Report) -> bool:
    """A checker failed, or something that should have been seen was not."""
    return any(c.state == "failed" for c in report.checkers) or any(limit.incomplete for limit in report.limits)


def unchecked(report: Report, required: frozenset[str]) -> frozenset[str]:
    """The required rules that no checker that ran has decided."""
    checked = {
        state.rule for checker in report.checkers if checker.state == "ran" for state in checker.rules if state.checked
    }
    return required - checked


def has_evidence(report: Report, level: str) -> bool:
    """Whether every process that captured had this level of evidence, or a stronger one, all the time.

    Without a capture the strongest level of the run decides. `simulated` is the weakest level: the simulated device
    never counts as python or driver evidence.
    """
    good = EVIDENCE[: EVIDENCE.index(level) + 1]
    captured = {capture.process for capture in report.captures}
    spans = [span for process in report.processes if process.id in captured for span in process.evidence]
    if not spans:
        return report.device.evidence in good
    return all(span.level in good for span in spans)


def explains(finding: Finding, ended: Exit) -> bool:
    """Whether a finding, of any level, names how the target ended.

    It does when its message or one of its consequences names the signal, or carries the uncaught exception: its whole
    first line, or its type as the consequence's code.
    """
    texts = [finding.message, *(c.message for c in finding.consequences)]
    if ended.signal and any(ended.signal in text for text in texts):
        return True
    if not ended.exception:
        return False
    kind, _, message = ended.exception.partition(": ")
    if any(str(c.code) == kind and (not message or message in c.message) for c in finding.consequences):
        return True
    return any(ended.exception in text or (len(message) > 12 and message in text) for text in texts)
