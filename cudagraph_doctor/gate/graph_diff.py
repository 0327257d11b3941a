"""How the graphs of two runs differ: nodes with their lines, memory, and whether an update would be accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from cudagraph_doctor.gate.match import match

if TYPE_CHECKING:
    from cudagraph_doctor.gate.graph_facts import GraphFacts, NodeGroup, RunGraphs


class NodeChange(Struct, frozen=True):
    """Nodes of one kernel at one place, before and after; None: there were none."""

    before: NodeGroup | None
    after: NodeGroup | None

    @property
    def kind(self) -> str:
        """`added`, `removed`, `changed`."""
        return "added" if self.before is None else "removed" if self.after is None else "changed"


class CaptureDiff(Struct, frozen=True):
    """One capture in two runs."""

    before: GraphFacts
    after: GraphFacts
    nodes: tuple[NodeChange, ...]
    update: str
    """Whether `cudaGraphExecUpdate` would take the new graph into the old: `yes`, `no`, `likely`, `unknown`."""
    why: str

    @property
    def changed(self) -> bool:
        """Whether anything but lines differs."""
        quantities = ("nodes", "edges", "pool", "escapes", "modules", "status", "shape")
        return bool(self.nodes) or any(differ(self.before, self.after, name) for name in quantities)


class GraphDiff(Struct, frozen=True):
    """All captures of two runs."""

    captures: tuple[CaptureDiff, ...]
    gone: tuple[GraphFacts, ...]
    new: tuple[GraphFacts, ...]
    skips: tuple[int, int]

    @property
    def changed(self) -> bool:
        """Whether anything differs."""
        moved = self.skips[0] != self.skips[1]
        return bool(self.gone or self.new) or moved or any(capture.changed for capture in self.captures)


def diff(before: RunGraphs, after: RunGraphs) -> GraphDiff:
    """Compares two runs, capture by capture."""
    matched = match(before.captures, after.captures)
    captures = tuple(CaptureDiff(one, other, _nodes(one, other), *_update(one, other)) for one, other in matched.pairs)
    return GraphDiff(captures, matched.gone, matched.new, (before.skips, after.skips))


def differ(before: GraphFacts, after: GraphFacts, name: str) -> bool:
    """Whether a quantity is known of both captures, and not the same."""
    one, other = getattr(before, name), getattr(after, name)
    return one is not None and other is not None and one != other


def _nodes(before: GraphFacts, after: GraphFacts) -> tuple[NodeChange, ...]:
    """Equal kernels are paired first; what is left of one place, in order, is a kernel that took another's part."""
    old, new = list(before.groups), list(after.groups)
    changes: list[NodeChange] = []
    for one in before.groups:
        other = next(
            (g for g in new if (g.kind, g.name, g.path, g.function) == (one.kind, one.name, one.path, one.function)),
            None,
        )
        if other is not None:
            old.remove(one)
            new.remove(other)
            if one.count != other.count:
                changes.append(NodeChange(one, other))
    moved = before.path != after.path or before.function != after.function
    for one in list(old):
        other = next((g for g in new if moved and (g.kind, g.name, g.count) == (one.kind, one.name, one.count)), None)
        if other is not None:  # the same work, whose function has another name now
            old.remove(one)
            new.remove(other)
    for one in list(old):
        other = next((g for g in new if (g.kind, g.place) == (one.kind, one.place)), None)
        if other is not None:
            old.remove(one)
            new.remove(other)
            changes.append(NodeChange(one, other))
    changes += [NodeChange(one, None) for one in old]
    changes += [NodeChange(None, one) for one in new]
    return tuple(changes)


def _update(before: GraphFacts, after: GraphFacts) -> tuple[str, str]:
    """By the rules of CUDA's programming guide, "Whole Graph Update": the same topology, and nodes of the same types.

    A kernel node may get another function of the same context; so names do not matter, kinds and order do.
    """
    if before.status != "completed" or after.status != "completed":
        return "no", "one of the two captures did not complete"
    if any(group.kind == "operator" for group in (*before.groups, *after.groups)):
        if before.nodes is not None and after.nodes is not None and before.nodes != after.nodes:
            return "no", f"the number of nodes differs: {before.nodes:,} and {after.nodes:,}"
        return "unknown", "CUDA's calls were not recorded, only torch's operators"
    if before.nodes != after.nodes:
        return "no", f"the number of nodes differs: {before.nodes or 0:,} and {after.nodes or 0:,}"
    if before.edges is not None and after.edges is not None and before.edges != after.edges:
        return "no", f"the number of edges differs: {before.edges:,} and {after.edges:,}"
    if before.shape != after.shape:
        return "no", "the types of the nodes, in their order, differ"
    kinds = {group.kind for group in after.groups}
    if kinds & {"alloc", "free"}:
        return "no", "memory allocation nodes cannot be updated"
    if not before.topology or not after.topology:
        return "likely", "same nodes in the same order; the dependencies between them were not recorded"
    if before.topology != after.topology:
        return "no", "the dependencies between the nodes differ"
    return "yes", "same topology, same types of nodes"
