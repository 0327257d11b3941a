"""The phrases that the findings of this block share: the variable, what it was and is, where it was changed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import ROLE_USER
from cudagraph_doctor.checkers.code.stores import store_of
from cudagraph_doctor.checkers.frozen_values.values import show
from cudagraph_doctor.checkers.wording.words import code
from cudagraph_doctor.session.frames import place as place_of
from cudagraph_doctor.session.frames import role as role_of

if TYPE_CHECKING:
    import ast

    from cudagraph_doctor.checkers.frozen_values.frozen import Frozen
    from cudagraph_doctor.checkers.frozen_values.uses import Use
    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import Session
    from cudagraph_doctor.session.slots import SlotState

_LAST = re.compile(r"(\w+)\W*$")


def line_of(session: Session, use: Use, state: SlotState) -> Location | None:
    """The user's line at which the value went into the graph: the use itself, else the last one on the way to it."""
    for source, node in ((use.source, use.node), *reversed(use.path)):
        if role_of(session, source) == ROLE_USER:
            return location(session, source, node)
    return session.location(state.record.stack) or location(session, use.source, use.node)


def main_line(session: Session, found: Frozen) -> Location | None:
    """The line of the finding: where the value went into the graph; where that is a library's line, the store."""
    sources = (found.use.source, *(source for source, _ in found.use.path))
    if not any(role_of(session, source) == ROLE_USER for source in sources):
        store = store_of(session, found.state, found.change) if found.change is not None else None
        if store is not None and store.place is not None and (not store.guess or found.state.name == "training"):
            return store.place
    return line_of(session, found.use, found.state)


def location(session: Session, source: int, node: ast.AST) -> Location:
    """A node as a place to show; of a compound statement its first line."""
    line: int = getattr(node, "lineno", 1)
    last = getattr(node, "end_lineno", None)
    whole = last is not None and not hasattr(node, "body")
    column = getattr(node, "col_offset", None) if whole else None
    end_column = getattr(node, "end_col_offset", None) if whole else None
    return place_of(session, (source, line, "", last if whole else None, column, end_column))


def read_lines(session: Session, found: Frozen, main: Location | None) -> tuple[Location, ...]:
    """Where the region read the slot, if that is another line than the finding's."""
    for source, node in found.use.path[:1]:
        if role_of(session, source) == ROLE_USER:
            there = location(session, source, node)
            if main is None or (there.file, there.line) != (main.file, main.line):
                return (there.with_note(f"the captured region reads {code(found.state.path)} here"),)
    return ()


def store_lines(session: Session, found: Frozen) -> tuple[Location, ...]:
    """Where the slot was changed, as a related place."""
    if found.change is None:
        frames = found.state.record.writes
        there = place_of(session, frames[-1]) if frames else None
        return (there.with_note("advanced here when Python runs, never by a replay"),) if there is not None else ()
    store = store_of(session, found.state, found.change)
    if store.place is None:
        return ()
    value = show(found.change.value, found.change.type, found.change.ptr)
    return (store.place.with_note(f"{'probably ' if store.guess else ''}set to {value} here"),)


def was_and_is(found: Frozen) -> tuple[str, str]:
    """What the slot held at capture, and what it holds now, in words."""
    record, change = found.state.record, found.change
    if change is None:
        return show(record.value), show(record.left)
    return show(record.value, record.type, record.ptr), show(change.value, change.type, change.ptr)


def since(found: Frozen) -> str:
    """` since replay 3`; empty where the recorder did not count."""
    number = found.change.replay if found.change is not None else 2
    return f" by replay {number}" if number else ""


def in_graphs(found: Frozen) -> str:
    """` in 4 graphs` where more than one holds it."""
    return f" in {found.graphs} graphs" if found.graphs > 1 else ""


def device_name(path: str) -> str:
    """A name for the value on the device: `self.pos_dev` for `self.pos`, `scale_dev` for `options["scale"]`."""
    found = _LAST.search(path)
    name = found[1] if found is not None else "value"
    if name.isdigit():
        name = "value"
    head = path[: found.start(1)] if found is not None else ""
    return (head if head.endswith(".") and "[" not in head else "") + f"{name}_dev"
