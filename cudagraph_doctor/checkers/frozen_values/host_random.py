"""CGD601, second half: a random number or a time of the host went into the graph, the same in every replay."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_doctor._wire import ROLE_USER
from cudagraph_doctor.checkers.code.expression import dotted
from cudagraph_doctor.checkers.code.text import parsed
from cudagraph_doctor.checkers.frozen_values import saying
from cudagraph_doctor.checkers.frozen_values.host_scalar import RULE
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code
from cudagraph_doctor.findings import Confidence, Severity
from cudagraph_doctor.session.frames import role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding
    from cudagraph_doctor.session.model import Activity, CaptureState, Session

_DRAWS = re.compile(
    r"^(?:random\.(?:random|randint|uniform|gauss|choice|randrange|normalvariate|betavariate|getrandbits)"
    r"|(?:np|numpy)\.random\.\w+|time\.(?:time|time_ns|perf_counter|monotonic))$"
)
_MENTIONS = re.compile(r"\b(?:random|time)\.")


class _Drawn(NamedTuple):
    capture: CaptureState
    activity: Activity
    source: int
    node: ast.Call


def findings(session: Session) -> Iterator[Finding]:
    """Yield numbers that the region drew on the host and handed to captured work, one for each line."""
    seen: set[tuple[int, int]] = set()
    for capture in session.captures:
        if capture.status != "completed" or capture.replays < 2:
            continue
        for drawn in _drawn(session, capture):
            if (drawn.source, drawn.node.lineno) not in seen:
                seen.add((drawn.source, drawn.node.lineno))
                yield _finding(session, drawn)


def _drawn(session: Session, capture: CaptureState) -> Iterator[_Drawn]:
    """Operators with a number among their arguments whose expression draws one."""
    looked: set[tuple[int, int, int | None]] = set()
    for activity in capture.ops():
        record = session.stacks.get(activity.stack)
        if record is None or not getattr(activity.record, "values", None):
            continue
        frame = next((frame for frame in record.frames if role(session, frame[0]) == ROLE_USER), None)
        if frame is None or frame[4] is None or (frame[0], frame[1], frame[4]) in looked:
            continue
        looked.add((frame[0], frame[1], frame[4]))
        text = session.text(frame[0])
        if text is None or not _MENTIONS.search(text):
            continue
        node = parsed(text).expression_at(frame[1], frame[4], frame[3], frame[5])
        for part in ast.walk(node) if node is not None else ():
            if isinstance(part, ast.Call) and _DRAWS.match(dotted(part.func)):
                yield _Drawn(capture, activity, frame[0], part)


def _finding(session: Session, drawn: _Drawn) -> Finding:
    place = saying.location(session, drawn.source, drawn.node)
    call = code(ast.unparse(drawn.node))
    words = Words(
        message=f"{call} was drawn once, when the region was captured: its result is in the graph, and every replay "
        "uses the same.",
        remedy="Draw on the device in the region (`torch.rand`, whose generator advances with each replay), or keep "
        "the number in a tensor on the device that is filled before each replay.",
        location=place,
        related=begin_place(session, drawn.capture),
    )
    return finding(
        session,
        RULE,
        words,
        capture=drawn.capture,
        stack=drawn.activity.stack,
        trigger="host-random",
        confidence=Confidence.LIKELY,
        level=Severity.ERROR,
        evidence=(drawn.activity.q,),
    )
