"""All that a region would break on, from a simulated run that went on after each refusal (`--keep-going`).

There a refused call leaves its record with the refusal's code, and reports success to the target; an error of torch's
own leaves an exception record and is not raised. The capture fails at its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor._wire import STATUS_ACTIVE
from cudagraph_doctor.checkers.invalidation.cause import OWN_CODES
from cudagraph_doctor.checkers.invalidation.classify import from_exception, from_witness
from cudagraph_doctor.checkers.invalidation.told import Told
from cudagraph_doctor.checkers.invalidation.witness import seen

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import Activity, CaptureState, Session
    from cudagraph_doctor.trace import events


def obstacles(session: Session, capture: CaptureState) -> list[Cause]:
    """The causes in the order of the run; empty unless the run kept going."""
    if not session.header.config.get("keep_going"):
        return []
    found = [
        from_witness(session, capture, seen(session, capture, activity, None))
        for activity in capture.activities
        if activity.kind == "call" and activity.code in OWN_CODES and activity.before == STATUS_ACTIVE
    ]
    found += [
        from_exception(session, capture, _told(capture, record))
        for record in capture.exceptions
        if record.where == "raised" and record.chain
    ]
    return sorted((cause for cause in found if cause is not None), key=lambda cause: cause.key)


def _told(capture: CaptureState, record: events.ExceptionRecord) -> Told:
    link = record.chain[0]
    op = _op(capture, record)
    stack = link.stack or (op.stack if op is not None else 0)
    return Told(record.q, record.tid, link.type, link.message, link.code, stack, op)


def _op(capture: CaptureState, record: events.ExceptionRecord) -> Activity | None:
    """The innermost operator that was running."""
    holders = (a for a in capture.activities if a.kind == "op" and a.tid == record.tid and a.q < record.q < a.end_q)
    return max(holders, key=lambda a: a.q, default=None)
