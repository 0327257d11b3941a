"""A launch that the driver refused for its own shape or context: which rule owns it. Some leave the capture active."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.invalidation.cause import Cause
from cudagraph_doctor.checkers.invalidation.places import telling_stack
from cudagraph_doctor.session.apis import Family, family

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Activity, CaptureState, Session
    from cudagraph_doctor.trace import events

RULES = {1: "CGD501", 9: "CGD501", 701: "CGD503", 720: "CGD504", 912: "CGD504", 400: "CGD202", 201: "CGD203"}
"""Rule of each code that a launch itself is refused with (measured)."""

DEFAULT_SHARED = 48 * 1024
"""Bytes of dynamic shared memory that a kernel may ask for without opting in (CUDA programming guide)."""
GRID_LIMITS = (2**31 - 1, 65535, 65535)
BLOCK_LIMITS = (1024, 1024, 64)
THREADS_LIMIT = 1024
"""Limits of every device since compute capability 3.0 (CUDA programming guide, technical specifications)."""


def rule_of_launch(code: int, activity: Activity | None, said: str = "") -> str | None:
    """The rule that owns a launch refused with this code; None where the code stands for something else.

    Args:
        code: The driver's code.
        activity: The launch, where its shape was recorded.
        said: What the driver's error log says of it.
    """
    rule = RULES.get(code)
    if rule != "CGD501":
        return rule
    shared = re.search(r"(?i)shared memory", said) is not None
    return "CGD502" if shared or (activity is not None and _too_much_shared(activity)) else rule


def exceeded(grid: tuple[int, int, int] | None, block: tuple[int, int, int] | None) -> tuple[str, int, int] | None:
    """(`grid.y`, its value, its limit) of the first dimension that no device takes; None: all are legal."""
    for what, shape, limits in (("grid", grid, GRID_LIMITS), ("block", block, BLOCK_LIMITS)):
        for axis, value, limit in zip("xyz", shape or (), limits, strict=False):
            if not 1 <= value <= limit:
                return f"{what}.{axis}", value, limit
    threads = block[0] * block[1] * block[2] if block is not None else 0
    return ("threads of a block", threads, THREADS_LIMIT) if threads > THREADS_LIMIT else None


def log_of(capture: CaptureState, launch: Activity) -> events.Log | None:
    """The driver's own words on a launch: the first entry of its thread behind it with its code."""
    code = launch.code
    entries = (log for log in capture.logs if log.q > launch.q and log.code == code and log.thread in {0, launch.tid})
    return next(entries, None)


def refused_launch(session: Session, capture: CaptureState) -> Cause | None:
    """A launch that was refused and left the capture active: its node is missing."""
    for activity in capture.calls():
        if family(activity.name) is not Family.LAUNCH or activity.tid != capture.tid or not activity.code:
            continue
        log = log_of(capture, activity)
        rule = rule_of_launch(activity.code, activity, log.message if log is not None else "")
        if rule is None:
            continue
        return Cause(
            rule=rule,
            trigger=activity.name,
            key=activity.q,
            tid=activity.tid,
            stack=telling_stack(session, activity),
            family=Family.LAUNCH,
            api=activity.name,
            code=activity.code,
            activity=activity,
            exc=activity.exc,
            log=log,
            why="launch",
            evidence=(activity.q, *((log.q,) if log is not None else ())),
        )
    return None


def _too_much_shared(activity: Activity) -> bool:
    record = activity.record
    shared = getattr(record, "smem", None) or 0
    return shared > DEFAULT_SHARED and exceeded(getattr(record, "grid", None), getattr(record, "block", None)) is None
