"""The checker of the hundred-block CGD1xx: what broke a capture, or slipped past it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.api import Checker
from cudagraph_doctor.checkers.capture_status import (
    empty_graph,
    hidden_error,
    library_init,
    library_memory,
    not_captured,
    silent,
)
from cudagraph_doctor.checkers.capture_status.explanations import EXPLAIN
from cudagraph_doctor.checkers.capture_status.finding import broken
from cudagraph_doctor.checkers.capture_status.outside import refusals_outside, stray_ends
from cudagraph_doctor.checkers.invalidation.failures import failures
from cudagraph_doctor.checkers.invalidation.told import told_by
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.findings import Confidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.checkers.invalidation.failures import Failure
    from cudagraph_doctor.findings import Finding, Rule
    from cudagraph_doctor.session.model import CaptureState, Session

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (*(rule for rule, _ in EXPLAIN.values()), not_captured.RULE, empty_graph.RULE),
        key=lambda rule: rule.id,
    )
)


class CaptureStatus(Checker):
    """Names the one cause of each failed capture, and what a good one silently left out."""

    name = "capture_status"
    rules = RULES

    def not_checked(self, rule: Rule, session: Session) -> str | None:
        """As usual; the simulated device says itself what it does not claim to see."""
        if session.header.backend == "sim" and rule.id == library_init.RULE.id:
            return "the simulated device has no libraries that could be initialised"
        return super().not_checked(rule, session)

    def check(self, session: Session) -> Iterator[Finding]:
        """Yield the findings of one process: failed captures first, in order, then silent faults of good ones."""
        found = failures(session)
        explained = {id(capture) for failure in found for capture in (*failure.captures, *failure.echoes)}
        for failure in found:
            yield from _of_failure(session, failure)
        for capture in session.captures:
            if id(capture) not in explained:
                yield from _masked(session, capture)
        yield from silent.findings(session)
        yield from library_memory.findings(session)
        yield from stray_ends(session, found)
        yield from refusals_outside(session)


def _of_failure(session: Session, failure: Failure) -> Iterator[Finding]:
    known = EXPLAIN.get(failure.cause.rule)
    if known is None:
        if failure.harmless:
            yield broken(session, hidden_error.RULE, failure, hidden_error.unexplained(failure))
        return  # another checker's
    rule, explain = known
    words = explain(session, failure.capture, failure.cause)
    yield broken(session, rule, failure, words)


def _masked(session: Session, capture: CaptureState) -> Iterator[Finding]:
    told = told_by(session, capture) if capture.status == "failed" else None
    words = hidden_error.masked(session, capture, told) if told is not None else None
    if told is None or words is None:
        return
    yield finding(
        session,
        hidden_error.RULE,
        words,
        capture=capture,
        stack=told.stack,
        trigger=told.type,
        confidence=Confidence.LIKELY,
        evidence=(told.q,),
        consequences=hidden_error.consequences(session, capture, told),
    )
