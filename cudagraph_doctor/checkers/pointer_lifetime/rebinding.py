"""Tensors that a region read through a name, an attribute or an element which holds another tensor at a later replay.

This is the judgement of CGD402 to CGD404. A slot that moved on is a fault only if the graph works on the old memory and
nobody brings the new values there: not where the captured tensor is still written by the program, where another graph
fills it, or where one graph was captured for each tensor that the slot held.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.stores import UNKNOWN_STORE, Store, store_of
from cudagraph_doctor.checkers.pointer_lifetime.window_use import WindowUse
from cudagraph_doctor.session.slots import kin, moved

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Activity, CaptureState, Session
    from cudagraph_doctor.session.slots import SlotState
    from cudagraph_doctor.trace import events


class Kind(enum.Enum):
    """What the slot was to the graph, in the order in which the rules go before each other."""

    WEIGHT = "weight"
    """A parameter or a registered buffer, or the module that has it."""
    STATE = "state"
    """Memory that the graph writes."""
    INPUT = "input"


@dataclass
class Rebinding:
    """A slot that holds another tensor than the graph works on."""

    kind: Kind
    state: SlotState
    change: events.SlotChange
    use: Activity | None
    """Captured work on the old memory."""
    store: Store = UNKNOWN_STORE
    """Where the slot was bound anew."""
    others: list[SlotState] = field(default_factory=list)
    """Further slots that the same store changed, and the same slot in further graphs."""

    @property
    def paths(self) -> list[str]:
        """The slots, each once."""
        return list(dict.fromkeys(state.path for state in (self.state, *self.others)))

    @property
    def graphs(self) -> int:
        """How many graphs work on the old memory."""
        return len({state.record.cap for state in (self.state, *self.others)})


def rebindings(session: Session) -> list[Rebinding]:
    """The rebound slots of a process, those of one store together, in the order in which they were found."""
    groups: defaultdict[object, list[Rebinding]] = defaultdict(list)
    windows = WindowUse(session)
    stores: dict[object, Store] = {}
    for state in session.slots.values():
        capture = state.capture
        if capture is None or not state.changes or not capture.replays or capture.status != "completed":
            continue
        found = _judge(session, windows, state, capture)
        if found is not None:
            found.store = _store(session, found, stores)
            groups[_group(found)].append(found)
    merged = []
    for group in groups.values():
        first = group[0]
        seen = {(first.state.path, first.state.record.cap)}
        for other in group[1:]:
            if (other.state.path, other.state.record.cap) not in seen:
                seen.add((other.state.path, other.state.record.cap))
                first.others.append(other.state)
        merged.append(first)
    return _one_for_each_storage(merged)


def _judge(session: Session, windows: WindowUse, state: SlotState, capture: CaptureState) -> Rebinding | None:
    record = state.record
    if record.role == "module" and not record.ptr:
        change = next((change for change in state.changes if not change.ptr and not change.value), None)
        return Rebinding(Kind.WEIGHT, state, change, None) if change is not None and state.is_input else None
    if not record.ptr or not record.read or (record.first == "write" and not any(c.given for c in state.changes)):
        return None
    change = next((change for change in state.changes if _counts(session, state, change)), None)
    if change is None:
        return None
    known = session.storages.get(record.storage)
    if known is not None and known.record.inside and known.record.cap == capture.id:
        return None  # the graph's own memory
    use = windows.user(capture, record)
    if use is None:
        return None  # only its shape or its being there was asked for
    if record.role in {"parameter", "buffer"} or record.type.endswith("Parameter"):
        return Rebinding(Kind.WEIGHT, state, change, use)
    writer = windows.writer(capture, record)
    if writer is not None:
        return Rebinding(Kind.STATE, state, change, writer)
    if windows.another_writes(capture, record):
        return None  # another graph fills it
    return Rebinding(Kind.INPUT, state, change, use)


def _counts(session: Session, state: SlotState, change: events.SlotChange) -> bool:
    """Whether a look found the graph's tensor left alone and another one in its place."""
    if change.refreshed and not _gone(session, state):
        return False
    if not (change.given or moved(state, change)):
        return False
    if _is_key(state) and (_of_the_family(state, change) or state.record.kind in {"global", "local"}):
        return False
    return change.refreshed is not None or not _written_since_capture(session, state, change)


def _gone(session: Session, state: SlotState) -> bool:
    """Whether the captured memory was freed, or its tensor moved away: a version that moved is then not of it."""
    known = session.storages.get(state.record.storage)
    return known is not None and any(free.exec or free.moved for free in known.frees)


def _is_key(state: SlotState) -> bool:
    return state.record.role not in {"parameter", "buffer"} and any(
        other.record.ptr != state.record.ptr for other in kin(state)
    )


def _of_the_family(state: SlotState, change: events.SlotChange) -> bool:
    return any(change.ptr in {other.record.ptr, other.record.left_ptr} for other in kin(state))


def _written_since_capture(session: Session, state: SlotState, change: events.SlotChange) -> bool:
    """Whether the program wrote the captured tensor itself; asked where no version counter tells."""
    first = state.capture.last_q if state.capture is not None else 0
    return any(
        touch.what == "write" and touch.storage == state.record.storage and first < touch.q < change.q
        for touch in session.touches
        if state.record.storage
    )


def _store(session: Session, found: Rebinding, known: dict[object, Store]) -> Store:
    """The store behind a change. Thousands of parameters share it: what decides it is asked once."""
    record, change = found.state.record, found.change
    key = (change.stack, change.exec) if change.stack else (found.state.name, record.kind, record.role, change.exec)
    if key not in known:
        known[key] = store_of(session, found.state, change)
    return known[key]


def _group(found: Rebinding) -> object:
    """What one store changed belongs together; where the store is not known, each slot stands alone."""
    place = found.store.place
    if place is None or found.change.given:
        return (found.kind, found.state.record.kind, found.state.path)
    return (found.kind, place.file, place.line)


def _one_for_each_storage(found: list[Rebinding]) -> list[Rebinding]:
    """One tensor that two names held (`x`, `batch["x"]`) is told once, by the name whose store was seen."""
    best: dict[object, Rebinding] = {}
    for one in found:
        record = one.state.record
        key = (record.cap, record.ptr or one.state.path)
        known = best.get(key)
        if known is None or (_sureness(one) > _sureness(known)):
            best[key] = one
    return [one for one in found if best[one.state.record.cap, one.state.record.ptr or one.state.path] is one]


def _sureness(found: Rebinding) -> int:
    if found.kind is Kind.WEIGHT:
        return 3
    return 0 if found.store.place is None else 1 if found.store.guess else 2
