"""What captured regions return, and who still refers to it when a replay is about to overwrite it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from cudagraph_doctor.session.captures import Captures
    from cudagraph_doctor.session.model import CaptureState, Session
    from cudagraph_doctor.trace import events


class OutputState(Struct, eq=False):
    """A tensor made in a capture window that something outside refers to."""

    record: events.Output
    capture: CaptureState | None = None
    held: list[events.Held] = field(default_factory=list)
    """Looks before a replay that found it held beyond what the capture left, oldest first."""


class Outputs:
    """Takes the records of outputs into the session."""

    def __init__(self, session: Session, captures: Captures) -> None:
        self._session = session
        self._captures = captures

    def output(self, record: events.Output) -> None:
        """A tensor that outlives its window."""
        self._session.outputs[record.id] = OutputState(record, self._captures.get(record.cap))

    def held(self, record: events.Held) -> None:
        """Somebody keeps it across a replay."""
        state = self._session.outputs.get(record.output)
        if state is not None:
            state.held.append(record)
