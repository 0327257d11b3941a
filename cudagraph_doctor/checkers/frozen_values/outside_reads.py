"""Reads outside of the region of what only the region updates, found in the program's text.

Where the recorder does not watch such reads, the text tells which statements would make them: those of functions that
are no part of the region, and those behind the capture in the function that captures.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import ROLE_USER
from cudagraph_doctor.checkers.code.bookkeeping import SCOPES
from cudagraph_doctor.checkers.code.expression import called
from cudagraph_doctor.checkers.code.text import SourceText, parsed
from cudagraph_doctor.checkers.frozen_values import calls
from cudagraph_doctor.checkers.frozen_values.evaluate import evaluate
from cudagraph_doctor.checkers.frozen_values.values import LENGTH, number_of
from cudagraph_doctor.session.frames import place, role
from cudagraph_doctor.session.slots import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import Session
    from cudagraph_doctor.session.slots import SlotState

_MUTATES = frozenset({"append", "extend", "add", "clear", "pop", "update", "insert", "remove", "setdefault", "discard"})


def outside_read(session: Session, state: SlotState) -> Location | None:
    """The first statement of the text that reads the slot behind the replays; None: no such statement is there."""
    capture = state.capture
    if capture is None:
        return None
    replay = next((r.stack for r in session.replays if r.graph == capture.begin.graph and r.stack), 0)
    begun, replayed = _lines(session, capture.begin.stack), _lines(session, replay)
    inside = _functions_of_the_region(session, state, begun)
    for number, known in session.sources.items():
        text = session.text(number) if known.text and role(session, number) == ROLE_USER else None
        source = parsed(text) if text is not None else None
        for node in _reads(source, state, number) if source is not None else ():
            assert source is not None
            scope = source.enclosing(node, *SCOPES)
            name = getattr(scope, "name", "<module>")
            where = (number, name)
            if where in inside or name == "__init__":
                continue
            if where in begun or where in replayed:
                looped = source.enclosing(node, ast.For, ast.AsyncFor, ast.While) is not None
                last = max(begun.get(where, 0), 0 if looped else replayed.get(where, 0))
                if node.lineno <= last:
                    continue
            elif isinstance(scope, ast.Module):
                continue
            return place(session, (number, node.lineno, name, node.end_lineno, node.col_offset, node.end_col_offset))
    return None


def _lines(session: Session, stack: int) -> dict[tuple[int, str], int]:
    """The line at which each function of a stack stands."""
    record = session.stacks.get(stack)
    found: dict[tuple[int, str], int] = {}
    for frame in record.frames if record is not None else ():
        found.setdefault((frame[0], frame[2].rpartition(".")[2]), frame[1])
    return found


def _reads(source: SourceText, state: SlotState, number: int) -> Iterator[ast.Name | ast.Attribute]:
    name = state.name.partition("[")[0]
    own = {frame[1] for frame in (*state.record.reads, *state.record.writes) if frame[0] == number}
    wanted = ast.Attribute if "." in state.path else ast.Name
    found = [
        node
        for node in ast.walk(source.tree or ast.Module([], []))
        if isinstance(node, (ast.Name, ast.Attribute))
        and isinstance(node, wanted)
        and isinstance(node.ctx, ast.Load)
        and (node.attr if isinstance(node, ast.Attribute) else node.id) == name
        and node.lineno not in own
    ]
    for node in sorted(found, key=lambda n: (n.lineno, n.col_offset)):
        if _uses(source, state, node):
            yield node


def _uses(source: SourceText, state: SlotState, node: ast.expr) -> bool:
    """Whether a read does something with the value: neither tells it, nor changes it, nor copies it on."""
    below: ast.AST = node
    for above in source.ancestors(node):
        if isinstance(above, ast.Compare):
            return not _expects(state, above, node)
        if isinstance(above, ast.BinOp) or (
            isinstance(above, (ast.If, ast.While, ast.IfExp, ast.Assert)) and below is above.test
        ):
            return True
        if isinstance(above, ast.Call):
            if calls.tells(above) or (called(above) in _MUTATES and below is above.func):
                return False
            if below is not above.func and called(above) not in calls.PURE:
                return True
        if isinstance(above, ast.stmt):
            return isinstance(above, (ast.Return, ast.For)) or isinstance(below, (ast.Yield, ast.Await))
        if isinstance(above, ast.Subscript) and below is above.slice:
            return True
        below = above
    return False


def _expects(state: SlotState, compare: ast.Compare, node: ast.expr) -> bool:
    """Whether a comparison is with a number in the text that the slot may well be: the program knows it."""
    if not all(isinstance(kind, (ast.Eq, ast.NotEq)) for kind in compare.ops):
        return False
    parts = [part for part in (compare.left, *compare.comparators) if node not in ast.walk(part)]
    if any(isinstance(inner, (ast.Name, ast.Attribute, ast.Call)) for part in parts for inner in ast.walk(part)):
        return False
    last = state.changes[-1].value if state.changes else state.record.left
    holder = next(part for part in (compare.left, *compare.comparators) if node in ast.walk(part))
    if len(state.family) > 1 or LENGTH.fullmatch(last) or isinstance(holder, ast.Call):
        return True  # further captures change it as well: nobody knows its value there
    value = evaluate(compare, {ast.unparse(holder): number_of(last)})
    return value is UNKNOWN or value is all(isinstance(kind, ast.Eq) for kind in compare.ops)


def _functions_of_the_region(
    session: Session, state: SlotState, begun: dict[tuple[int, str], int]
) -> set[tuple[int, str]]:
    """The functions that ran inside of the region: those of its reads and stores, and of what was launched."""
    found = {(f[0], f[2].rpartition(".")[2]) for f in (*state.record.reads, *state.record.writes)}
    for activity in state.capture.activities if state.capture is not None else ():
        found.update(_lines(session, activity.stack))
    return found - set(begun)
