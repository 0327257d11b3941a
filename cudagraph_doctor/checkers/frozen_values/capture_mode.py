"""Flags that a program sets for the time of a capture: the region is meant to run differently there.

`self.capturing = True` before the block and `False` behind it changes what the region reads, by intention: the graph
holds the path that was made for it.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.text import SourceText, source_of

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Session
    from cudagraph_doctor.session.slots import SlotState
    from cudagraph_doctor.trace import events

_SAYS_SO = re.compile(r"captur|record(?:ing)?_graph|cuda_?graph|graph_mode|warm_?(?:ing_?)?up|tracing", re.IGNORECASE)
_NEAR = 3
"""Statements between the store and the block at most."""


def set_for_the_capture(session: Session, state: SlotState, change: events.SlotChange) -> bool:
    """Whether a slot was set before the capture and set back behind it, before the first replay."""
    if change.replay > 1 or len(state.changes) > 1:
        return False
    if state.record.type == "bool" and _SAYS_SO.search(state.name):
        return True
    place = session.location(state.capture.begin.stack) if state.capture is not None else None
    source = source_of(session, place)
    statement = source.statement_at(place.line) if place is not None else None
    if statement is None:
        return False
    around = [statement, *(node for node in source.ancestors(statement) if isinstance(node, (ast.With, ast.Try)))]
    name = state.name.partition("[")[0]
    for node in around:
        first, last = _stores(source, node, name, before=True), _stores(source, node, name, before=False)
        if first and last and _set_back(source, name, first[0], last[0]):
            return True
    return False


def _stores(source: SourceText, node: ast.stmt | ast.AST, name: str, *, before: bool) -> list[ast.Assign]:
    """The statements next to a block that store a constant to the name; behind a `try` its `finally` counts too."""
    if not isinstance(node, ast.stmt):
        return []
    block = source.block_of(node)
    index = block.index(node)
    near = block[max(0, index - _NEAR) : index] if before else block[index + 1 : index + 2]
    if not before and isinstance(node, ast.Try):
        near = [*node.finalbody, *near]
    return [part for part in near if isinstance(part, ast.Assign) and _is_store(part, name)]


def _set_back(source: SourceText, name: str, first: ast.Assign, last: ast.Assign) -> bool:
    """Whether the second store gives the name the value that it had before the first one."""
    wanted = ast.dump(last.value)
    return any(
        isinstance(node, ast.Assign)
        and node is not first
        and node is not last
        and _is_store(node, name)
        and ast.dump(node.value) == wanted
        for node in ast.walk(source.tree or ast.Module([], []))
    )


def _is_store(node: ast.Assign, name: str) -> bool:
    return isinstance(node.value, ast.Constant) and any(_target(target) == name for target in node.targets)


def _target(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
