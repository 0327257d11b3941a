"""The phrases that CGD402 to CGD404 share: the slots, the store that rebound them, the work on the old memory."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.edit import replace_statement
from cudagraph_doctor.checkers.code.expression import Expression, called, find_expression
from cudagraph_doctor.checkers.wording.words import at, begin_place, code, graph_name
from cudagraph_doctor.findings import Confidence

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.pointer_lifetime.rebinding import Rebinding
    from cudagraph_doctor.findings import Fix, Location
    from cudagraph_doctor.session.model import Session

_NAMED = 3
"""Slots named one by one."""


def store_line(session: Session, found: Rebinding) -> Location | None:
    """The store that rebound the slot; where it was not seen, the line that read it in the region."""
    return found.store.place or read_line(session, found)


def read_line(session: Session, found: Rebinding) -> Location | None:
    """Where the region read the slot."""
    from cudagraph_doctor._wire import ROLE_USER
    from cudagraph_doctor.session.frames import place, role

    for frame in found.state.record.reads:
        if role(session, frame[0]) == ROLE_USER:
            return place(session, frame)
    return session.location(found.state.record.stack)


def store(session: Session, found: Rebinding) -> Expression:
    """The statement of the store."""
    return find_expression(session, found.store.place, lambda node: bool(called(node)))


def slots(found: Rebinding) -> str:
    """`` `a`, `b` and 14 more ``."""
    paths = found.paths
    named = ", ".join(code(path) for path in paths[:_NAMED])
    return f"{named} and {len(paths) - _NAMED} more" if len(paths) > _NAMED else named


def old_work(session: Session, found: Rebinding) -> str:
    """`` `x @ w` at run.py:21 ``: the captured work on the old memory; empty where it is not known."""
    place = session.location(found.use.stack) if found.use is not None else None
    if place is None:
        return ""
    text = find_expression(session, place).text
    return f"{code(text) if text else 'the captured work'}{at(place)}"


def since(found: Rebinding) -> str:
    """` from replay 2 on`; empty where the recorder did not count."""
    return f" from replay {found.change.replay} on" if found.change.replay else ""


def in_graphs(found: Rebinding) -> str:
    """` of 4 graphs` where more than one works on the old memory."""
    return f" of {found.graphs} graphs" if found.graphs > 1 else ""


def related(session: Session, found: Rebinding, main: Location | None) -> tuple[Location, ...]:
    """Where the region read the slot, what it did with it, and where the capture begins."""
    places: list[Location] = []
    read = read_line(session, found)
    if read is not None and read != main:
        places.append(read.with_note(f"the captured region reads {code(found.state.path)} here"))
    used = session.location(found.use.stack) if found.use is not None else None
    if used is not None:
        places.append(used.with_note("captured; works on the memory of the capture"))
    return (*places, *begin_place(session, found.state.capture))


def graph_of(session: Session, found: Rebinding) -> str:
    """The graph's name in the user's code."""
    return graph_name(session, found.state.capture) if found.state.capture is not None else "graph"


def sureness(found: Rebinding) -> Confidence:
    """`proven` where the captured tensor is known to be left alone and the store was seen."""
    return Confidence.PROVEN if found.change.refreshed is False and not found.store.guess else Confidence.LIKELY


def copy_in_place(session: Session, found: Rebinding) -> Fix | None:
    """`x = batch` becomes `x.copy_(batch)`."""
    place = found.store.place
    expression = find_expression(session, place)
    statement = expression.statement
    if place is None or found.store.guess or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if (
        not isinstance(target, (ast.Name, ast.Attribute, ast.Subscript))
        or found.change.shape != found.state.record.shape
    ):
        return None
    new = f"{expression.full(target)}.copy_({expression.full(statement.value)})"
    return replace_statement(expression.source, place, statement, new)


def copied(session: Session, found: Rebinding) -> str:
    """`` `x.copy_(batch)` in place of `x = batch` ``, else the general form."""
    expression = find_expression(session, found.store.place)
    statement = expression.statement
    path = found.state.path
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = expression.show(statement.targets[0])
        value = expression.show(statement.value, 40)
        if "," not in target:
            return f"`{target}.copy_({value})` in place of {code(f'{target} = {value}')}"
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return f"another name for the loop, and `{path}.copy_(...)` in it"
    return f"`{path}.copy_(...)` in place of the new tensor"
