"""Who was caught: the refused call, its thread and its line, from the best evidence there is of a change of status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import STATUS_ACTIVE
from cudagraph_doctor.checkers.invalidation import gap, texts
from cudagraph_doctor.checkers.invalidation.calls import UNSAFE, family_of, is_noise, reaches_cuda
from cudagraph_doctor.checkers.invalidation.cause import CONSEQUENCE, OWN_CODES
from cudagraph_doctor.checkers.invalidation.places import telling_stack
from cudagraph_doctor.findings import Confidence
from cudagraph_doctor.session.apis import EXACT_LAYERS, Family
from cudagraph_doctor.session.served import served

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import Activity, CaptureState, Change, Session
    from cudagraph_doctor.trace import events


@dataclass(frozen=True)
class Witness:
    """The call that changed the status, as far as it is known."""

    key: int
    """Sequence number of the record that stands for it."""
    tid: int
    stack: int
    confidence: Confidence
    api: str = ""
    code: int = 0
    op: Activity | None = None
    activity: Activity | None = None
    log: events.Log | None = None
    unseen: bool = False
    """It ran unseen between two looks: the stack is that of the last look before it."""
    place: Location | None = None
    """The line, where it is known better than from the stack."""

    @property
    def family(self) -> Family:
        """What the refused call does; OTHER where only the operator is known."""
        return family_of(self.api) if self.api else Family.OTHER

    @property
    def exc(self) -> events.Raised | None:
        """The exception with which it was refused."""
        found = self.activity.exc if self.activity is not None else None
        return found if found is not None else (self.op.exc if self.op is not None else None)


def witness_of(session: Session, capture: CaptureState, change: Change) -> Witness | None:
    """Who made the status of a capture change; None where only the end of the capture did."""
    log = first_refusal(change.logs)
    across = change.across
    if across is not None and across.kind == "call" and family_of(across.name) is Family.END:
        return None
    if across is not None and _is_culprit(across, log):
        return seen(session, capture, across, log)
    if capture.end is not None and change.record.across == capture.end.q:
        return None
    return (
        _refused_call(session, capture, change, log)
        or _other_thread(session, capture, change, log)
        or _thread_exception(session, capture, change)
        or _collection(capture, change, log)
        or _gap(session, capture, change, log)
    )


def first_refusal(logs: Iterable[events.Log]) -> events.Log | None:
    """The first entry of the driver's log that names a refused call, consequences and start-up noise left out."""
    return next((e for e in logs if e.code not in {0, CONSEQUENCE} and e.api and not is_noise(e.api)), None)


def _is_culprit(across: Activity, log: events.Log | None) -> bool:
    """Whether the activity across which the status changed also made it change, and was not merely running then."""
    if log is not None and log.thread and log.thread != across.tid and across.code not in OWN_CODES:
        return False
    if across.kind == "pycall":
        told = across.exc is not None and across.code in OWN_CODES
        return told or reaches_cuda(across.name) or across.name.endswith("gc.collect")
    return True


def seen(session: Session, capture: CaptureState, across: Activity, log: events.Log | None) -> Witness:
    """The witness that a recorded activity is."""
    op = across if across.kind == "op" else next((a for a in across.enclosing() if a.kind == "op"), None)
    api = across.name if across.kind == "call" or family_of(across.name) is not Family.OTHER else ""
    exact = across.kind == "call" and getattr(across.record, "layer", "") in EXACT_LAYERS
    if log is not None and not exact and log.thread in {0, across.tid}:
        api = log.api
    code = across.code if across.code not in {0, CONSEQUENCE} else (log.code if log is not None else 0)
    asked = served(session, capture, across)
    # The codes of waits, of the legacy stream and of captured events stand for one thing each.
    sure = (
        code in {902, 905, 906, 907}
        or exact
        or (log is not None and log.thread == across.tid)
        or across.code in OWN_CODES
    )
    return Witness(
        key=across.q,
        tid=asked.tid,
        stack=telling_stack(session, across) or asked.stack,
        confidence=Confidence.PROVEN if sure else Confidence.LIKELY,
        api=api,
        code=code,
        op=op,
        activity=across,
        log=log,
    )


