"""What a slot held and holds, as recorded: whether it changed, and how to say it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.wording.words import code
from cudagraph_doctor.session.slots import UNKNOWN, equal, kin, plain

if TYPE_CHECKING:
    from cudagraph_doctor.session.slots import SlotState
    from cudagraph_doctor.trace import events

LENGTH = re.compile(r"len (\d+)")
_LONGEST = 60
_FUNCTIONS = frozenset({"function", "builtin_function_or_method", "partial"})
"""Types of what is called and does not change itself. A bound method is made anew each time it is looked up."""
_MANY = 4096
"""Elements of a container whose length stands for it in calculations."""


def holds_value(state: SlotState) -> bool:
    """Whether the slot held a plain value, or a function: what a region calls is as frozen as what it reads."""
    record = state.record
    return bool(record.value) or (not record.ptr and record.type.rpartition(".")[2] in _FUNCTIONS)


def changed(state: SlotState, change: events.SlotChange) -> bool:
    """Whether a look found another plain value than the region read, and another than it left behind itself."""
    record = state.record
    if change.given or (state.is_tensor and not record.value):
        return not change.given and change.value == "None"
    if not record.value:
        return holds_value(state) and not change.ptr and not change.value and bool(change.type)
    if not change.value:  # an object where a plain value was: `None` that became a tensor or a module
        return record.value == "None" and bool(change.ptr or change.type) and not _lazily_filled(state)
    if equal(record.value, change.value):
        return False
    return not (record.written and record.left and equal(record.left, change.value))


def first_change(state: SlotState) -> events.SlotChange | None:
    """The first look that found another value."""
    return next((change for change in state.changes if changed(state, change)), None)


def advances_itself(state: SlotState) -> bool:
    """Whether the region changes the number that it reads: `self.pos += 1`. A replay never does."""
    record = state.record
    if not (record.written and record.left) or equal(record.value, record.left):
        return False
    before, after = plain(record.value), plain(record.left)
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (before, after))


def is_key(state: SlotState) -> bool:
    """Whether captures of one line read different values of the slot: each graph is then made for its value."""
    return any(other.record.value != state.record.value or other.record.ptr != state.record.ptr for other in kin(state))


def of_the_family(state: SlotState, change: events.SlotChange) -> bool:
    """Whether what is in the slot now is what another graph of the family was captured with."""
    return any(
        (change.ptr and other.record.ptr == change.ptr) or (change.value and equal(other.record.value, change.value))
        for other in kin(state)
    )


def number_of(text: str) -> object:
    """A recorded value to calculate with: a container of N stands for itself by N empty places."""
    found = LENGTH.fullmatch(text)
    if found is not None:
        count = int(found[1]) if len(found[1]) < 6 else _MANY + 1
        return (None,) * count if count <= _MANY else UNKNOWN
    return plain(text)


def show(text: str, type_name: str = "", ptr: str = "") -> str:
    """A recorded value in a sentence: `4`, `'greedy'`, a container of 3, a tensor."""
    found = LENGTH.fullmatch(text)
    if found is not None:
        return f"{found[1]} element{'s' if found[1] != '1' else ''}"
    if text:
        text = text.removeprefix("__main__.")
        return code(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")
    if ptr:
        return "a tensor"
    return f"an object of type {code(type_name.rpartition('.')[2])}" if type_name else "something else"


def _lazily_filled(state: SlotState) -> bool:
    """The region itself put something where nothing was: a table built on first use."""
    return state.record.written and state.record.left != "None"
