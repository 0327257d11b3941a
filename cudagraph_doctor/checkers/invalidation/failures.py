"""The failed captures of a process, each cause once, with everything that failed because of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.invalidation.classify import cause_of
from cudagraph_doctor.checkers.invalidation.consequences import consequences_of, is_echo
from cudagraph_doctor.checkers.invalidation.obstacles import obstacles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.findings import Consequence
    from cudagraph_doctor.session.model import CaptureState, Session


@dataclass
class Failure:
    """One cause and the captures that it broke, the first of them first."""

    cause: Cause
    captures: list[CaptureState]
    echoes: list[CaptureState] = field(default_factory=list)
    """Later captures that failed only because of what this failure left behind."""

    @property
    def capture(self) -> CaptureState:
        """The capture that the finding is about."""
        return self.captures[0]

    @property
    def harmless(self) -> bool:
        """Every attempt was given up for a later, good capture of its region, and its graph never replayed."""
        return all(c.retry is not None and not c.replays and not c.failed_replays for c in self.captures)

    def consequences(self, session: Session) -> tuple[Consequence, ...]:
        """What failed because of it, in order, each once."""
        return consequences_of(session, self.cause, [*self.captures, *self.echoes])


def failures(session: Session) -> list[Failure]:
    """Every failure of a process: one a capture, unless the run kept going.

    One call that broke two captures is one; so is one line that broke several.
    """
    found: list[Failure] = []
    for capture in session.captures:
        causes: Sequence[Cause | None] = obstacles(session, capture) or [cause_of(session, capture)]
        if not any(causes) and found and capture.status != "completed" and is_echo(capture):
            found[-1].echoes.append(capture)
        for cause in causes:
            if cause is not None:
                _add(session, found, capture, cause)
    return found


def _add(session: Session, found: list[Failure], capture: CaptureState, cause: Cause) -> None:
    """A failure of its own, or one more capture of a failure that is there already."""
    same = next((f for f in found if _same(session, f.cause, cause) or _passed_through(f, capture, cause)), None)
    if same is None:
        found.append(Failure(cause, [capture]))
    elif same.cause.line(session) is None and cause.line(session) is not None:
        same.cause = cause
        same.captures.insert(0, capture)
    elif capture not in same.captures:
        same.captures.append(capture)


def _same(session: Session, one: Cause, other: Cause) -> bool:
    if one.key == other.key:
        return True
    if (one.rule, one.trigger) != (other.rule, other.trigger):
        return False
    places = one.line(session), other.line(session)
    if places[0] is None or places[1] is None:
        return False
    return (places[0].file, places[0].line) == (places[1].file, places[1].line)


def _passed_through(failure: Failure, capture: CaptureState, cause: Cause) -> bool:
    """Whether one exception left two captures that lie in each other."""
    one, other = failure.cause.exc, cause.exc
    if one is None or other is None or (one.type, one.message) != (other.type, other.message):
        return False
    return any(c.first_q < capture.first_q <= c.last_q for c in failure.captures)
