"""The plain values that a region read, by the place where it read them: to calculate the user's expressions with."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.syntax import same_place
from cudagraph_doctor.checkers.frozen_values.evaluate import evaluate
from cudagraph_doctor.checkers.frozen_values.values import number_of
from cudagraph_doctor.session.slots import UNKNOWN

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.frozen_values.uses import Use
    from cudagraph_doctor.session.model import Session
    from cudagraph_doctor.session.slots import SlotState


def value_then_and_now(session: Session, state: SlotState, use: Use, now: str) -> tuple[object, object]:
    """The value of the expression that reached the graph: at capture, and with what the slot holds now.

    Both `UNKNOWN` where other things than constants and recorded values decide it.
    """
    start = use.path[-1][1] if use.path else None
    if not isinstance(start, ast.expr) or not use.carried:
        return UNKNOWN, UNKNOWN
    known = _known(session, state, use)
    text = ast.unparse(start)
    then = evaluate(use.value, {**known, text: number_of(state.record.value)})
    after = evaluate(use.value, {**known, text: number_of(now) if now else object()})
    return then, after


def _known(session: Session, state: SlotState, use: Use) -> dict[str, object]:
    """The values of the other slots that the expression reads; one that several slots claim is left out."""
    found: dict[str, object] = {}
    for node in ast.walk(use.value):
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            continue
        values = {
            other.record.value
            for other in session.slots.values()
            if other.capture is state.capture
            and other is not state
            and any(frame[0] == use.source and same_place(frame, node) for frame in other.record.reads)
        }
        if len(values) == 1:
            found[ast.unparse(node)] = number_of(values.pop())
    return found
