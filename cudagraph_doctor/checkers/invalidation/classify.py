"""From a capture that failed to the one cause: who did it, and which rule owns that. A pure function of the session."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.invalidation import context, operators, texts
from cudagraph_doctor.checkers.invalidation.cause import OWN_CODES, Cause
from cudagraph_doctor.checkers.invalidation.decide import Verdict, decide, replace_confidence, weaker
from cudagraph_doctor.checkers.invalidation.hints import hint_of_line
from cudagraph_doctor.checkers.invalidation.refused_launch import refused_launch
from cudagraph_doctor.checkers.invalidation.told import Told, told_by
from cudagraph_doctor.checkers.invalidation.witness import Witness, witness_of
from cudagraph_doctor.findings import Confidence
from cudagraph_doctor.session.apis import Family

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import CaptureState, Session

_END_CODES = {
    904: ("CGD109", "unjoined"),
    903: ("CGD111", "other-stream"),
    908: ("CGD111", "other-thread"),
    401: ("CGD111", "not-capturing"),
}


def cause_of(session: Session, capture: CaptureState) -> Cause | None:
    """What a capture failed on; None where it did not fail, or on nothing that is CUDA's or torch's business."""
    if not capture.began and capture.begin_outcome is not None:
        return _refused_begin(session, capture)
    if capture.change is not None:
        witness = witness_of(session, capture, capture.change)
        if witness is not None:
            return from_witness(session, capture, witness)
    told = told_by(session, capture)
    found = from_exception(session, capture, told) if told is not None else None
    return found or refused_launch(session, capture) or (_from_end(capture) if told is None else None)


def from_witness(session: Session, capture: CaptureState, witness: Witness) -> Cause | None:
    """What a call that was caught in the act makes of the capture."""
    told = told_by(session, capture)
    if witness.unseen and told is not None and told.code in OWN_CODES:
        # Nobody saw the call, but its own exception tells where it was made.
        exact = from_exception(session, capture, told)
        if exact is not None:
            return exact
    verdict = decide(session, capture, witness)
    if not witness.api and witness.op is None:
        # Nobody named the call: the name on the user's line says what it does.
        hint = hint_of_line(session, witness.place or session.location(witness.stack))
        witness = replace(witness, api=hint.api) if hint is not None else witness
    return Cause(
        rule=verdict.rule,
        trigger=witness.api or (witness.op.name if witness.op is not None else _name(witness)),
        key=witness.key,
        tid=witness.tid,
        stack=witness.stack,
        confidence=weaker(verdict.confidence, witness.confidence),
        family=witness.family,
        api=witness.api,
        code=witness.code,
        op=witness.op,
        activity=witness.activity,
        exc=witness.exc,
        log=witness.log,
        why=verdict.why,
        unseen=witness.unseen,
        place=witness.place,
        evidence=_evidence(capture, witness),
    )


def _name(witness: Witness) -> str:
    return witness.activity.name if witness.activity is not None else "unseen call"


def _evidence(capture: CaptureState, witness: Witness) -> tuple[int, ...]:
    change = capture.change
    numbers = {witness.key, *([change.record.q] if change is not None else ())}
    if witness.activity is not None:
        numbers |= {witness.activity.q, witness.activity.end_q}
    if witness.log is not None:
        numbers.add(witness.log.q)
    return tuple(sorted(numbers))


def _refused_begin(session: Session, capture: CaptureState) -> Cause | None:
    outcome = capture.begin_outcome
    assert outcome is not None
    exc = outcome.exc
    message = exc.message if exc is not None else ""
    code = outcome.code or (exc.code if exc is not None else 0) or texts.code_of(message)
    stream = session.streams.get(capture.stream)
    found = texts.rule_of(message)
    if found is not None and found[0].startswith("CGD"):
        rule, why = found
    elif code == 906 or (stream is not None and stream.kind == "legacy"):
        rule, why = "CGD112", "default-stream"
    elif code == 401 or _open_on_thread(session, capture):
        rule, why = "CGD108", "second-capture"
    else:
        return None
    return Cause(
        rule=rule,
        trigger=capture.begin.api or "capture_begin",
        key=capture.begin.q,
        tid=capture.tid,
        stack=capture.begin.stack,
        family=Family.BEGIN,
        api=capture.begin.api,
        code=code,
        exc=exc,
        why=why,
        evidence=(capture.begin.q, outcome.q),
    )


def _open_on_thread(session: Session, capture: CaptureState) -> bool:
    return any(
        other is not capture
        and other.began
        and other.tid == capture.tid
        and other.first_q < capture.first_q <= other.last_q
        for other in session.captures
    )


def from_exception(session: Session, capture: CaptureState, told: Told) -> Cause | None:
    """An exception that torch, a library or CUDA raised while the status stayed as it was, or was not watched."""
    verdict = _of_text(session, told)
    if verdict is None and told.code in OWN_CODES:
        verdict = decide(session, capture, _as_witness(told))
        if capture.change is None:
            verdict = replace_confidence(verdict, weaker(verdict.confidence, Confidence.LIKELY))
    if verdict is None:
        return None
    op = told.op
    return Cause(
        rule=verdict.rule,
        trigger=op.name if op is not None else (told.activity.name if told.activity is not None else told.type),
        key=told.activity.q if told.activity is not None else told.q,
        tid=told.tid,
        stack=told.stack,
        confidence=verdict.confidence,
        code=told.code,
        op=op,
        activity=told.activity,
        exc=told.raised,
        why=verdict.why,
        evidence=tuple(sorted({told.q, *([told.activity.q] if told.activity is not None else ())})),
    )


def _of_text(session: Session, told: Told) -> Verdict | None:
    found = texts.rule_of(told.message)
    if found is None or told.code in OWN_CODES - {901}:
        return None
    rule, why = found
    if context.under_autotune(session, told.stack) or context.under_compile(session, told.stack):
        return Verdict("CGD303", "compile")
    if rule == texts.RNG:
        return (
            Verdict("CGD118", "checkpoint") if context.under_checkpoint(session, told.stack) else Verdict("CGD107", why)
        )
    if rule == texts.COPY:
        return _copy_rule(session, told, why)
    return Verdict(rule, why)


def _copy_rule(session: Session, told: Told, why: str) -> Verdict:
    if told.op is not None:
        way = operators.direction(told.op)
        if way is operators.Direction.TO_HOST:
            return Verdict("CGD101", why)
        if way is operators.Direction.TO_DEVICE:
            return Verdict("CGD102", why)
    from cudagraph_doctor.checkers.code.reads import reads_back

    back = reads_back(session, session.location(told.stack))
    return Verdict("CGD101" if back else "CGD102", why)


def _as_witness(told: Told) -> Witness:
    return Witness(
        key=told.q,
        tid=told.tid,
        stack=told.stack,
        confidence=Confidence.LIKELY,
        api=told.activity.name if told.activity is not None and told.activity.kind != "op" else "",
        code=told.code,
        op=told.op,
        activity=told.activity,
    )


def _from_end(capture: CaptureState) -> Cause | None:
    """The end itself was refused for its own reason."""
    end, outcome = capture.end, capture.end_outcome
    if end is None or outcome is None:
        return None
    message = outcome.exc.message if outcome.exc is not None else ""
    code = outcome.code or (outcome.exc.code if outcome.exc is not None else 0) or texts.code_of(message)
    found = texts.rule_of(message)
    if code in _END_CODES:
        rule, why = _END_CODES[code]
    elif found is not None and found[0] == "CGD111":
        rule, why = found
    else:
        return None
    loose = next((fork for fork in capture.forks if not fork.joined), None)
    by_fork = rule == "CGD109" and loose is not None
    return Cause(
        rule=rule,
        trigger=end.api or "capture_end",
        key=loose.by.q if by_fork and loose is not None else end.q,
        tid=end.tid,
        stack=loose.by.stack if by_fork and loose is not None else end.stack,
        confidence=Confidence.PROVEN,
        family=Family.END,
        api=end.api,
        code=code,
        activity=loose.by if by_fork and loose is not None else None,
        exc=outcome.exc,
        why=why,
        evidence=(end.q, outcome.q) if loose is None else (loose.by.q, end.q, outcome.q),
    )
