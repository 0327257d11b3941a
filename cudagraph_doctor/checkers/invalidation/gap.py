"""What ran between two looks of the capturing thread: the statement to blame, from the source text alone."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called
from cudagraph_doctor.checkers.code.text import source_of
from cudagraph_doctor.checkers.invalidation.hints import hint_of, hint_of_line
from cudagraph_doctor.session.apis import Family

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.code.text import SourceText
    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import CaptureState, Change, Session

# What a call is named in Python that ends in a CUDA call of the family.
_NAMES = {
    Family.ALLOC: r"(?i)alloc|empty|resize|grow",
    Family.ASYNC_ALLOC: r"(?i)alloc",
    Family.HOST_ALLOC: r"(?i)pin|alloc",
    Family.FREE: r"(?i)free|release|close|del",
    Family.SYNC: r"(?i)sync|wait|get|item|numpy|asnumpy|print",
    Family.EVENT_SYNC: r"(?i)sync|wait",
    Family.QUERY: r"(?i)query|done|ready",
    Family.EVENT_QUERY: r"(?i)query|done|ready",
    Family.MODULE_UNLOAD: r"(?i)unload|del|close",
    Family.MODULE_LOAD: r"(?i)load|compile|kernel",
    Family.GRAPH_LAUNCH: r"(?i)launch|replay",
}


def line_between(session: Session, capture: CaptureState, change: Change, family: Family) -> Location | None:
    """The line of the one statement between two looks that can have made the call; None where there is no one line.

    Looked for in the function of the last look, after its line and not after the line of the next one. A statement that
    calls something named like the refused call goes before others.
    """
    before, after = change.between
    first = session.location(before.stack if before is not None else capture.begin.stack)
    end = capture.end.stack if capture.end is not None else 0
    last = session.location(after.stack if after is not None else end)
    source = source_of(session, first)
    if first is None or source.tree is None:
        return None
    same = last is not None and (last.file, last.function) == (first.file, first.function) and last.line > first.line
    found = _calls_after(source, first, last.line if same and last is not None else None)
    wanted = _NAMES.get(family)
    if wanted is not None:
        named = [n for n in found if re.search(wanted, called(n))]
    else:
        named = [n for n in found if hint_of(ast.walk(n)) is not None]
    chosen = named or found
    lines = {node.lineno for node in chosen}
    if not chosen or (len(lines) > 1 and not named):
        return None
    node = chosen[0]
    return replace(
        first,
        line=node.lineno,
        end_line=node.end_lineno,
        column=node.col_offset,
        end_column=node.end_col_offset,
        code=source.lines[node.lineno - 1].strip(),
        note=None,
    )


def _calls_after(source: SourceText, first: Location, last: int | None) -> list[ast.Call]:
    """The calls of the same function that stand behind a line, up to another one, in order."""
    here = source.statement_at(first.line)
    scope = source.enclosing(here, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module) if here is not None else None
    limit = last if last is not None else getattr(scope, "end_lineno", None) or len(source.lines)
    if isinstance(here, (ast.With, ast.AsyncWith)):  # the capture's own block: what runs in it
        limit = min(limit, here.end_lineno or limit)
    block_end = (
        max((s.end_lineno or s.lineno for s in source.block_of(here)), default=limit) if here is not None else limit
    )
    calls = [
        node
        for node in ast.walk(scope or ast.Module([], []))
        if isinstance(node, ast.Call) and first.line < node.lineno <= min(limit, block_end)
    ]
    outermost = [c for c in calls if not any(c is not o and c in ast.walk(o) for o in calls)]
    return sorted(outermost, key=lambda n: (n.lineno, n.col_offset))


def is_suspect(session: Session, place: Location | None) -> bool:
    """Whether a line does something that a capture refuses, as far as its text tells."""
    return hint_of_line(session, place) is not None


def suspect_thread(session: Session, change: Change) -> tuple[int, int, Location] | None:
    """(thread, stack, line) of the one other thread whose function does something that a capture refuses.

    Where the thread was when the change was noticed is later than where it was then: the line is looked for in the
    function in which it was.
    """
    found = []
    for tid, stack in change.record.threads:
        place = session.location(stack)
        source = source_of(session, place)
        here = source.statement_at(place.line) if place is not None else None
        scope = source.enclosing(here, ast.FunctionDef, ast.AsyncFunctionDef) if here is not None else None
        for statement in ast.walk(scope) if scope is not None else ():
            if isinstance(statement, ast.stmt) and statement is not scope and place is not None:
                if hint_of(source.expressions(statement)) is None:
                    continue
                code = source.lines[statement.lineno - 1].strip()
                line = replace(place, line=statement.lineno, end_line=None, column=None, end_column=None, code=code)
                found.append((tid, stack, line))
                break
    return found[0] if len(found) == 1 else None
