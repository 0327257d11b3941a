"""Which rule owns a refused call: the precedence of the rule catalogue, applied to one witness."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cudagraph_doctor.checkers.invalidation import calls, context, hints, operators, texts
from cudagraph_doctor.checkers.invalidation.refused_launch import rule_of_launch
from cudagraph_doctor.findings import Confidence
from cudagraph_doctor.session.apis import Family
from cudagraph_doctor.session.frames import text_of

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.witness import Witness
    from cudagraph_doctor.session.model import CaptureState, Session


class Verdict(NamedTuple):
    """The rule, what chose it, and how sure that makes us."""

    rule: str
    why: str = ""
    confidence: Confidence = Confidence.PROVEN


_BY_CODE = {902: Verdict("CGD110", "merge"), 905: Verdict("CGD110", "isolation"), 906: Verdict("CGD112", "implicit")}
_BY_CODE_BACKWARD = {905: Verdict("CGD114", "isolation"), 906: Verdict("CGD114", "implicit")}


def decide(session: Session, capture: CaptureState, witness: Witness) -> Verdict:
    """The rule for a call that invalidated a capture."""
    family, stack = witness.family, witness.stack
    backward = context.under_backward(session, stack, witness.op or witness.activity)
    if witness.tid and witness.tid != capture.tid and not backward:
        return Verdict("CGD104")
    if _finalising(session, capture, witness) and family not in {Family.LAUNCH, Family.WAIT}:
        return Verdict("CGD106")
    if witness.code in {902, 905, 906}:
        return (_BY_CODE_BACKWARD if backward else _BY_CODE).get(witness.code, _BY_CODE[witness.code])
    if context.under_autotune(session, stack):
        return Verdict("CGD303", "autotune")
    if context.under_compile(session, stack) and not _is_read(witness):
        return Verdict("CGD303", "compile")
    told = texts.rule_of(witness.exc.message) if witness.exc is not None else None
    if told is not None and told[0] in {"CGD115", "CGD303", "CGD108", "CGD114"}:
        return Verdict(*told)
    if context.under_capture_block(session, stack):
        return Verdict("CGD108", "second-capture")
    return (
        _events(session, capture, witness)
        or _graphs(family)
        or _libraries(session, witness)
        or _launches(witness)
        or _waits_and_copies(witness)
        or _unsafe(family)
        or _by_operator(witness)
        or _by_hint(session, witness)
        or Verdict("CGD116", "unseen", Confidence.LIKELY)
    )


def captured_event(session: Session, capture: CaptureState, witness: Witness) -> bool:
    """Whether the call concerns an event that was last recorded in this capture."""
    if witness.code == 907:
        return True
    event = getattr(witness.activity.record, "event", 0) if witness.activity is not None else 0
    marks = [m for m in session.event_marks.get(event, ()) if m.by.q < witness.key]
    return bool(marks) and marks[-1].capture == capture.id and not marks[-1].external


def _finalising(session: Session, capture: CaptureState, witness: Witness) -> bool:
    """A finaliser is on the stack, or a collection was running on this thread."""
    if context.under_finaliser(session, witness.stack):
        return True
    if witness.activity is not None and calls.is_collect(witness.activity.name):
        return True
    running = None
    for event in capture.gcs:
        if event.q < witness.key and event.tid == witness.tid:
            running = event.phase
    return running == "start"


def _is_read(witness: Witness) -> bool:
    return witness.op is not None and operators.short(witness.op.name) in {"_local_scalar_dense", "item", "is_nonzero"}


def _events(session: Session, capture: CaptureState, witness: Witness) -> Verdict | None:
    if captured_event(session, capture, witness):
        return Verdict("CGD103", "captured-event")
    if witness.family in calls.QUERIES and witness.op is None:
        return Verdict("CGD103", "query")
    if witness.family is Family.EVENT_SYNC and calls.is_elapsed_time(witness.api):
        return Verdict("CGD103", "elapsed")
    return None


def _graphs(family: Family) -> Verdict | None:
    if family is Family.GRAPH_LAUNCH:
        return Verdict("CGD108", "replay")
    if family in {Family.INSTANTIATE, Family.BEGIN}:
        return Verdict("CGD108", "second-capture")
    return None


def _libraries(session: Session, witness: Witness) -> Verdict | None:
    """Inside an operator that a library serves: its first use, or a search for the fastest algorithm."""
    op = witness.op
    if op is None or not operators.is_library(op.name):
        return None
    if operators.is_convolution(op.name) and cudnn_benchmark_on(session):
        return Verdict("CGD303", "cudnn-benchmark", Confidence.PROVEN if witness.api else Confidence.LIKELY)
    unsafe = witness.family in calls.UNSAFE or witness.family is Family.MODULE_LOAD
    if unsafe or (operators.is_convolution(op.name) and witness.family is not Family.SYNC):
        return Verdict("CGD115", "library", Confidence.PROVEN if unsafe else Confidence.LIKELY)
    if not witness.api and not operators.is_solver(op.name):
        return Verdict("CGD115", "library", Confidence.LIKELY)
    return None


def cudnn_benchmark_on(session: Session) -> bool:
    """Whether the user's code turns on `torch.backends.cudnn.benchmark`, as far as its text was recorded."""
    for source in session.sources.values():
        text = text_of(source) if source.role in {"user", "third_party"} else None
        if text is not None and any("cudnn.benchmark" in line and "True" in line for line in text.split("\n")):
            return True
    return False


