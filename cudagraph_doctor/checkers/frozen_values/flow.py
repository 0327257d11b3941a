"""Follows a value from where a region read it to where it reached the graph.

The way goes up through expressions, over assignments to later reads of the same name, into the functions it is handed
to and back out of those that return it. Whether a call launches is not guessed: the operators of the window carry their
stacks, and with them the expressions that led to them.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import ROLE_LIBRARY
from cudagraph_doctor.checkers.code.bookkeeping import SCOPES
from cudagraph_doctor.checkers.code.expression import called
from cudagraph_doctor.checkers.code.syntax import (
    argument_of,
    asks_for_length,
    expression,
    function_at,
    in_one_loop,
    is_index,
    loads_of,
    parameter_of,
    same_place,
    subscript_around,
)
from cudagraph_doctor.checkers.frozen_values import branches, calls
from cudagraph_doctor.checkers.frozen_values.uses import Role, Use
from cudagraph_doctor.checkers.frozen_values.values import LENGTH
from cudagraph_doctor.session.frames import role as role_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cudagraph_doctor.checkers.code.text import SourceText
    from cudagraph_doctor.checkers.frozen_values.window_work import Launched, WindowWork
    from cudagraph_doctor.session.slots import SlotState
    from cudagraph_doctor.trace.events import Frame

_KEY = re.compile(r"""\[["'](\w+)["']\]$""")
_STEPS = 400
"""Expressions looked at for one read."""
_DEEPEST = 8
"""Assignments, calls and returns on one way."""


@dataclass(frozen=True)
class _Way:
    """Where a value is, and how it came there."""

    source: int
    node: ast.AST
    path: tuple[tuple[int, ast.AST], ...]
    callers: tuple[Frame, ...]
    """The frames above the function it is in, innermost first, where they are known."""
    plain: bool = True
    """It is still the very value that was read."""
    carried: bool = True
    """It was at the last expression of the path."""


class Flow:
    """The uses of what one slot held."""

    def __init__(self, work: WindowWork, state: SlotState) -> None:
        self._work = work
        self._state = state
        self._is_length = LENGTH.fullmatch(state.record.value) is not None
        self._seen: set[tuple[int, int]] = set()
        self._steps = 0

    def uses(self) -> Iterator[Use]:
        """Every place where the value reached the graph, in the order of the reads."""
        for frame in self._state.record.reads:
            node = self._node_at(frame)
            if node is not None:
                yield from self._follow(_Way(frame[0], node, ((frame[0], node),), self._above(frame)))

    # ── one step up ──────────────────────────────────────────────────────────────────────────
    def _follow(self, way: _Way) -> Iterator[Use]:
        key = (way.source, id(way.node))
        self._steps += 1
        if key in self._seen or self._steps > _STEPS or len(way.path) > _DEEPEST:
            return
        self._seen.add(key)
        node, source = way.node, self._work.source(way.source)
        above = source.parents.get(node)
        if above is None:
            return
        if isinstance(above, ast.expr):
            yield from self._expression(way, source, above)
        elif isinstance(above, ast.keyword):
            call = source.parents.get(above)
            if isinstance(call, ast.Call):
                yield from self._argument(way, source, call, above.arg or self._key())
        elif isinstance(above, ast.comprehension):
            yield from self._comprehension(way, source, above)
        elif isinstance(above, ast.match_case):
            match = source.parents.get(above)
            if node is above.guard and isinstance(match, ast.Match):
                found = branches.match(self._work, way.source, match, expression(node), way.path)
                yield from _carried(found, replace(way, carried=False))
        elif isinstance(above, ast.withitem):
            return
        else:
            yield from self._statement(way, source, above)

    def _expression(self, way: _Way, source: SourceText, above: ast.expr) -> Iterator[Use]:
        node = way.node
        if self._is_length and way.plain and not asks_for_length(above, node):
            return
        if isinstance(above, ast.Call):
            if node is not above.func:
                yield from self._argument(way, source, above, None)
            elif not self._state.record.value and not self._state.is_tensor:
                launched = self._work.at(way.source, above)
                if launched and way.plain:  # the function itself: another one would launch other work
                    yield self._use(Role.BRANCH, way, above, launched)
            elif isinstance(node, ast.Subscript):
                yield from self._up(way, above, plain=False)  # `kernel[grid](...)`, or an element that is called
            return
        if isinstance(above, ast.Slice) or (isinstance(above, ast.Tuple) and is_index(source, above)):
            subscript = subscript_around(source, above)
            bound = isinstance(above, ast.Slice) and not _moves(above, node)
            if subscript is not None:
                yield from self._indexed(way, subscript, Role.EXTENT if bound else Role.OPERAND)
            return
        if isinstance(above, ast.Subscript):
            if node is above.slice:
                yield from self._indexed(way, above, Role.OPERAND)
            else:
                yield from self._up(way, above, plain=False)
            return
        if isinstance(above, ast.IfExp) and node is above.test:
            yield from _carried(branches.choice(self._work, way.source, above, expression(node), way.path), way)
            return
        if isinstance(above, ast.Attribute):
            call = source.parents.get(above)
            if isinstance(call, ast.Call) and call.func is above:
                yield from self._method(way, call)
            else:
                yield from self._up(way, above, plain=False)
            return
        if isinstance(above, (ast.BinOp, ast.Compare, ast.UnaryOp)):
            launched = self._work.at(way.source, above)
            if launched:
                yield self._use(Role.OPERAND, way, above, launched)
                return
        plain = way.plain and isinstance(above, (ast.Tuple, ast.List, ast.Starred, ast.IfExp, ast.NamedExpr))
        yield from self._up(way, above, plain=plain)
        if isinstance(above, ast.NamedExpr):
            yield from self._stored(way, source, above.target)

    def _up(self, way: _Way, node: ast.AST, *, plain: bool) -> Iterator[Use]:
        yield from self._follow(replace(way, node=node, plain=plain and way.plain))

    # ── subscripts and calls ─────────────────────────────────────────────────────────────────
    def _indexed(self, way: _Way, subscript: ast.Subscript, role: Role) -> Iterator[Use]:
        launched = self._work.at(way.source, subscript) or self._stored_at(way.source, subscript)
        source = self._work.source(way.source)
        above = source.parents.get(subscript)
        if launched:
            yield self._use(role, way, subscript, launched)
        elif isinstance(above, ast.Call) and above.func is subscript:  # `kernel[grid](x, n)`
            yield self._use(Role.EXTENT, way, above, self._work.at(way.source, above))
        else:
            yield from self._up(way, subscript, plain=False)

    def _stored_at(self, source: int, subscript: ast.Subscript) -> list[Launched]:
        """Work of `cache[pos] = k` and `cache[pos] += k`: Python may give it the position of the whole statement."""
        above = self._work.source(source).parents.get(subscript)
        stored = isinstance(above, ast.AugAssign) or (isinstance(above, ast.Assign) and subscript in above.targets)
        return self._work.at(source, above) if stored and above is not None else []

    def _method(self, way: _Way, call: ast.Call) -> Iterator[Use]:
        """A method of the value itself: `mode.lower()`, `temperature.item()`, `items.keys()`."""
        launched = self._work.at(way.source, call)
        if launched and self._state.is_tensor:
            yield self._use(Role.OPERAND, way, call, launched)
        elif not calls.tells(call):
            yield from self._up(way, call, plain=way.plain and called(call) == "item")

    def _argument(self, way: _Way, source: SourceText, call: ast.Call, keyword: str | None) -> Iterator[Use]:
        if calls.tells(call) or calls.is_profiler_range(call):
            return
        launched = self._work.at(way.source, call)
        if calls.is_loop_range(call) or (called(call) in calls.PURE and not launched):
            yield from self._up(way, call, plain=way.plain and called(call) in {"int", "float", "tuple"})
            return
        direct = [one for one in launched if self._is_direct(one)]
        if direct:
            is_size = calls.is_size(call, expression(argument_of(source, call, way.node)))
            role = Role.EXTENT if is_size else Role.OPERAND
            yield self._use(role, way, call, direct)
        entered: set[tuple[int, str]] = set()
        for one in launched:
            yield from self._enter(way, call, keyword, one, entered)
        if not launched:
            yield from self._unseen_call(way, call)

    def _unseen_call(self, way: _Way, call: ast.Call) -> Iterator[Use]:
        """A call that launched nothing: what it returns may depend on the value. A kernel's launch may be unseen."""
        if isinstance(call.func, ast.Subscript):
            yield self._use(Role.OPERAND, way, call, [])
            return
        yield from self._up(way, call, plain=False)

    def _is_direct(self, one: Launched) -> bool:
        """Whether nobody's code but torch's stands between the expression and the work."""
        frames = self._work.frames(one.activity)[: one.depth]
        return all(role_of(self._work.session, frame[0]) == ROLE_LIBRARY for frame in frames)

    def _enter(
        self, way: _Way, call: ast.Call, keyword: str | None, one: Launched, entered: set[tuple[int, str]]
    ) -> Iterator[Use]:
        """Goes on in the function that the call runs, at the reads of the parameter that takes the value."""
        frames = self._work.frames(one.activity)
        inner = next(
            (
                index
                for index in range(one.depth - 1, -1, -1)
                if role_of(self._work.session, frames[index][0]) != ROLE_LIBRARY
            ),
            None,
        )
        if inner is None:
            return
        number, line, name = frames[inner][:3]
        if (number, name) in entered:
            return
        entered.add((number, name))
        source = self._work.source(number)
        function = function_at(source, line, name)
        parameter = parameter_of(function, call, way.node, keyword) if function is not None else None
        if function is None or parameter is None:
            return
        for node in loads_of(function, parameter):
            path = (*way.path, (number, node))
            yield from self._follow(_Way(number, node, path, frames[inner + 1 :], way.plain, way.plain))

    # ── statements ───────────────────────────────────────────────────────────────────────────
    def _statement(self, way: _Way, source: SourceText, above: ast.AST) -> Iterator[Use]:
        node = way.node
        if isinstance(above, (ast.If, ast.While, ast.Assert)) and node is above.test:
            yield from _carried(branches.test(self._work, way.source, above, expression(node), way.path), way)
        elif isinstance(above, (ast.For, ast.AsyncFor)) and node is above.iter:
            launched = self._work.within(way.source, above.body)
            if launched:
                yield self._use(Role.EXTENT, way, above, launched)
            yield from self._stored(replace(way, plain=False), source, above.target)
        elif isinstance(above, ast.Match) and node is above.subject:
            yield from _carried(branches.match(self._work, way.source, above, expression(node), way.path), way)
        elif isinstance(above, (ast.Assign, ast.AnnAssign)) and node is above.value:
            for target in above.targets if isinstance(above, ast.Assign) else [above.target]:
                yield from self._stored(way, source, target)
        elif isinstance(above, ast.AugAssign) and node is above.value:
            launched = self._work.at(way.source, above)
            if launched:
                yield self._use(Role.OPERAND, way, above, launched)
            else:
                yield from self._stored(replace(way, plain=False), source, above.target)
        elif isinstance(above, ast.Return):
            yield from self._returned(way)

    def _comprehension(self, way: _Way, source: SourceText, above: ast.comprehension) -> Iterator[Use]:
        whole = source.parents.get(above)
        launched = self._work.at(way.source, whole) if whole is not None else []
        inside = launched or (self._inside(way.source, whole) if whole is not None else [])
        if inside and isinstance(whole, ast.expr):
            role = Role.EXTENT if way.node is above.iter else Role.BRANCH
            yield self._use(role, way, whole, inside)
        elif isinstance(whole, ast.expr):
            yield from self._up(way, whole, plain=False)

    def _inside(self, source: int, whole: ast.AST) -> list[Launched]:
        return [one for part in ast.walk(whole) if isinstance(part, ast.expr) for one in self._work.at(source, part)]

    def _stored(self, way: _Way, source: SourceText, target: ast.AST) -> Iterator[Use]:
        """Goes on at what reads the name or slot that the value was stored in."""
        if isinstance(target, ast.Name):
            scope = source.enclosing(target, *SCOPES, ast.Lambda)
            for node in loads_of(scope, target.id) if scope is not None else ():
                if (node.lineno, node.col_offset) > (target.lineno, target.col_offset) or in_one_loop(source, target):
                    yield from self._follow(self._hop(way, node))
            return
        if isinstance(target, (ast.Tuple, ast.List)):
            value = way.node
            for position, item in enumerate(target.elts):
                if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                    start = way.path[-1][1]
                    if all(start is not part for part in ast.walk(value.elts[position])):
                        continue
                yield from self._stored(way, source, item)
            return
        if isinstance(target, ast.Subscript) and self._work.at(way.source, target):
            yield self._use(Role.OPERAND, way, target, self._work.at(way.source, target))
            return
        for other in self._work.session.slots.values():
            if other is self._state or other.capture is not self._state.capture:
                continue
            if any(frame[0] == way.source and same_place(frame, target) for frame in other.record.writes):
                for frame in other.record.reads:
                    yield from self._arrive(way, frame, self._above(frame))

    def _returned(self, way: _Way) -> Iterator[Use]:
        """Goes on at the call that gets the value back."""
        for index, frame in enumerate(way.callers):
            if role_of(self._work.session, frame[0]) == ROLE_LIBRARY:
                continue
            yield from self._arrive(way, frame, way.callers[index + 1 :])
            return

    def _arrive(self, way: _Way, frame: Frame, callers: tuple[Frame, ...]) -> Iterator[Use]:
        """Goes on at a recorded place."""
        node = self._node_at(frame)
        if node is not None:
            path = (*way.path, (frame[0], node))
            yield from self._follow(_Way(frame[0], node, path, callers, way.plain, way.plain))

    # ── places ───────────────────────────────────────────────────────────────────────────────
    def _hop(self, way: _Way, node: ast.AST) -> _Way:
        """The same value at a later read of the name that it was given."""
        return replace(way, node=node, path=(*way.path, (way.source, node)), carried=way.plain)

    def _use(self, role: Role, way: _Way, node: ast.AST, launched: list[Launched]) -> Use:
        work = tuple(dict.fromkeys(one.activity for one in launched))
        statement = self._work.source(way.source).enclosing(node, ast.stmt)
        return Use(
            role=role,
            source=way.source,
            node=node,
            value=expression(way.node),
            work=work,
            plain=way.plain,
            carried=way.carried,
            path=way.path,
            statement=statement if isinstance(statement, ast.stmt) else None,
        )

    def _node_at(self, frame: Frame) -> ast.expr | None:
        number, line, _, end_line, column, end_column = frame
        source = self._work.source(number)
        if source.tree is None or column is None:
            return None
        return source.expression_at(line, column, end_line, end_column)

    def _key(self) -> str | None:
        """`scale` of the slot `options["scale"]`: the parameter that it is handed to by `f(**options)`."""
        found = _KEY.search(self._state.path)
        return found.group(1) if found is not None else None

    def _above(self, frame: Frame) -> tuple[Frame, ...]:
        """The frames above a read, from the stack of the first access, where the read is on it."""
        record = self._work.session.stacks.get(self._state.record.stack)
        frames = record.frames if record is not None else ()
        for index, other in enumerate(frames):
            if (other[0], other[2]) == (frame[0], frame[2]):
                return frames[index + 1 :]
        return ()


def _carried(uses: Iterable[Use], way: _Way) -> Iterator[Use]:
    """Uses as tests, which know nothing of the way."""
    return (replace(use, plain=way.plain, carried=way.carried) for use in uses)


def _moves(bounds: ast.Slice, node: ast.AST) -> bool:
    """Whether both bounds of a slice follow the value (`rows[pos : pos + 1]`): it is a place then, not a length."""
    if bounds.lower is None or bounds.upper is None:
        return False
    text = [
        {ast.unparse(n) for n in ast.walk(part) if isinstance(n, (ast.Name, ast.Attribute))}
        for part in (bounds.lower, bounds.upper)
    ]
    read = {ast.unparse(n) for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute))}
    return bool(text[0] & text[1] & read)
