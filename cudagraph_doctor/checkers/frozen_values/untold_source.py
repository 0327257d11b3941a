"""Reads in files whose text is not recorded (torch's own layers): operators of the same line tell what became of it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.frozen_values import calls
from cudagraph_doctor.checkers.frozen_values.uses import Role, Use
from cudagraph_doctor.checkers.frozen_values.values import number_of
from cudagraph_doctor.checkers.frozen_values.witness import stands_in
from cudagraph_doctor.session.slots import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.checkers.frozen_values.window_work import WindowWork
    from cudagraph_doctor.session.slots import SlotState

_MODE = "training"
"""Attribute of torch's layers that decides what their `forward` launches."""


def uses_in_libraries(work: WindowWork, state: SlotState) -> Iterator[Use]:
    """What was launched from the line of a read, with the value among its arguments."""
    value = number_of(state.record.value)
    for frame in state.record.reads:
        if work.source(frame[0]).tree is not None:
            continue
        launched = work.on_line(frame[0], frame[1])
        activities = tuple(dict.fromkeys(one.activity for one in launched))
        found = stands_in(activities, value)
        if found is None and _is_optimizer(work, frame[0]):
            activities = work.in_function(frame[0], frame[2])
            found = stands_in(activities, value) or stands_in(activities, _negative(value))
        if found is None and state.name != _MODE:
            continue
        name = ast.Name(id=state.name, ctx=ast.Load(), lineno=frame[1], col_offset=0)
        sizes = found is not None and calls.sizes(found.name)
        role = Role.EXTENT if sizes else Role.OPERAND
        if state.name == _MODE:
            role = Role.GUARD if drops_nothing(work, state) else Role.BRANCH
        way = ((frame[0], name),)
        yield Use(role=role, source=frame[0], node=name, value=name, work=activities, plain=True, path=way)


def drops_nothing(work: WindowWork, state: SlotState) -> bool:
    """Whether the mode is that of a dropout layer with a chance of 0, which does the same in both modes."""
    sibling = state.path.removesuffix(_MODE) + "p"
    return any(
        other.path == sibling and other.capture is state.capture and number_of(other.record.value) == 0
        for other in work.session.slots.values()
    )


def is_mode_of_a_layer(work: WindowWork, use: Use, state: SlotState) -> bool:
    """Whether one of torch's layers that do other work in the other mode read it: dropout, normalisation."""
    known = work.session.sources.get(use.source)
    return (
        state.name == _MODE
        and use.role is Role.BRANCH
        and known is not None
        and any(part in known.path for part in ("torch/nn/modules/dropout", "torch/nn/modules/batchnorm"))
    )


def _is_optimizer(work: WindowWork, source: int) -> bool:
    known = work.session.sources.get(source)
    return known is not None and "torch/optim/" in known.path


def _negative(value: object) -> object:
    """A step goes against the gradient: the learning rate is an operator's argument with its sign changed."""
    return -value if isinstance(value, (int, float)) and not isinstance(value, bool) else UNKNOWN
