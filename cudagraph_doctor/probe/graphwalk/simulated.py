"""The graph of an open capture, as the simulated device describes it."""

from __future__ import annotations

from cudagraph_doctor.probe.graphwalk.reader import Walk, WalkedNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def walk_of(description: Any) -> Walk | None:
    """The nodes and edges of a `sim.node_description.Description`; None for none."""
    if description is None:
        return None
    walk = Walk()
    for told in description["nodes"]:
        node = WalkedNode(told["handle"], told["type"])
        node.kernel, node.ptrs = told["kernel"], told["ptrs"]
        node.src, node.dst, node.size = told["src"], told["dst"], told["size"]
        walk.nodes.append(node)
    walk.sources, walk.targets = description["sources"], description["targets"]
    return walk
