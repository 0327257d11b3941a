"""A finding made from a rule and words: place, chain, consequences and state in one way for all rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.invalidation.decide import weaker

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.wording.words import Words
    from cudagraph_doctor.findings import Confidence, Consequence, Finding, Location, Rule, Severity
    from cudagraph_doctor.session.model import CaptureState, Session


def finding(
    session: Session,
    rule: Rule,
    words: Words,
    *,
    capture: CaptureState | None,
    stack: int,
    trigger: str,
    confidence: Confidence,
    evidence: tuple[int, ...] = (),
    level: Severity | None = None,
    consequences: tuple[Consequence, ...] = (),
    count: int = 1,
    after: tuple[str, ...] = (),
    place: Location | None = None,
) -> Finding:
    """A finding at the stack's line, or at the place that the words name."""
    location = words.location or place or session.location(stack)
    sure = weaker(confidence, words.confidence) if words.confidence is not None else confidence
    return rule.finding(
        words.message,
        location=location,
        remedy=words.remedy,
        confidence=sure,
        process=session.index,
        trigger=trigger,
        level=level if level is not None else rule.level,
        chain=session.chain(stack) if words.location is None and place is None else (),
        related=_distinct(words, location),
        consequences=consequences,
        fix=words.fix,
        evidence=evidence,
        evidence_level=session.level_at(capture.begin.t) if capture is not None else session.level_at(session.header.t),
        capture=capture.id if capture is not None else None,
        count=count,
        aftermath=after,
    )


def _distinct(words: Words, location: Location | None) -> tuple[Location, ...]:
    """Related places, each line once, without the finding's own."""
    seen = {(location.file, location.line)} if location is not None else set()
    kept: list[Location] = []
    for place in words.related:
        if (place.file, place.line) not in seen:
            seen.add((place.file, place.line))
            kept.append(place)
    return tuple(kept)
