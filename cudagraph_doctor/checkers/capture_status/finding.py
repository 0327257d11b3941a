"""The finding of a failed capture: its cause, what followed, and the state that is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.capture_status import hidden_error
from cudagraph_doctor.checkers.invalidation.aftermath import aftermath
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.checkers.wording.words import graph_name
from cudagraph_doctor.findings import Severity
from cudagraph_doctor.session.apis import base_name

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.failures import Failure
    from cudagraph_doctor.checkers.wording.words import Words
    from cudagraph_doctor.findings import Finding, Rule
    from cudagraph_doctor.session.model import Session


def broken(session: Session, rule: Rule, failure: Failure, words: Words) -> Finding:
    """The finding of a failed capture. One that was caught, retried well and never replayed is a note under CGD116."""
    cause, capture = failure.cause, failure.capture
    level = rule.level
    if failure.harmless:
        rule, words, level = hidden_error.RULE, hidden_error.retried(session, capture, words), Severity.NOTE
    return finding(
        session,
        rule,
        words,
        capture=capture,
        stack=cause.stack,
        trigger=base_name(cause.trigger),
        confidence=cause.confidence,
        evidence=cause.evidence,
        level=level,
        consequences=failure.consequences(session),
        count=len(failure.captures),
        place=cause.place,
        after=aftermath(session, capture, graph_name(session, capture)),
    )
