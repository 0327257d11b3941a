"""Where the program made a captured tensor, what it calls it, and which statement let go of it.

The recorder knows the captured work and, mostly, the line at which the last tensor object died. Memory from before the
capture was made unseen: the line is found in the source text, from the name that the captured work used, through the
arguments of the calls on its stack.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.bookkeeping import SCOPES
from cudagraph_doctor.checkers.code.expression import called, dotted, find_expression
from cudagraph_doctor.checkers.code.memory_names import owner
from cudagraph_doctor.checkers.code.text import SourceText, source_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import CaptureState, Session
    from cudagraph_doctor.session.storages import StorageState
    from cudagraph_doctor.session.uses import Use
    from cudagraph_doctor.trace import events

_LETS_GO = frozenset(
    {"pop", "popitem", "popleft", "clear", "cache_clear", "close", "remove", "discard", "release", "free", "throw"}
)
"""Methods that make a container, cache or generator let go of what it holds."""
_LONGEST_CHAIN = 16
"""Calls through which an argument is followed."""


@dataclass(frozen=True)
class Provenance:
    """What is known of one captured tensor in the program's own terms; each part may be missing."""

    name: str
    """`bias`, `self.weight`: as the captured region calls it."""
    made: Location | None
    dropped: Location | None
    """The statement at which it died."""
    deliberate: bool
    """That statement lets go of it by itself: `del`, an assignment, a `pop()`. Otherwise it ended a scope."""

    @property
    def cause(self) -> Location | None:
        """The statement to look at: the one that lets go on purpose, else the one that made it without a keeper."""
        return self.dropped if self.deliberate else self.made or self.dropped


def provenance(session: Session, storage: StorageState, use: Use, free: events.Free | None) -> Provenance:
    """The story of a storage that captured work uses."""
    name, stack = _name(session, storage, use)
    made = session.location(storage.record.stack) or (made_at(session, stack, name) if name else None)
    seen = free is not None and not free.noticed and free.stack
    dropped = session.location(free.stack) if free is not None and seen else None
    return Provenance(name, made, dropped, _lets_go(session, dropped, name))


def slot_name(session: Session, storage: StorageState, capture: CaptureState) -> tuple[str, int]:
    """The slot of a capture's region that held a storage, and the stack of its first access; empty for none."""
    for state in session.slots.values():
        if state.capture is capture and storage.id and state.record.storage == storage.id:
            return state.path, state.record.stack
    return "", 0


def _name(session: Session, storage: StorageState, use: Use) -> tuple[str, int]:
    found = slot_name(session, storage, use.capture)
    if found[0]:
        return found
    stack = use.activity.stack
    operand = _operand(session, use)
    return (owner(operand) if operand is not None else ""), stack


def _operand(session: Session, use: Use) -> ast.expr | None:
    """The expression that stands where the operator got the storage."""
    place = use.tensor.at.partition(".")[0] if use.tensor is not None else ""
    found = find_expression(session, session.location(use.activity.stack), _operates)
    node = found.node
    if isinstance(node, ast.BinOp):
        return {"0": node.left, "1": node.right}.get(place)
    if not isinstance(node, ast.Call) or not place.isdigit():
        return next((word.value for word in getattr(node, "keywords", ()) if word.arg == place), None)
    if called(node).rstrip("_") != use.activity.name.rpartition("::")[2].rstrip("_"):
        return None  # a module, or a function of several operators: its arguments are not the operator's
    function = node.func
    method = isinstance(function, ast.Attribute) and not dotted(function.value).startswith(("torch", "F", "nn"))
    operands = [function.value, *node.args] if method and isinstance(function, ast.Attribute) else node.args
    return operands[int(place)] if int(place) < len(operands) else None


def _operates(node: ast.expr) -> bool:
    return isinstance(node, (ast.BinOp, ast.Call))


# ── where it was made ────────────────────────────────────────────────────────────────────────────


def made_at(session: Session, stack: int, path: str) -> Location | None:
    """The statement that bound a name or attribute that is read on a stack; None where the text does not show it."""
    first = session.location(stack)
    frames = [first, *session.callers(stack)] if first is not None else []
    for _ in range(_LONGEST_CHAIN):
        if not frames or not path:
            return None
        if not path.isidentifier():
            return _attribute_made(session, frames[0], path)
        bound = _bound(session, frames[0], path)
        if bound is not None:
            return bound
        argument = _argument(session, frames, path)
        if argument is None:
            return _bound_anywhere(session, frames[0], path)
        if not dotted(argument):
            return frames[1]  # made on the spot, for the call alone
        path, frames = dotted(argument), frames[1:]
    return None


def _bound(session: Session, frame: Location, name: str) -> Location | None:
    """The last statement above a line that binds a name in its function, or in a scope around it."""
    source = source_of(session, frame)
    scope: ast.AST | None = _scope(source, frame.line)
    inner = True
    while scope is not None:
        if not isinstance(scope, ast.ClassDef):
            found = [s for s in _bindings(source, scope, name) if not inner or s.lineno < frame.line]
            if found:
                return _at(frame, found[-1])
            if _parameters(scope) & {name}:
                return None
        scope, inner = source.enclosing(scope, *SCOPES), False
    return None


