"""What is remembered of a graph: nodes by kernel and line, edges, memory, what the capture missed. No addresses."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from cudagraph_doctor._wire import STATUS_ACTIVE
from cudagraph_doctor.gate.roots import path_from
from cudagraph_doctor.session.apis import EXACT_LAYERS, NODES, Family, family

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cudagraph_doctor.report import Report, Roots
    from cudagraph_doctor.session.model import Activity, CaptureState, Session

ESCAPE_RULE, SKIP_RULE = "CGD113", "CGD951"
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
_KIND = {
    Family.LAUNCH: "kernel",
    Family.COPY: "memcpy",
    Family.MEMSET: "memset",
    Family.HOST_FUNC: "host",
    Family.ASYNC_ALLOC: "alloc",
    Family.ASYNC_FREE: "free",
    Family.GRAPH_LAUNCH: "graph",
}
Natural = Annotated[int, Meta(ge=0)]


class NodeGroup(Struct, frozen=True):
    """Nodes of one kind and kernel that were captured at one line."""

    kind: str
    """`kernel`, `memcpy`, `memset`, ..., or `operator` where CUDA's own calls were not seen."""
    name: str
    """The kernel's name, or the call's or operator's."""
    path: str
    """File from the configuration's folder; empty: no Python line."""
    function: str
    line: int
    count: Annotated[int, Meta(ge=1)]

    @property
    def place(self) -> tuple[str, str]:
        """Where it is, without the line: lines move."""
        return self.path, self.function


class GraphFacts(Struct, frozen=True):
    """One capture, recognised by its file, function, key, and its number among those."""

    path: str
    function: str
    line: int
    status: str
    ordinal: Natural = 0
    """Its number among the captures of the same path, function and key, in order."""
    key: str | None = None
    rank: int | None = None
    nodes: Natural | None = None
    edges: Natural | None = None
    pool: Natural | None = None
    """Bytes of the tensors that the window made in device memory; None where that was not recorded."""
    escapes: Natural = 0
    """Pieces of work that the capture missed."""
    modules: Natural = 0
    """Modules loaded inside the window."""
    shape: str = ""
    """Digest of the kinds of nodes in the order of capture."""
    topology: str = ""
    """Digest of the dependencies between them; empty where these were not recorded."""
    groups: tuple[NodeGroup, ...] = ()
    """In the order in which they were first met."""

    @property
    def site(self) -> tuple[str, str, str, int, int]:
        """What it is recognised by."""
        return self.path, self.function, self.key or "", -1 if self.rank is None else self.rank, self.ordinal

    @property
    def shown(self) -> str:
        """`decode.py:6 in generate [batch=4], the 2nd there`."""
        function = f" in {self.function}" if self.function not in ("", "<module>") else ""
        key = f" [{self.key}]" if self.key else ""
        rank = f", rank {self.rank}" if self.rank is not None else ""
        nth = f", number {self.ordinal + 1} there" if self.ordinal else ""
        return f"{self.path or 'no Python line'}{f':{self.line}' if self.path else ''}{function}{key}{rank}{nth}"


class RunGraphs(Struct, frozen=True):
    """All captures of a run, and what counts for the run as a whole."""

    captures: tuple[GraphFacts, ...] = ()
    skips: Natural = 0
    """Regions that torch.compile did not graph."""


def graphs_of(sessions: Iterable[Session], report: Report, root: str) -> RunGraphs:
    """The captures of all processes, in order.

    Args:
        sessions: of the run.
        report: on it, for what the captures missed.
        root: the configuration's folder.
    """
    told: list[GraphFacts] = []
    times: dict[tuple[str, str, str, int, int], int] = {}
    for session in sessions:
        for capture in session.captures:
            facts = _facts(session, capture, report, root)
            number = times.get(facts.site, 0)
            times[facts.site] = number + 1
            told.append(replace(facts, ordinal=number))
    skips = sum(max(f.count, 1) for f in report.findings if f.rule.id == SKIP_RULE)
    return RunGraphs(tuple(told), skips)


