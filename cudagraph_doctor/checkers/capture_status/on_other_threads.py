"""Work that other threads did for a capture: the capturing thread waited for it, and captured work reads its result."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import STATUS_ACTIVE
from cudagraph_doctor.checkers.capture_status.thread_waits import waits_between
from cudagraph_doctor.checkers.capture_status.uncaptured import Tie, Uncaptured
from cudagraph_doctor.checkers.code.memory_names import assigned_by, read_by, written_by
from cudagraph_doctor.checkers.code.text import source_of
from cudagraph_doctor.session.memory import WindowMemory, is_work, touches

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from cudagraph_doctor.checkers.capture_status.thread_waits import ThreadWait
    from cudagraph_doctor.checkers.code.text import SourceText
    from cudagraph_doctor.session.model import Activity, CaptureState, Session

_FUNCTIONS = re.compile(r"^(?:torch\.(?!cuda\.|random\.|get_|set_|is_|_C\._cuda)|_?Tensor|triton)")


def work_of_other_threads(session: Session, capture: CaptureState) -> Iterator[Uncaptured]:
    """Work on other threads that the graph misses and needs, in order.

    A thread beside the capture may do what it likes. It is the capture's business only if the capturing thread waits
    inside the window, and a captured operator behind the wait reads what the other thread wrote or handed over.
    """
    loose = [a for a in capture.activities if _is_loose(capture, a)]
    memory = WindowMemory(capture) if any(touches(a) for a in loose) else None
    for activity in loose:
        reader = _reader(session, capture, activity, memory)
        if reader is not None:
            yield Uncaptured(activity, Tie.WAITED_FOR, reader)


def _is_loose(capture: CaptureState, activity: Activity) -> bool:
    """Work on another thread that nobody captures: a launch that the driver saw, or a function of torch."""
    via = getattr(activity.record, "via", 0)
    if capture.tid in {activity.tid, via} or activity.failed or activity.on == STATUS_ACTIVE or not activity.stack:
        return False
    if activity.kind == "pycall":
        return _FUNCTIONS.match(activity.name) is not None
    return is_work(activity) and not any(is_work(outer) for outer in activity.enclosing())


def _reader(
    session: Session, capture: CaptureState, activity: Activity, memory: WindowMemory | None
) -> Activity | None:
    """The captured operator that reads what this work wrote, behind a wait for it."""
    mine = [a for a in capture.activities if a.tid == capture.tid and a.stack and a.kind != "pycall"]
    before = next((a.stack for a in reversed(mine) if a.q < activity.q), capture.begin.stack)
    later = [a for a in mine if a.q > activity.q]
    end = capture.end.stack if capture.end is not None else 0
    waits = list(waits_between(session, before, later[0].stack if later else end))
    if not waits:
        return None
    touched = touches(activity)
    if touched and memory is not None and memory.reader(touched) is None:
        return None  # its parameters are known, and nothing captured reads what they point at
    written = _written(session, activity)
    for reader in later:
        if reader.on == STATUS_ACTIVE and is_work(reader) and _reads(session, reader, waits, written):
            return reader
    return None


def _statement(session: Session, stack: int) -> tuple[SourceText, ast.stmt | None]:
    place = session.location(stack)
    source = source_of(session, place)
    return source, source.statement_at(place.line) if place is not None else None


def _written(session: Session, activity: Activity) -> frozenset[str]:
    source, statement = _statement(session, activity.stack)
    return written_by(source, statement) if statement is not None else frozenset()


def _reads(session: Session, reader: Activity, waits: list[ThreadWait], written: frozenset[str]) -> bool:
    """Whether a captured operator's statement reads memory that was written there, or what a wait handed over."""
    source, statement = _statement(session, reader.stack)
    if statement is None:
        return False
    names = read_by(source, statement)
    if any(wait.statement is statement for wait in waits):
        return True
    handed = frozenset[str]().union(*(assigned_by(wait.statement) for wait in waits))
    return bool(names & (written | handed))
