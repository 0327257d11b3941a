"""Work in a capture's window that went to a stream which does not capture, and whether the graph depends on it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import STATUS_NONE
from cudagraph_doctor.checkers.capture_status.shared_names import shares_names
from cudagraph_doctor.checkers.invalidation.operators import is_copy
from cudagraph_doctor.checkers.invalidation.operators import short as base_operator
from cudagraph_doctor.session.memory import WindowMemory, is_work, touches
from cudagraph_doctor.session.model import Activity
from cudagraph_doctor.session.overwriting import overwrites
from cudagraph_doctor.session.served import served

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cudagraph_doctor.session.memory import Touch
    from cudagraph_doctor.session.model import CaptureState, Session


class Tie(enum.Enum):
    """How uncaptured work is tied to the graph, the surest first."""

    READS_RESULT = "reads-result"
    """It reads memory that captured work wrote."""
    FEEDS_GRAPH = "feeds-graph"
    """It writes memory that captured work reads or writes."""
    WAITED_FOR = "waited-for"
    """Another thread did it while the capturing thread waited, and captured work reads its result."""
    UNKNOWN_MEMORY = "unknown-memory"
    """What it reads and writes was not recorded."""
    UNTIED = "untied"
    """As before, and no name in the program ties it to captured work: it may be deliberate."""
    SHARES_INPUT = "shares-input"
    """It calculates from the same inputs as the graph."""
    ONCE = "once"
    """It updates memory from before the capture that the graph never touches: a counter, perhaps."""


@dataclass(frozen=True)
class Uncaptured:
    """One piece of work that is missing from the graph."""

    activity: Activity
    tie: Tie
    other: Activity | None = None
    """The captured work that it is tied to."""


def uncaptured_work(session: Session, capture: CaptureState) -> Iterator[Uncaptured]:
    """The work of the capturing thread that the graph misses and needs, in order.

    Work on other threads is theirs, and a copy whose target the graph does not read is a prefetch: both are deliberate.
    """
    replays = [Activity(r) for r in session.replays if r.cap == capture.id and not r.total]
    loose = [a for a in (*capture.activities, *replays) if _is_loose(session, capture, a)]
    memory = WindowMemory(capture) if loose else None
    made: frozenset[tuple[str, int]] | None = None
    for activity in sorted(loose, key=lambda a: a.q):
        assert memory is not None
        if activity.kind == "replay":
            tied = _tie_replay(session, activity, memory)
        else:
            tied = _tie(session, capture, activity, memory)
        if tied is not None and tied.tie is Tie.ONCE:
            made = _made_in_window(capture) if made is None else made
            written = [touch for touch in touches(activity) if touch.writes]
            if any(("id", t.storage) in made or ("at", t.start) in made for t in written):
                continue  # memory of its own
        if tied is not None:
            yield tied


def _is_loose(session: Session, capture: CaptureState, activity: Activity) -> bool:
    """Work on the capturing thread and device, on a stream without a capture."""
    if activity.on != STATUS_NONE or activity.failed:
        return False
    if not is_work(activity) and activity.kind != "replay":
        return False
    if served(session, capture, activity).tid != capture.tid:
        return False
    device = getattr(activity.record, "device", None)
    if device is not None and device != capture.begin.device:
        return False
    return not any(outer.on == STATUS_NONE and is_work(outer) for outer in activity.enclosing())


def _tie(session: Session, capture: CaptureState, activity: Activity, memory: WindowMemory) -> Uncaptured | None:
    touched = touches(activity)
    if not touched:
        if activity.kind == "op":
            return None
        # A library's own stream inside a captured operator, or a launch whose parameters nobody read.
        outer = next((a for a in activity.enclosing() if a.kind == "op"), None)
        known = outer is not None or getattr(activity.record, "layer", "") != "driver"
        tied = known or shares_names(session, capture, activity)
        return Uncaptured(activity, Tie.UNKNOWN_MEMORY if tied else Tie.UNTIED, outer)
    tied = _tied_by(activity, touched, memory)
    if tied is not None or activity.kind != "op" or is_copy(activity.name):
        return tied
    reader = memory.reader(t for t in touched if t.reads)
    if reader is not None:
        return Uncaptured(activity, Tie.SHARES_INPUT, reader)
    return Uncaptured(activity, Tie.ONCE) if _updates_in_place(activity) else None


def _updates_in_place(activity: Activity) -> bool:
    """Whether an operator reads what it writes: `add_`, `index_add_`. A schema does not tell it from `fill_`."""
    name = base_operator(activity.name)
    written = any(
        tensor.written and tensor.dev.startswith("cuda") for tensor in getattr(activity.record, "tensors", ())
    )
    return written and name.endswith("_") and not name.endswith("__") and not overwrites(name)


def _made_in_window(capture: CaptureState) -> frozenset[tuple[str, int]]:
    """The memory that operators of the window brought into being: storage ids and addresses of their own results."""
    found: set[tuple[str, int]] = set()
    for activity in capture.activities:
        if activity.kind != "op" or activity.outcome is None or not activity.outcome.tensors:
            continue
        given = {touch.start for touch in touches(activity) if touch.reads}
        given |= {int(tensor.ptr, 16) for tensor in getattr(activity.record, "tensors", ()) if tensor.ptr}
        for touch in touches(activity):
            if touch.writes and touch.start not in given:
                found |= {("at", touch.start), *([("id", touch.storage)] if touch.storage else [])}
    return frozenset(found)


def _tied_by(activity: Activity, touched: Iterable[Touch], memory: WindowMemory) -> Uncaptured | None:
    touched = tuple(touched)
    writer = memory.writer(t for t in touched if t.reads)
    if writer is not None:
        return Uncaptured(activity, Tie.READS_RESULT, writer)
    written = [t for t in touched if t.writes]
    user = memory.reader(written) or memory.writer(written)
    return Uncaptured(activity, Tie.FEEDS_GRAPH, user) if user is not None else None


def _tie_replay(session: Session, replay: Activity, memory: WindowMemory) -> Uncaptured | None:
    """A graph replayed on another stream: tied by what was captured into it."""
    graph = getattr(replay.record, "graph", 0)
    inner = next((c for c in session.captures if graph and c.begin.graph == graph and c.status == "completed"), None)
    if inner is None:
        return None
    touched = [touch for a in inner.activities if is_work(a) and a.on and not a.failed for touch in touches(a)]
    return _tied_by(replay, touched, memory)
