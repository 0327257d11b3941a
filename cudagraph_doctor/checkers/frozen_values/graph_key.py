"""Is the key by which a program chooses among its graphs complete?

Graphs that are captured at one line are a family: a program captures one for each batch size, length or mode, and picks
one at each step. What must be in its key is every value of the host that went into the captured work. Read from the
captures themselves: the plain values that differ among them, whether captured work depends on each, which values are
the same in all of them and changed later, and which replays ran a graph that was made for another value.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.frozen_values import saying
from cudagraph_doctor.checkers.frozen_values.flow import Flow
from cudagraph_doctor.checkers.frozen_values.frozen import Frozen, frozen
from cudagraph_doctor.checkers.frozen_values.uses import Role, Use
from cudagraph_doctor.checkers.frozen_values.values import changed
from cudagraph_doctor.checkers.frozen_values.window_work import WindowWork
from cudagraph_doctor.session.slots import equal

if TYPE_CHECKING:
    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import CaptureState, Session
    from cudagraph_doctor.session.slots import SlotState
    from cudagraph_doctor.trace import events


@dataclass(frozen=True)
class KeyPart:
    """A value of the host that differs among the captures of a line."""

    path: str
    values: tuple[str, ...]
    """As recorded, in the order of the captures that read it."""
    role: Role | None
    """What it is in the graphs; None: no captured work depends on it."""
    place: Location | None
    """Where it went into the graph, else where it was read."""


@dataclass(frozen=True)
class Misfit:
    """A replay of a graph that was captured for another value than the one in force."""

    path: str
    graph: int
    """Number of the capture among those of its line, from 1."""
    captured: str
    now: str
    replay: int
    """Number of the replay of this graph, from 1."""
    fitting: int | None
    """Number of the graph that was captured for the value in force; None: there is none."""


@dataclass
class SiteKey:
    """What is known of the key of the graphs captured at one line."""

    place: Location | None
    captures: list[CaptureState] = field(default_factory=list)
    parts: list[KeyPart] = field(default_factory=list)
    missing: list[Frozen] = field(default_factory=list)
    """In the graphs, the same in all of them, and another one at a replay: they belong into the key."""
    misfits: list[Misfit] = field(default_factory=list)
    nodes: tuple[int, int] | None = None
    """How many nodes differ between the first graph and one that differs most from it, and how many there are."""

    @property
    def complete(self) -> bool:
        """Nothing that is in the graphs changed without another graph being chosen."""
        return not self.missing and not any(misfit.fitting for misfit in self.misfits)


def graph_keys(session: Session) -> list[SiteKey]:
    """The keys of a process, a line at which graphs were captured each."""
    sites: dict[object, SiteKey] = {}
    for capture in session.captures:
        if capture.status == "completed":
            place = session.location(capture.begin.stack)
            key = (place.file, place.line) if place is not None else None
            sites.setdefault(key, SiteKey(place)).captures.append(capture)
    slots: defaultdict[int, list[SlotState]] = defaultdict(list)
    for state in session.slots.values():
        if state.capture is not None and state.is_input and state.record.value:
            slots[state.record.cap].append(state)
    stale = frozen(session)
    for site in sites.values():
        mine = {capture.id for capture in site.captures}
        families = {id(s.family): s.family for capture in site.captures for s in slots[capture.id]}
        for family in families.values():
            _of_family(session, site, sorted((s for s in family if s.record.cap in mine), key=lambda s: s.record.cap))
        site.nodes = _differing_nodes(session, site.captures)
        site.missing = [found for found in stale if found.state.record.cap in mine and found.use.role is not Role.GUARD]
    return list(sites.values())


def _of_family(session: Session, site: SiteKey, family: list[SlotState]) -> None:
    """One slot of all captures of a line."""
    first = family[0]
    if all(equal(state.record.value, first.record.value) for state in family):
        return
    use = _use(session, first)
    place = saying.line_of(session, use, first) if use is not None else session.location(first.record.stack)
    values = tuple(state.record.value for state in family)
    site.parts.append(KeyPart(first.path, values, use.role if use is not None else None, place))
    if use is None:
        return
    numbers = {capture.id: number for number, capture in enumerate(site.captures, 1)}
    for state in family:
        for change in state.changes:
            if changed(state, change):
                fitting = next((s for s in family if equal(s.record.value, change.value)), None)
                site.misfits.append(
                    Misfit(
                        path=state.path,
                        graph=numbers[state.record.cap],
                        captured=state.record.value,
                        now=change.value,
                        replay=change.replay,
                        fitting=numbers[fitting.record.cap] if fitting is not None else None,
                    )
                )


def _use(session: Session, state: SlotState) -> Use | None:
    """What the value became in its graph; None: nothing that was captured depends on it."""
    assert state.capture is not None
    uses = [use for use in Flow(WindowWork(session, state.capture), state).uses() if use.role is not Role.GUARD]
    return min(uses, key=lambda use: (use.role.rank, not use.work), default=None)


def _differing_nodes(session: Session, captures: list[CaptureState]) -> tuple[int, int] | None:
    """Nodes of another kind, kernel, shape or size than their counterpart in the first graph; None: not known."""
    graphs = [session.nodes.get(capture.begin.graph, []) for capture in captures]
    if len(graphs) < 2 or not all(any(node.grid is not None for node in graph) for graph in graphs):
        return None
    first, *others = [[_shape(node) for node in graph] for graph in graphs]
    differing = [
        sum(a != b for a, b in zip(first, other, strict=False)) + abs(len(first) - len(other)) for other in others
    ]
    return max(differing), max(len(graph) for graph in graphs)


def _shape(node: events.Node) -> tuple[object, ...]:
    return node.type, node.kernel, node.grid, node.block, node.smem, node.size
