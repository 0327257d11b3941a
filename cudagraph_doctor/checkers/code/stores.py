"""Which statement of the program changed a slot: the one that was seen, else the likeliest in its text.

Where the recorder saw no store, the statements that could have made it are ranked: those behind the capture and before
the replay in the same function first, then those of other functions, constructors last. The result is a guess, and is
called one.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_doctor._wire import ROLE_USER
from cudagraph_doctor.checkers.code.bookkeeping import SCOPES
from cudagraph_doctor.checkers.code.expression import called
from cudagraph_doctor.checkers.code.text import SourceText, parsed
from cudagraph_doctor.session.frames import place, role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import Session
    from cudagraph_doctor.session.slots import SlotState
    from cudagraph_doctor.trace import events

_KEY = re.compile(r"""\[(?:["'](?P<text>[^"'\]]+)["']|(?P<number>\d+))\]$""")
_LAST_STEP = re.compile(r"""(?:\.\w+|\[[^\]]*\])$""")
_MUTATES = frozenset({"append", "extend", "insert", "add", "update", "pop", "clear", "remove", "setdefault", "discard"})
_MOVES = frozenset({"to", "cuda", "cpu", "half", "float", "double", "bfloat16", "to_empty"})


class Store(NamedTuple):
    """Where a slot was changed."""

    place: Location | None
    guess: bool
    """It is the likeliest statement of the text; nobody saw it."""


UNKNOWN_STORE = Store(None, guess=True)


def store_of(session: Session, state: SlotState, change: events.SlotChange) -> Store:
    """The store behind a change."""
    seen = session.location(change.stack)
    if seen is not None:
        return Store(seen, change.guess)
    begin = session.location(state.capture.begin.stack) if state.capture is not None else None
    replay = next((session.location(r.stack) for r in session.replays if r.exec == change.exec and r.stack), None)
    for path in _with_parents(state.path):
        best: tuple[tuple[int, ...], int, int] | None = None
        for number, source in _user_sources(session):
            for node, category in _candidates(source, state, path, number):
                rank = _rank(source, number, node, begin, replay)
                if rank is not None and (best is None or (category, *rank) < best[0]):
                    best = (category, *rank), number, getattr(node, "lineno", 1)
        if best is not None:
            return Store(place(session, (best[1], best[2], "", None, None, None)), guess=True)
    return UNKNOWN_STORE


def _with_parents(path: str) -> Iterator[str]:
    """`self.batch["x"]`, then `self.batch`: what is inside of another object changes with it, too."""
    yield path
    while (inner := _LAST_STEP.search(path)) is not None and inner.start() > 0:
        path = path[: inner.start()]
        if path == "self":
            return
        yield path


def _user_sources(session: Session) -> Iterator[tuple[int, SourceText]]:
    for number, known in session.sources.items():
        text = session.text(number) if known.text and role(session, number) == ROLE_USER else None
        source = parsed(text) if text is not None else None
        if source is not None and source.tree is not None:
            yield number, source


def _candidates(source: SourceText, state: SlotState, path: str, number: int) -> Iterator[tuple[ast.AST, int]]:
    """The nodes that could have stored to the slot, each with how directly it says so: 0 is the plainest."""
    record = state.record
    own = {frame[1] for frame in record.writes if frame[0] == number}
    key = _KEY.search(path)
    name = (path[: key.start()] if key is not None else path).rpartition(".")[2]
    attribute = "." in path if path != state.path else record.kind in {"attribute", "item"}
    whole = path == state.path
    for node in ast.walk(source.tree) if source.tree is not None else ():
        if getattr(node, "lineno", 0) in own:
            continue
        direct = _stores_attribute(node, name) if attribute else _stores_name(node, name)
        if key is not None and _stores_item(node, key["text"] or int(key["number"] or 0)):
            yield node, 0 if _owner(node) == name else 1
        elif (key is None and direct) or (whole and _changes_inside(node, state, name)):
            yield node, 0
        elif whole and record.role in {"parameter", "buffer"} and _moves_weights(node):
            yield node, 2


def _changes_inside(node: ast.AST, state: SlotState, name: str) -> bool:
    """Calls that change what the slot holds, or put other memory into it."""
    record = state.record
    if record.value.startswith("len ") and called(node) in _MUTATES and _owner(node) == name:
        return True
    if record.role in {"parameter", "buffer"} and (_replaces_weights(node) or _registers(node, name)):
        return True
    if record.ptr and record.value and _writes_in_place(node, name):
        return True
    return state.name == "training" and called(node) in {"train", "eval"}


def _stores_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)


def _stores_item(node: ast.AST, key: str | int) -> bool:
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        if any(isinstance(part, ast.Slice) for part in ast.walk(node.slice)):
            return False  # it fills what is there
        return not isinstance(node.slice, ast.Constant) or node.slice.value == key
    if called(node) == "update" and isinstance(node, ast.Call):
        return any(word.arg == key for word in node.keywords) or bool(node.args)
    return False


def _stores_attribute(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == name and isinstance(node.ctx, ast.Store)
    if called(node) == "setattr" and isinstance(node, ast.Call) and len(node.args) == 3:
        told = node.args[1]
        return not isinstance(told, ast.Constant) or told.value == name
    return False


def _replaces_weights(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "data" and isinstance(node.ctx, ast.Store)
    if not isinstance(node, ast.Call):
        return False
    return called(node) == "load_state_dict" and any(word.arg == "assign" for word in node.keywords)


def _moves_weights(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and called(node) in _MOVES and isinstance(node.func, ast.Attribute)


def _registers(node: ast.AST, name: str) -> bool:
    if called(node) not in {"register_buffer", "register_parameter"} or not isinstance(node, ast.Call):
        return False
    return bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == name


def _writes_in_place(node: ast.AST, name: str) -> bool:
    """`temperature.fill_(0.5)`: a tensor on the host that is an operand by its value."""
    method = called(node)
    return _owner(node) == name and method.endswith("_") and not method.endswith("__")


def _owner(node: ast.AST) -> str:
    value = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    if isinstance(node, ast.Subscript):
        value = node.value
    if isinstance(value, ast.Attribute):
        return value.attr
    return value.id if isinstance(value, ast.Name) else ""


def _rank(
    source: SourceText, number: int, node: ast.AST, begin: Location | None, replay: Location | None
) -> tuple[int, int] | None:
    """How likely a store is, the least first; None for one that cannot be."""
    scope = source.enclosing(node, *SCOPES)
    line: int = getattr(node, "lineno", 1)
    function = getattr(scope, "name", "<module>") if scope is not None else "<module>"
    far = abs(line - replay.line) if replay is not None and replay.source == number else line
    if begin is not None and begin.source == number and _in(scope, begin.line):
        looped = source.enclosing(node, ast.For, ast.AsyncFor, ast.While) is not None
        with_replay = replay is not None and replay.source == number and _in(scope, replay.line)
        if line < begin.line:
            # Before the capture, unless it runs again: in a loop around both, or in a function that replays as well.
            again = with_replay and (looped or not isinstance(scope, ast.Module))
            return (1, far) if again else None
        ahead = replay is None or not with_replay or line <= replay.line or looped
        return (0 if ahead else 2), far
    return (3 if function == "__init__" else 1), far


def _in(scope: ast.AST | None, line: int) -> bool:
    if scope is None or isinstance(scope, ast.Module):
        return True
    first, last = getattr(scope, "lineno", 0), getattr(scope, "end_lineno", 0) or 0
    return first <= line <= last
