"""Which activity invalidated a capture.

The cause is the innermost activity across which the status went Active → Invalidated, whichever thread made it. Its own
code is not 901: that code says that the capture was already lost. (Measured, see docs/how-it-works.md.)

A record of one CUDA call (driver, bindings, simulated device) is exact: one that came back with 901, or with no error
at all, is a bystander of another thread's call. An operator, a call from Python or a call seen at torch's layer may
hold several CUDA calls, so its 901 may be the echo of one that it swallowed: it is the cause unless the driver's log
names another thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor._wire import STATUS_ACTIVE, STATUS_INVALIDATED
from cudagraph_doctor.session.apis import EXACT_LAYERS
from cudagraph_doctor.session.model import Change
from cudagraph_doctor.trace import events

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudagraph_doctor.session.model import Activity, CaptureState

CAPTURE_INVALIDATED = 901
REFUSALS = frozenset({900, 902, 903, 905, 906, 907})
"""Codes of calls that a capture refuses and that invalidate it (measured)."""


def across(activity: Activity) -> bool:
    """Whether a capture was active before this activity and invalidated after it."""
    return activity.before == STATUS_ACTIVE and activity.after == STATUS_INVALIDATED


def exact(activity: Activity) -> bool:
    """Whether its record is of one CUDA call."""
    return activity.kind == "call" and getattr(activity.record, "layer", "") in EXACT_LAYERS


def find_change(state: CaptureState, looks: Iterable[events.CaptureStatus]) -> Change | None:
    """The change of a capture, from its activities and from the looks at its status; None: it was never invalidated."""
    looks = [look for look in looks if look.before == STATUS_ACTIVE and look.after == STATUS_INVALIDATED]
    named = {look.across for look in looks if look.across}
    told = [a for a in state.activities if _invalidated(a) or (named and a.q in named)]
    seen = [a for a in told if (across(a) and a.cap in (0, state.id)) or a.q in named]
    notice = looks[0] if looks else _noticed(state, told, seen)
    if notice is None:
        return None
    logs = _witnesses(state, notice)
    suspects = [a for a in seen if _guilt(a, logs) is not None]
    if not suspects:
        suspects = _refused_in_gap(state, notice)
    if suspects:
        return Change(record=notice, across=_innermost(suspects, logs), logs=logs)
    return Change(record=notice, across=None, between=_gap(state, notice), logs=logs)


def _guilt(activity: Activity, logs: tuple[events.Log, ...]) -> int | None:
    """How surely an activity across which the status changed is the cause, 0 the surest; None: it is not."""
    code = activity.code
    if exact(activity) and code:
        return None if code == CAPTURE_INVALIDATED else 0
    refused_threads = {log.thread for log in logs if log.thread and log.code in REFUSALS}
    if refused_threads and activity.tid not in refused_threads:
        return None
    if exact(activity):
        return 3
    return 2 if code == CAPTURE_INVALIDATED else 1


def _innermost(suspects: list[Activity], logs: tuple[events.Log, ...]) -> Activity:
    """The surest suspect; of equally sure ones that which holds no other, then the first that came back."""
    holders = {id(outer) for a in suspects for outer in a.enclosing()}
    return min(suspects, key=lambda a: (_guilt(a, logs) or 0, id(a) in holders, a.end_q))


def _invalidated(activity: Activity) -> bool:
    """Whether it tells of an invalidated capture: asked of every activity there is, so it looks at the fields."""
    outcome = activity.outcome
    if outcome is not None and outcome.after == STATUS_INVALIDATED:
        return True
    record = activity.record
    return STATUS_INVALIDATED in (getattr(record, "before", None), getattr(record, "after", None))


def _noticed(state: CaptureState, told: list[Activity], seen: list[Activity]) -> events.CaptureStatus | None:
    """Nobody recorded a look: the first activity, or the end, that shows the capture invalidated."""
    for a in sorted(seen, key=lambda a: a.end_q)[:1]:
        return _look(state, a.end_q, a.record.t, a.tid, a.kind, across=a.q)
    for a in told:
        if a.cap == state.id and a.before == STATUS_INVALIDATED:
            return _look(state, a.q, a.record.t, a.tid, a.kind)
    end = state.end
    if end is not None and end.before == STATUS_INVALIDATED:
        return _look(state, end.q, end.t, end.tid, "end")
    if state.end_outcome is not None and end is not None and _end_code(state) == CAPTURE_INVALIDATED:
        return _look(state, end.q, end.t, end.tid, "end")
    return None


def _end_code(state: CaptureState) -> int:
    outcome = state.end_outcome
    if outcome is None:
        return 0
    return outcome.code or (outcome.exc.code if outcome.exc is not None else 0)


def _look(state: CaptureState, q: int, t: int, tid: int, by: str, across: int = 0) -> events.CaptureStatus:
    return events.CaptureStatus(
        q=q, t=t, tid=tid, cap=state.id, before=STATUS_ACTIVE, after=STATUS_INVALIDATED, across=across, by=by
    )


def _witnesses(state: CaptureState, notice: events.CaptureStatus) -> tuple[events.Log, ...]:
    """The driver's log from the last good look up to the first echo (901): the log keeps the order of the calls."""
    found: list[events.Log] = []
    for log in state.logs:
        if notice.since and log.after and log.after < notice.since:
            continue
        if log.code == CAPTURE_INVALIDATED:
            break
        found.append(log)
    return tuple(found)


def _refused_in_gap(state: CaptureState, notice: events.CaptureStatus) -> list[Activity]:
    """Calls that the capture refused while nobody looked at its status, and that do not show it still active."""
    last = notice.q
    return [
        a
        for a in state.activities
        if exact(a)
        and a.code in REFUSALS
        and a.after in (None, STATUS_INVALIDATED)
        and a.before in (None, STATUS_ACTIVE)
        and notice.since <= a.end_q <= max(last, state.last_q)
    ][:1]


def _gap(state: CaptureState, notice: events.CaptureStatus) -> tuple[Activity | None, Activity | None]:
    """The last activity after which the capture was active, and the first before which it was not."""
    mine = [a for a in state.activities if a.cap == state.id]
    last_good = None
    if notice.since:
        last_good = next((a for a in mine if notice.since in (a.q, a.end_q)), None)
    first_bad = next((a for a in mine if a.before == STATUS_INVALIDATED), None)
    if last_good is None:
        limit = first_bad.q if first_bad is not None else notice.q
        good = [a for a in mine if a.after == STATUS_ACTIVE and a.end_q <= limit]
        last_good = good[-1] if good else None
    return last_good, first_bad