def _launches(witness: Witness) -> Verdict | None:
    if witness.family not in {Family.LAUNCH, Family.OTHER}:
        return None
    rule = rule_of_launch(witness.code, witness.activity, witness.log.message if witness.log is not None else "")
    return Verdict(rule, "launch") if rule is not None else None


def _waits_and_copies(witness: Witness) -> Verdict | None:
    if witness.family not in {*calls.WAITS, Family.COPY, *calls.QUERIES}:
        return None
    if witness.op is None:
        return Verdict("CGD101", "wait")
    found = _by_operator(witness) or Verdict("CGD101", "operator")
    return replace_confidence(found, Confidence.PROVEN)


def _unsafe(family: Family) -> Verdict | None:
    if family is Family.MODULE_UNLOAD:
        return Verdict("CGD302", "unload")
    if family is Family.MODULE_LOAD:
        return Verdict("CGD301", "load")
    if family is Family.WAIT:
        return Verdict("CGD110", "isolation", Confidence.LIKELY)
    return Verdict("CGD105", "unsafe") if family in calls.UNSAFE else None


def _by_operator(witness: Witness) -> Verdict | None:
    """What the operator is known to do on the host, where no call inside it was named."""
    op = witness.op
    if op is None:
        return None
    way = operators.direction(op)
    if way is operators.Direction.TO_DEVICE:
        return Verdict("CGD102", "copy")
    if way is operators.Direction.TO_HOST:
        return Verdict("CGD101", "read")
    if way is operators.Direction.PEER:
        return Verdict("CGD201", "peer-copy")
    if operators.short(op.name) in operators.DATA_DEPENDENT:
        return Verdict("CGD101", "data-dependent")
    if operators.is_index(op.name):
        return Verdict("CGD101", "mask")
    if operators.is_solver(op.name):
        return Verdict("CGD101", "info-check")
    if operators.short(op.name) in {"_local_scalar_dense", "item", "is_nonzero", "equal"}:
        return Verdict("CGD101", "read")
    return Verdict("CGD101", "operator", Confidence.LIKELY)


def _by_hint(session: Session, witness: Witness) -> Verdict | None:
    """What the library frames or the user's expressions say, where nobody named the call."""
    of_stack = hints.hint_of_stack(session, witness.stack)
    hint = of_stack or hints.hint_of_line(session, witness.place or session.location(witness.stack))
    if hint is None:
        return None
    confidence = Confidence.PROVEN if of_stack is not None else Confidence.LIKELY
    if hint.kind == "query":
        return Verdict("CGD103", "query", confidence)
    if hint.kind in {"wait", "read"}:
        return Verdict("CGD101", hint.kind, confidence)
    if hint.kind == "upload":
        return Verdict("CGD102", "copy", confidence)
    family = calls.family_of(hint.api)
    found = _graphs(family) or _unsafe(family)
    if found is None and (family in calls.WAITS or family in calls.QUERIES):
        found = Verdict("CGD101" if family in calls.WAITS else "CGD103", "wait")
    return replace_confidence(found, confidence) if found is not None else None


def replace_confidence(verdict: Verdict, confidence: Confidence) -> Verdict:
    """The same verdict, with another confidence."""
    return Verdict(verdict.rule, verdict.why, confidence)


def weaker(one: Confidence, other: Confidence) -> Confidence:
    """The less sure of two."""
    return one if one.rank >= other.rank else other
