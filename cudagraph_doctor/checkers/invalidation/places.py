"""The most telling of the stacks that point at one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import Activity, Session


def telling_stack(session: Session, activity: Activity) -> int:
    """The stack of an activity, or of what it ran inside of, where that one also tells the columns of the same line.

    Stacks that the driver's records carry were taken without Python's lock and have no columns; those of operators and
    calls around them have. 0: no stack is known.
    """
    around = (activity, *activity.enclosing())
    first = next((a.stack for a in around if a.stack), 0)
    place = session.location(first)
    if place is None or place.column is not None:
        return first
    for other in around:
        found = session.location(other.stack)
        if found is not None and found.column is not None and _same_line(found, place):
            return other.stack
    return first


def _same_line(one: Location, other: Location) -> bool:
    return (one.file, one.line) == (other.file, other.line)
