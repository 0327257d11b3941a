"""Which thread a call was made for: autograd's device threads run the backward pass of the thread that asked for it.

Such a thread has no Python stack, except inside a hook. Torch's operators on it carry the asking thread (`via`) and the
stack that waits there; what it calls between two operators (a stream's wait for another one, before a gradient is
accumulated) carries neither, so it is told by its neighbours.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Activity, CaptureState, Session

_ENGINE = "_EngineBase.run_backward"
"""The call from Python in which the asking thread waits for its backward pass."""

_NEAR = 2000
"""Activities looked at on either side: more than a backward pass has between two of its operators on one thread."""


class Served(NamedTuple):
    """The thread that something was done for, and the Python stack that asked for it there."""

    tid: int
    stack: int


def served(session: Session, capture: CaptureState, activity: Activity) -> Served:
    """For which thread an activity of a window was done; its own thread and stack where that is all there is."""
    for one in (activity, *activity.enclosing()):
        via = getattr(one.record, "via", 0)
        if via:
            return Served(via, activity.stack or one.stack)
    if activity.tid == capture.tid:
        return Served(activity.tid, activity.stack)
    found = _neighbour(capture, activity) or _waiting_engine(session, capture, activity)
    if found is None:
        return Served(activity.tid, activity.stack)
    return Served(found.tid, activity.stack or found.stack)


def _neighbour(capture: CaptureState, activity: Activity) -> Served | None:
    """The operator with `via` that the same thread ran last before, else first after."""
    at = bisect_left(capture.activities, activity.q, key=lambda a: a.q)
    before = reversed(capture.activities[max(at - _NEAR, 0) : at])
    for other in chain(before, islice(capture.activities, at, at + _NEAR)):
        via = getattr(other.record, "via", 0) if other.tid == activity.tid else 0
        if via:
            return Served(via, other.stack)
    return None


def _waiting_engine(session: Session, capture: CaptureState, activity: Activity) -> Served | None:
    """The capturing thread's call of autograd's engine, while which an unknown thread of torch's made a call.

    A call from Python is recorded when it has come back: so it is what that thread told next.
    """
    named = session.threads.get(activity.tid)
    if activity.stack or (named is not None and not named.name.startswith("Dummy-")):
        return None
    if not str(getattr(activity.record, "lib", "")).startswith(("libtorch", "libc10")):
        return None
    told = next((a for a in capture.activities if a.tid == capture.tid and a.q > activity.q), None)
    if told is None or told.kind != "pycall" or not told.name.endswith(_ENGINE):
        return None
    return Served(capture.tid, told.stack)
