"""Refusals that belong to no capture's window: ends without a capture, components that refuse before it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.capture_status import not_capturable, wrong_end
from cudagraph_doctor.checkers.invalidation import texts
from cudagraph_doctor.checkers.invalidation.cause import Cause
from cudagraph_doctor.checkers.invalidation.consequences import consequences_of
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.findings import Confidence
from cudagraph_doctor.session.apis import Family, family
from cudagraph_doctor.trace import events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.checkers.invalidation.failures import Failure
    from cudagraph_doctor.findings import Finding
    from cudagraph_doctor.session.model import Session

_WHY = {401: "not-capturing", 903: "other-stream", 908: "other-thread"}


def stray_ends(session: Session, found: list[Failure]) -> Iterator[Finding]:
    """A capture ended where none was open, and no failure of a capture explains it."""
    for activity in session.outside:
        if activity.kind != "call" or family(activity.name) is not Family.END or activity.code not in _WHY:
            continue
        before = [c for c in session.captures if c.first_q < activity.q]
        if not before or any(f.cause.rule == "CGD111" or before[-1] in f.captures for f in found):
            continue
        cause = Cause(
            rule=wrong_end.RULE.id,
            trigger=activity.name,
            key=activity.q,
            tid=activity.tid,
            stack=activity.stack,
            family=Family.END,
            api=activity.name,
            code=activity.code,
            activity=activity,
            exc=activity.exc,
            why=_WHY[activity.code],
            evidence=(activity.q,),
        )
        yield finding(
            session,
            wrong_end.RULE,
            wrong_end.explain(session, before[-1], cause),
            capture=before[-1],
            stack=activity.stack,
            trigger=activity.name,
            confidence=Confidence.PROVEN,
            evidence=cause.evidence,
            consequences=consequences_of(session, cause, [before[-1]]),
        )


def refusals_outside(session: Session) -> Iterator[Finding]:
    """`make_graphed_callables` and the like check what they are given before they capture it."""
    told = {link.message for c in session.captures for record in c.exceptions for link in record.chain}
    for record in session.exceptions:
        if record.where != "uncaught":
            continue
        for link in record.chain:
            found = texts.rule_of(link.message)
            if found is None or found[0] != not_capturable.RULE.id or found[1] == "refusal" or link.message in told:
                continue
            cause = Cause(
                rule=not_capturable.RULE.id,
                trigger=link.type,
                key=record.q,
                tid=record.tid,
                stack=link.stack,
                exc=events.Raised(type=link.type, message=link.message, code=link.code),
                why=found[1],
                evidence=(record.q,),
            )
            begin = session.captures[-1] if session.captures else None
            words = not_capturable.explain(session, begin, cause)
            yield finding(
                session,
                not_capturable.RULE,
                words,
                capture=None,
                stack=link.stack,
                trigger=link.type,
                confidence=Confidence.PROVEN,
                evidence=(record.q,),
                consequences=consequences_of(session, cause, []),
            )
            return
