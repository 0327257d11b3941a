"""The difference of two runs' graphs for people to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.gate.conditions import shown_size
from cudagraph_doctor.gate.graph_diff import differ

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cudagraph_doctor.gate.graph_diff import CaptureDiff, GraphDiff, NodeChange
    from cudagraph_doctor.gate.graph_facts import NodeGroup

MOST_NODES = 100
_UPDATE = {
    "yes": "would take it",
    "no": "would refuse it",
    "likely": "would likely take it",
    "unknown": "cannot be told",
}


def diff_lines(diff: GraphDiff, violations: Sequence[str]) -> Iterator[str]:
    """A line a fact; nothing but one line where nothing differs."""
    for violation in violations:
        yield _printable(f"not met: {violation}")
    if not diff.changed:
        yield f"no difference: {len(diff.captures)} captures"
        return
    for facts in diff.gone:
        yield _printable(
            f"- capture gone: {facts.shown} ({facts.status}, {facts.nodes if facts.nodes is not None else '?'} nodes)"
        )
    for facts in diff.new:
        yield _printable(
            f"+ capture new: {facts.shown} ({facts.status}, {facts.nodes if facts.nodes is not None else '?'} nodes)"
        )
    if diff.skips[0] != diff.skips[1]:
        yield f"regions that torch.compile skipped: {diff.skips[0]} → {diff.skips[1]}"
    same = 0
    for pair in diff.captures:
        if pair.changed:
            yield from map(_printable, _capture(pair))
        else:
            same += 1
    if same:
        yield f"{same} captures without a difference"


def _capture(pair: CaptureDiff) -> Iterator[str]:
    yield f"~ capture {pair.after.shown}"
    for name in ("status", "nodes", "edges", "pool", "escapes", "modules"):
        before, after = getattr(pair.before, name), getattr(pair.after, name)
        if differ(pair.before, pair.after, name):
            yield f"    {name}: {_shown(name, before)} → {_shown(name, after)}"
    for change in pair.nodes[:MOST_NODES]:
        yield f"    {_change(change)}"
    if len(pair.nodes) > MOST_NODES:
        yield f"    and {len(pair.nodes) - MOST_NODES:,} more, in --format json"
    if not pair.nodes and pair.before.shape != pair.after.shape:
        yield "    same nodes in another order"
    yield f"    cudaGraphExecUpdate {_UPDATE[pair.update]}: {pair.why}"


def _change(change: NodeChange) -> str:
    if change.before is None:
        assert change.after is not None
        return f"+ {_group(change.after)}"
    if change.after is None:
        return f"- {_group(change.before)}"
    if change.before.name == change.after.name:
        return f"~ {change.before.count} → {_group(change.after)}"
    return f"~ {_group(change.before)} → {_group(change.after)}"


def _group(group: NodeGroup) -> str:
    where = f"{group.path}:{group.line}" if group.path else "no Python line"
    return f"{group.count} × {group.name} ({group.kind}) at {where}"


def _shown(name: str, value: object) -> str:
    return shown_size(value) if name == "pool" and isinstance(value, int) else str(value)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
