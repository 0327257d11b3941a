"""Whether work whose memory nobody read is tied to captured work by the names in the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor._wire import ROLE_USER, STATUS_ACTIVE
from cudagraph_doctor.checkers.code.memory_names import operands_of
from cudagraph_doctor.checkers.code.text import parsed
from cudagraph_doctor.session.memory import is_work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.session.model import Activity, CaptureState, Session


def shares_names(session: Session, capture: CaptureState, work: Activity) -> bool:
    """Whether a line that led to this work and a line of captured work speak of the same variable.

    Lines that both stand on (the call of the whole region) say nothing.
    """
    mine = set(_lines(session, work.stack))
    others: set[tuple[int, int]] = set()
    for activity in capture.activities:
        if activity is not work and activity.on == STATUS_ACTIVE and is_work(activity):
            others.update(_lines(session, activity.stack))
    both = mine & others
    return not _names(session, mine - both).isdisjoint(_names(session, others - both))


def _lines(session: Session, stack: int) -> Iterator[tuple[int, int]]:
    """(source, line) of the user's frames of a stack."""
    record = session.stacks.get(stack)
    for source, line, *_ in record.frames if record is not None else ():
        if source in session.sources and session.sources[source].role == ROLE_USER:
            yield source, line


def _names(session: Session, lines: set[tuple[int, int]]) -> set[str]:
    found: set[str] = set()
    for source, line in lines:
        text = session.text(source)
        parts = parsed(text) if text is not None else None
        statement = parts.statement_at(line) if parts is not None else None
        if parts is not None and statement is not None:
            found |= operands_of(parts, statement)
    return found