def _facts(session: Session, capture: CaptureState, report: Report, root: str) -> GraphFacts:
    place = session.location(capture.begin.stack)
    info = next((i for i in report.captures if (i.process, i.id) == (session.index, capture.id)), None)
    groups, kinds = _groups(session, capture, report.roots, root)
    graph = next((g for g in session.graphs.values() if g.cap == capture.id), None)
    made = {
        s.id: s.record.size
        for s in session.storages.values()
        if s.capture is capture and s.record.inside and not s.on_host
    }
    missed = [
        max(f.count, 1) for f in report.findings
        if f.rule.id == ESCAPE_RULE and (f.process, f.capture) == (session.index, capture.id)
    ]  # fmt: skip
    loaded = [m for m in session.modules if capture.first_q < m.q < capture.last_q and "unload" not in m.what]
    return GraphFacts(
        path=path_from(root, report.roots, place.file) if place is not None else "",
        function=(place.function or "") if place is not None else "",
        line=place.line if place is not None else 0,
        status=capture.status,
        key=info.key if info is not None else None,
        rank=session.header.rank,
        nodes=capture.nodes if capture.nodes is not None else len(kinds),
        edges=graph.edges if graph is not None else None,
        pool=sum(made.values()) if session.storages else None,
        escapes=sum(missed),
        modules=len(loaded),
        shape=_digest(kinds),
        topology=_topology(session, graph.id) if graph is not None else "",
        groups=groups,
    )


def _topology(session: Session, graph: int) -> str:
    """Nodes are numbered in the order in which the walk met them: their ids are others in each run."""
    nodes = session.nodes.get(graph)
    if not nodes:
        return ""
    number = {node.id: n for n, node in enumerate(nodes)}
    edges = session.edges.get(graph, ())
    return _digest(sorted(f"{number.get(e.source, -1)} {number.get(e.target, -1)} {e.type}" for e in edges))


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _groups(
    session: Session, capture: CaptureState, roots: Roots, root: str
) -> tuple[tuple[NodeGroup, ...], Sequence[str]]:
    """The nodes of a capture, grouped, and the kind of each in order."""
    counts: dict[tuple[str, str, str, str], int] = {}
    lines: dict[tuple[str, str, str, str], int] = {}
    kinds = []
    for kind, name, stack in _nodes(session, capture):
        place = session.location(stack)
        path = path_from(root, roots, place.file) if place is not None else ""
        group = (kind, _ADDRESS.sub("0x…", name), path, (place.function or "") if place is not None else "")
        counts[group] = counts.get(group, 0) + 1
        lines.setdefault(group, place.line if place is not None else 0)
        kinds.append(kind)
    return tuple(NodeGroup(*group, lines[group], count) for group, count in counts.items()), kinds


def _nodes(session: Session, capture: CaptureState) -> Iterator[tuple[str, str, int]]:
    """Kind, name and stack of each node: as walked in the graph, else as CUDA's calls made them, else the operators."""
    graph = next((g.id for g in session.graphs.values() if g.cap == capture.id), None)
    walked = session.nodes.get(graph, ()) if graph is not None else ()
    if walked:
        stacks = {activity.q: activity.stack for activity in capture.activities}
        for node in walked:
            yield node.type, node.kernel or node.type, stacks.get(node.op, 0)
        return
    calls = [call for call in capture.calls() if _makes_node(call)]
    for call in calls:
        name = getattr(call.record, "kernel", "") or call.name
        yield _KIND[family(call.name)], name, call.stack
    if calls:
        return
    for op in capture.ops():
        if op.on == STATUS_ACTIVE and not op.failed and getattr(op.record, "kind", "") == "compute":
            yield "operator", op.name, op.stack


def _makes_node(call: Activity) -> bool:
    made = family(call.name) in NODES and getattr(call.record, "layer", "") in EXACT_LAYERS
    return made and not call.failed and call.on == STATUS_ACTIVE