def _bound_anywhere(session: Session, frame: Location, name: str) -> Location | None:
    """The one statement of a file that binds a name, where there is only one."""
    source = source_of(session, frame)
    scopes = [node for node in ast.walk(source.tree or ast.Module([], [])) if isinstance(node, SCOPES)]
    found = [statement for scope in scopes for statement in _bindings(source, scope, name)]
    return _at(frame, found[0]) if len(found) == 1 else None


def _bindings(source: SourceText, scope: ast.AST, name: str) -> list[ast.stmt]:
    """The assignments to a name that belong to a scope, in order; `name = None` says nothing."""
    found = [
        statement
        for statement in ast.walk(scope)
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.For, ast.With))
        and source.enclosing(statement, *SCOPES) is scope
        and _value(statement)
        and any(isinstance(n, ast.Name) and n.id == name for t in _targets(statement) for n in ast.walk(t))
    ]
    return sorted(found, key=lambda statement: statement.lineno)


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    if isinstance(statement, ast.With):
        return [item.optional_vars for item in statement.items if item.optional_vars is not None]
    return [statement.target] if isinstance(statement, (ast.AnnAssign, ast.For)) else []


def _value(statement: ast.stmt) -> bool:
    """Whether an assignment can give a tensor: not `None` or another constant."""
    value = getattr(statement, "value", statement)
    return value is not None and not isinstance(value, ast.Constant)


def _argument(session: Session, frames: list[Location], name: str) -> ast.expr | None:
    """What the caller handed over for a parameter."""
    scope = _scope(source_of(session, frames[0]), frames[0].line)
    if len(frames) < 2 or not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    positional = [a.arg for a in (*scope.args.posonlyargs, *scope.args.args)]
    if name not in {*positional, *(a.arg for a in scope.args.kwonlyargs)}:
        return None
    call = find_expression(session, frames[1], lambda n: isinstance(n, ast.Call)).node
    if not isinstance(call, ast.Call):
        return None
    by_name = next((word.value for word in call.keywords if word.arg == name), None)
    if by_name is not None or name not in positional:
        return by_name
    index = positional.index(name) - (positional[0] in {"self", "cls"})
    plain = not any(isinstance(a, ast.Starred) for a in call.args)
    return call.args[index] if plain and 0 <= index < len(call.args) else None


def _attribute_made(session: Session, frame: Location, path: str) -> Location | None:
    """The assignment to an attribute, in the class of the frame where that has one; of several the first."""
    source = source_of(session, frame)
    name = path.partition("[")[0].rpartition(".")[2]
    own = source.enclosing(_scope(source, frame.line) or ast.Pass(), ast.ClassDef)
    for tree in (own, source.tree):
        found = [
            s
            for s in ast.walk(tree or ast.Module([], []))
            if isinstance(s, (ast.Assign, ast.AnnAssign))
            and _value(s)
            and any(isinstance(t, ast.Attribute) and t.attr == name for t in _targets(s))
        ]
        if found:
            return _at(frame, min(found, key=lambda s: s.lineno))
    return _bound(session, frame, path.partition("[")[0]) if "." not in path else None


def _parameters(scope: ast.AST) -> frozenset[str]:
    arguments = getattr(scope, "args", None)
    if arguments is None:
        return frozenset()
    return frozenset(node.arg for node in ast.walk(arguments) if isinstance(node, ast.arg))


def _scope(source: SourceText, line: int) -> ast.AST | None:
    """The function, class or module that a line lies in."""
    statement = source.statement_at(line)
    return source.enclosing(statement, *SCOPES) if statement is not None else None


def _at(frame: Location, statement: ast.stmt) -> Location:
    return replace(
        frame, line=statement.lineno, end_line=None, column=None, end_column=None, function=None, code=None, note=None
    )


# ── what let go of it ────────────────────────────────────────────────────────────────────────────


def _lets_go(session: Session, dropped: Location | None, name: str) -> bool:
    """Whether a statement drops something by itself, and does not only end the scope that held it."""
    if dropped is None:
        return False
    source = source_of(session, dropped)
    statement = source.statement_at(dropped.line)
    if isinstance(statement, ast.Delete):
        return True
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return isinstance(statement.value, ast.Constant) or any(_holds(t, name) for t in _targets(statement))
    return isinstance(statement, ast.Expr) and any(called(node) in _LETS_GO for node in source.expressions(statement))


def _holds(target: ast.expr, name: str) -> bool:
    """Whether an assignment to a target takes the place of what a path leads to: `engine.head` for `engine.head.w`."""
    if isinstance(target, ast.Tuple):
        return any(_holds(part, name) for part in target.elts)
    path = owner(target)
    return bool(path) and (name == path or name.startswith((f"{path}.", f"{path}[")))


def keeping(graph: str, name: str) -> str:
    """A statement that keeps a local tensor with the graph: `self.bias = bias`; empty where there is no plain one."""
    holder = graph.rpartition(".")[0]
    if not name.isidentifier():
        return ""
    if holder:
        return f"{holder}.{name} = {name}"
    return f"{graph}.inputs = ({name},)" if graph.isidentifier() else ""


def related_places(session: Session, story: Provenance, use: Use) -> Iterator[Location]:
    """Where it was made, used and dropped, as related places."""
    if story.made is not None:
        yield story.made.with_note("made here")
    place = session.location(use.activity.stack)
    if place is not None:
        yield place.with_note("captured; uses it")
    if story.dropped is not None:
        yield story.dropped.with_note("its last reference ends here")
