"""Which of the values that a region read are frozen in its graph, and changed on the host since.

This is the judgement of CGD601 to CGD603. A value counts only if its way to the graph is known: it reached a launched
operator, a size, or a test that decides what is launched. Counters, names of log lines, caches and loop variables that
are over never do, and stay quiet.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.stores import store_of
from cudagraph_doctor.checkers.frozen_values import branches
from cudagraph_doctor.checkers.frozen_values.capture_mode import set_for_the_capture
from cudagraph_doctor.checkers.frozen_values.flow import Flow
from cudagraph_doctor.checkers.frozen_values.known_values import value_then_and_now
from cudagraph_doctor.checkers.frozen_values.untold_source import is_mode_of_a_layer, uses_in_libraries
from cudagraph_doctor.checkers.frozen_values.uses import Role, Use
from cudagraph_doctor.checkers.frozen_values.values import (
    advances_itself,
    first_change,
    holds_value,
    is_key,
    number_of,
    of_the_family,
)
from cudagraph_doctor.checkers.frozen_values.window_work import WindowWork
from cudagraph_doctor.checkers.frozen_values.witness import stands_in
from cudagraph_doctor.session.slots import UNKNOWN, plain

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Activity, Session
    from cudagraph_doctor.session.slots import SlotState
    from cudagraph_doctor.trace import events

_COPIES = frozenset({"aten::copy_", "aten::_to_copy"})
_REPLAYS_TO_ADVANCE = 2
"""Replays from which on a number that only Python advances is behind: the first replay still does the captured step."""


@dataclass
class Frozen:
    """A value that is in a graph and is another one on the host."""

    state: SlotState
    use: Use
    change: events.SlotChange | None
    """The look that found it; None: the region advances it itself, which no replay does."""
    witness: Activity | None = None
    """The operator whose recorded argument, size or grid is the value."""
    ties: bool = False
    """The value is tied to work in the graph: by a witness, or by its way to a launched operator."""
    others: list[SlotState] = field(default_factory=list)
    """The same slot in further graphs, and further slots that the same store changed (`training` of all modules)."""

    @property
    def graphs(self) -> int:
        """How many graphs hold it."""
        return len({state.record.cap for state in (self.state, *self.others)})


def frozen(session: Session) -> list[Frozen]:
    """The frozen values of a process, each once, in the order in which they were found to have changed."""
    groups: defaultdict[object, list[Frozen]] = defaultdict(list)
    works: dict[int, WindowWork] = {}
    for state in session.slots.values():
        capture = state.capture
        if capture is None or not state.is_input or not capture.replays or not holds_value(state):
            continue
        change = first_change(state)
        if change is None and not (advances_itself(state) and capture.replays >= _REPLAYS_TO_ADVANCE):
            continue
        if change is not None and state.name == "training":
            told = groups.get(_mode_of(session, state, change))
            if told and told[0].ties:
                told[0].others.append(state)
                continue
        work = works.setdefault(capture.id, WindowWork(session, capture))
        found = _judge(session, work, state, change)
        if found is not None:
            groups[_group(session, found)].append(found)
    return [_first_of(group) for group in groups.values()]


def _first_of(group: list[Frozen]) -> Frozen:
    """What is told of a group: the first that is tied to captured work, with the others."""
    first = next((found for found in group if found.ties), group[0])
    first.others += [found.state for found in group if found is not first]
    return first


def _judge(session: Session, work: WindowWork, state: SlotState, change: events.SlotChange | None) -> Frozen | None:
    if change is not None and is_key(state) and of_the_family(state, change):
        return None
    if change is not None and set_for_the_capture(session, state, change):
        return None
    now = change.value if change is not None else state.record.left
    uses = [*Flow(work, state).uses()] or [*uses_in_libraries(work, state)]
    kept = [use for use in uses if _matters(session, state, use, now) and not _is_copied(session, state, use)]
    if change is not None and is_key(state):
        # Made for a size or a mode of its own, and chosen by it: only a number that is in no graph is behind.
        kept = [use for use in kept if use.role is Role.OPERAND and state.record.kind not in {"global", "local"}]
    if not kept:
        return None
    use = min(kept, key=lambda use: (use.role.rank, not use.work))
    if use.role is Role.GUARD and isinstance(plain(state.record.value), (int, float)) and _counts(state):
        return None
    witness = _witness(session, state, use, now)
    ties = witness is not None or (bool(use.work) and use.role is not Role.GUARD)
    ties = ties or (use.role is Role.BRANCH and branches.feeds(work, use)) or is_mode_of_a_layer(work, use, state)
    return Frozen(state, use, change, witness, ties)


def _matters(session: Session, state: SlotState, use: Use, now: str) -> bool:
    """Whether what reached the graph would be another value now: `min(n, 8)` and `n > 0` may well be the same."""
    then, after = value_then_and_now(session, state, use, now)
    if then is UNKNOWN or after is UNKNOWN:
        return True
    if use.role in {Role.BRANCH, Role.GUARD} and not isinstance(use.node, ast.Match):
        return bool(then) is not bool(after)
    return type(then) is not type(after) or then != after


def _is_copied(session: Session, state: SlotState, use: Use) -> bool:
    """Whether a tensor on the host is only the source of captured copies, which read its memory in each replay."""
    if not state.is_tensor:
        return False
    known = session.storages.get(state.record.storage)
    if known is not None and known.record.space == "pinned":
        return True
    return bool(use.work) and all(activity.name in _COPIES for activity in use.work)


def _witness(session: Session, state: SlotState, use: Use, now: str) -> Activity | None:
    if use.role in {Role.BRANCH, Role.GUARD}:
        return None
    then, _ = value_then_and_now(session, state, use, now)
    return stands_in(use.work, number_of(state.record.value) if use.plain else then)


def _counts(state: SlotState) -> bool:
    value = plain(state.record.value)
    return not isinstance(value, bool)


def _group(session: Session, found: Frozen) -> object:
    """One variable at one line is told once; one `model.train()` changes hundreds of modules and is told once too."""
    if found.state.name == "training" and found.change is not None:
        return _mode_of(session, found.state, found.change)
    record, use = found.state.record, found.use
    return (record.kind, record.path, use.role, use.source, getattr(use.node, "lineno", 0))


def _mode_of(session: Session, state: SlotState, change: events.SlotChange) -> object:
    place = store_of(session, state, change).place
    return ("training", change.value, change.exec, (place.file, place.line) if place is not None else None)
