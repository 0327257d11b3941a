"""The finding of a failed capture: its cause, what followed, and the state that is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.capture_status import hidden_error
from cudagraph_doctor.checkers.wording.failed_capture import failed_capture
from cudagraph_doctor.findings import Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.failures import Failure
    from cudagraph_doctor.checkers.wording.words import Words
    from cudagraph_doctor.findings import Finding, Rule
    from cudagraph_doctor.session.model import Session


def broken(session: Session, rule: Rule, failure: Failure, words: Words) -> Finding:
    """The finding of a failed capture. One that was caught, retried well and never replayed is a note under CGD116."""
    if not failure.harmless:
        return failed_capture(session, rule, failure, words, rule.level)
    retried = hidden_error.retried(session, failure.capture, words)
    return failed_capture(session, hidden_error.RULE, failure, retried, Severity.NOTE)
