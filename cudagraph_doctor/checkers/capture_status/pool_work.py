"""Work that a region hands to a thread pool, from its source text alone: where nobody saw what the threads did."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import STATUS_ACTIVE
from cudagraph_doctor.checkers.capture_status.thread_waits import waits_between
from cudagraph_doctor.checkers.code.expression import called, dotted
from cudagraph_doctor.checkers.code.memory_names import read_by, written_by
from cudagraph_doctor.checkers.code.text import source_of
from cudagraph_doctor.findings import Location
from cudagraph_doctor.session.memory import is_work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.checkers.code.text import SourceText
    from cudagraph_doctor.session.model import Activity, CaptureState, Session

_SWITCHES = frozenset({"stream", "StreamContext", "set_stream", "ExternalStream"})


@dataclass(frozen=True)
class PoolWork:
    """A statement that a pool's threads ran while the capturing thread waited, and the captured work that reads it."""

    place: Location
    """The statement in the function that the pool was given."""
    text: str
    wait: Location
    reader: Activity


def pool_work(session: Session, capture: CaptureState) -> Iterator[PoolWork]:
    """What `pool.map(work, …)` in the window wrote in place and a captured operator behind it reads.

    Held back where anything was seen of other threads in the window, where the function chooses a stream itself, and
    where the operator reads host memory: then the threads may well have prepared that.
    """
    if any(a.tid != capture.tid for a in capture.activities):
        return
    before = capture.begin.stack
    for reader in capture.activities:
        if not reader.stack or reader.kind != "op":
            continue
        if reader.on == STATUS_ACTIVE and is_work(reader) and _on_device(reader):
            yield from _before(session, before, reader)
        before = reader.stack


def _before(session: Session, before: int, reader: Activity) -> Iterator[PoolWork]:
    place = session.location(reader.stack)
    source = source_of(session, place)
    statement = source.statement_at(place.line) if place is not None else None
    if place is None or statement is None:
        return
    read = read_by(source, statement)
    for wait in waits_between(session, before, reader.stack):
        if wait.source is not source or wait.statement is statement:
            continue
        for function in _given(source, wait.statement):
            for work in _writes(source, function, read):
                yield PoolWork(
                    place=_at(place, source, work, function.name),
                    text=source.segment(work),
                    wait=_at(place, source, wait.statement, place.function),
                    reader=reader,
                )


def _given(source: SourceText, statement: ast.stmt) -> Iterator[ast.FunctionDef]:
    """The functions of this file that a statement hands to a pool's `map`."""
    for node in source.expressions(statement):
        if called(node) in {"map", "starmap", "imap"} and isinstance(node, ast.Call) and node.args:
            name = dotted(node.args[0]).rpartition(".")[2]
            found = [n for n in ast.walk(source.tree or ast.Module([], [])) if isinstance(n, ast.FunctionDef)]
            yield from [function for function in found if function.name == name][:1]


def _writes(source: SourceText, function: ast.FunctionDef, read: frozenset[str]) -> Iterator[ast.stmt]:
    """The first statement that writes memory which is read later; none where the function chooses its stream."""
    if any(called(node) in _SWITCHES for node in ast.walk(function)):
        return
    own = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    statements = [n for n in ast.walk(function) if isinstance(n, ast.stmt) and n is not function]
    for statement in sorted(statements, key=lambda n: n.lineno):
        if (written_by(source, statement) - own) & read:
            yield statement
            return


def _on_device(reader: Activity) -> bool:
    tensors = getattr(reader.record, "tensors", ())
    return bool(tensors) and all(tensor.dev.startswith("cuda") for tensor in tensors)


def _at(place: Location, source: SourceText, statement: ast.stmt, function: str | None) -> Location:
    code = source.lines[statement.lineno - 1].strip()
    return Location(place.file, statement.lineno, function=function, code=code, source=place.source)
