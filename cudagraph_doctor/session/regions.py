"""Which captures are of the same region of the program: a failed one may have been tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import Session


def link_retries(session: Session) -> None:
    """Gives each failed or abandoned capture the first later one of its region that completed.

    The region is named by the line at which the capture began; failing that, by its function.
    """
    places = {id(state): session.location(state.begin.stack) for state in session.captures}
    completed = [state for state in session.captures if state.status == "completed"]
    for state in session.captures:
        place = places[id(state)]
        if state.status not in ("failed", "abandoned") or place is None:
            continue
        later = [(c, places[id(c)]) for c in completed if c.first_q > state.first_q]
        state.retry = next((c for c, at in later if _same_line(place, at)), None) or next(
            (c for c, at in later if _same_function(place, at)), None
        )


def _same_line(one: Location, other: Location | None) -> bool:
    return other is not None and (one.file, one.line) == (other.file, other.line)


def _same_function(one: Location, other: Location | None) -> bool:
    if other is None or one.function in (None, "<module>"):
        return False
    return (one.file, one.function) == (other.file, other.function)