def _refused_call(session: Session, capture: CaptureState, change: Change, log: events.Log | None) -> Witness | None:
    """A call between the two looks that was itself refused, on any thread."""
    first = change.record.since or (change.between[0].q if change.between[0] is not None else capture.first_q)
    for activity in capture.activities:
        if (
            first <= activity.q < change.record.q
            and activity.code in OWN_CODES
            and activity.kind in {"call", "pycall", "op"}
            and activity.after != STATUS_ACTIVE
        ):
            same = log is not None and log.thread in {0, activity.tid}
            return seen(session, capture, activity, log if same else None)
    return None


def _other_thread(session: Session, capture: CaptureState, change: Change, log: events.Log | None) -> Witness | None:
    """The driver's log names another thread: its last known line, where it was seen at work or when it was noticed."""
    if log is None or log.thread in {0, capture.tid}:
        return None
    own = [a for a in capture.activities if a.tid == log.thread and a.q <= change.record.q and a.stack]
    last = next((a for a in reversed(own) if a.failed), own[-1] if own else None)
    stack = last.stack if last is not None else dict(change.record.threads).get(log.thread, 0)
    line_is_known = last is not None and last.failed
    return Witness(
        key=last.q if line_is_known and last is not None else log.q,
        tid=log.thread,
        stack=stack if session.location(stack) is not None else 0,
        confidence=Confidence.PROVEN if line_is_known or not stack else Confidence.LIKELY,
        api=log.api,
        code=log.code,
        activity=last,
        log=log,
    )


def _thread_exception(session: Session, capture: CaptureState, change: Change) -> Witness | None:
    """An exception on another thread with a code that only a refused call has, between the two looks."""
    since = change.record.since or capture.first_q
    for record in session.exceptions:
        if record.tid in {0, capture.tid} or not since <= record.q <= capture.last_q:
            continue
        for link in reversed(record.chain):
            code = link.code or texts.code_of(link.message)
            if code in OWN_CODES:
                return Witness(record.q, record.tid, link.stack, Confidence.PROVEN, code=code)
    return None


def _collection(capture: CaptureState, change: Change, log: events.Log | None) -> Witness | None:
    """A garbage collection on this thread between the two looks that collected something.

    With the driver's log as witness if it names a call that finalisers make.
    """
    if log is not None and family_of(log.api) not in UNSAFE:
        return None
    since = change.record.since or capture.first_q
    inside = [e for e in capture.gcs if since <= e.q <= change.record.q and e.tid == capture.tid]
    stopped = next((e for e in inside if e.phase == "stop" and e.collected), None)
    if stopped is None:
        return None
    started = [e for e in inside if e.phase == "start" and e.q < stopped.q]
    stack = started[-1].stack if started and started[-1].stack else stopped.stack
    api, code = (log.api, log.code) if log is not None else ("gc.collect", 0)
    return Witness(stopped.q, capture.tid, stack, Confidence.LIKELY, api=api, code=code, log=log)


def _gap(session: Session, capture: CaptureState, change: Change, log: events.Log | None) -> Witness:
    """It ran between two looks of the capturing thread, in code that is not hooked; or on a thread nobody saw."""
    before, after = change.between
    look = before if before is not None else after
    family = family_of(log.api) if log is not None else Family.OTHER
    place = gap.line_between(session, capture, change, family)
    elsewhere = gap.suspect_thread(session, change) if log is None and not gap.is_suspect(session, place) else None
    if elsewhere is not None:
        tid, stack, line = elsewhere
        return Witness(change.record.q, tid, stack, Confidence.LIKELY, place=line)
    return Witness(
        key=log.q if log is not None else change.record.q,
        tid=look.tid if look is not None else change.record.tid,
        stack=look.stack if look is not None else 0,
        place=place,
        confidence=Confidence.LIKELY,
        api=log.api if log is not None else "",
        code=log.code if log is not None else 0,
        log=log,
        unseen=True,
    )
