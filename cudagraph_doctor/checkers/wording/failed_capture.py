"""The finding of a failed capture, whichever checker owns its cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def failed_capture(
    session: Session, rule: Rule, failure: Failure, words: Words, level: Severity = Severity.ERROR
) -> Finding:
    """Place, consequences and state of a failure, told as an error where nothing else is asked: the capture is lost."""
    capture, cause = failure.capture, failure.cause
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
