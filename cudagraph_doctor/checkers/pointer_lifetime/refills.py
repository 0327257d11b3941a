"""Host memory behind a captured copy that was written while a replay which reads it was not known to be done."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import ROLE_USER
from cudagraph_doctor.checkers.code.memory_names import written_by
from cudagraph_doctor.checkers.code.text import parsed
from cudagraph_doctor.checkers.pointer_lifetime.provenance import slot_name
from cudagraph_doctor.checkers.pointer_lifetime.unordered import LAUNCHES
from cudagraph_doctor.session.frames import place, role
from cudagraph_doctor.session.uses import Use, first_use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import CaptureState, Session
    from cudagraph_doctor.session.storages import StorageState


@dataclass(frozen=True)
class Refill:
    """One write too early."""

    capture: CaptureState
    name: str
    use: Use | None
    written: Location | None
    """The statement that writes; None: not known."""
    replay_stack: int
    """Stack of the replay before which it was noticed."""
    evidence: tuple[int, ...]
    noticed: Location | None = None

    @property
    def place(self) -> Location | None:
        """The line to name."""
        return self.written or self.noticed


def refills(session: Session) -> Iterator[Refill]:
    """Every early write that a look before a replay noticed, then those that only the simulated device saw."""
    told: set[int] = set()
    for storage in session.storages.values():
        for record in storage.rewrites:
            capture = session.exec_captures.get(record.exec)
            if record.what == "written" and record.pending and capture is not None:
                told.add(storage.start)
                seen = session.location(record.stack) if not record.noticed else None
                yield _refill(session, storage, capture, record.stack, record.q, seen)
    for race in session.races:
        source = next((s for s in session.storages.values() if s.on_host and s.record.ptr == race.ptr), None)
        if not race.first_name.startswith(LAUNCHES) or source is None or source.start in told:
            continue
        if race.what.startswith("host wrote") and source.capture is not None:
            yield _refill(session, source, source.capture, race.first_stack, race.q, None)


def _refill(
    session: Session, storage: StorageState, capture: CaptureState, stack: int, q: int, seen: Location | None
) -> Refill:
    name, _ = slot_name(session, storage, capture)
    written = seen or (_written(session, name, session.location(stack)) if name else None)
    use = first_use(session, storage, capture)
    return Refill(capture, name, use, written, stack, (storage.record.q, q), session.location(stack))


def _written(session: Session, name: str, replay: Location | None) -> Location | None:
    """The statement that writes in place what a path names; of several the nearest above the replay."""
    best: tuple[tuple[int, int], Location] | None = None
    for number, known in session.sources.items():
        text = session.text(number) if known.text and role(session, number) == ROLE_USER else None
        source = parsed(text) if text is not None else None
        for node in ast.walk(source.tree) if source is not None and source.tree is not None else ():
            if not isinstance(node, ast.stmt) or source is None or not _names(written_by(source, node), name):
                continue
            same = replay is not None and replay.source == number
            distance = replay.line - node.lineno if same and replay is not None else 1
            rank = (0 if same and distance > 0 else 1, abs(distance))
            if best is None or rank < best[0]:
                best = rank, replace(place(session, (number, node.lineno, "", None, None, None)), function=None)
    return best[1] if best is not None else None


def _names(written: frozenset[str], path: str) -> bool:
    """Whether one of the names that a statement writes is that path, or its attribute on another object."""
    last = path.rpartition(".")[2]
    return any(name == path or ("." in path and name.rpartition(".")[2] == last) for name in written)
