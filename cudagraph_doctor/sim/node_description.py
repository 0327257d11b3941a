"""What a recorder is told of the nodes of a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from cudagraph_doctor.sim.capture import Node, NodeKind

if TYPE_CHECKING:
    from collections.abc import Sequence


class NodeDescription(TypedDict):
    """A node."""

    handle: int
    type: str
    """By the names of CUDA's node types."""
    kernel: str
    ptrs: list[int]
    """Addresses that it reads or writes."""
    src: int
    dst: int
    size: int


class Description(TypedDict):
    """The nodes and edges of a graph."""

    nodes: list[NodeDescription]
    sources: list[int]
    """Of each edge: handle of the node that comes first."""
    targets: list[int]


def describe(nodes: Sequence[Node]) -> Description:
    """The nodes in the order of their making, and what each depends on."""
    return {
        "nodes": [_describe(node) for node in nodes],
        "sources": [parent.handle for node in nodes for parent in node.depends_on],
        "targets": [node.handle for node in nodes for _ in node.depends_on],
    }


def _describe(node: Node) -> NodeDescription:
    spans = dict.fromkeys(span.address for span in (*node.reads, *node.writes))
    source, target, size = _ends(node)
    return {
        "handle": node.handle,
        "type": node.kind.value,
        "kernel": node.name if node.kind.value == "kernel" else "",
        "ptrs": list(spans),
        "src": source,
        "dst": target,
        "size": size,
    }


def _ends(node: Node) -> tuple[int, int, int]:
    """(first byte read, first byte written, bytes) of a copy or memset; of an allocation its address as the second."""
    params, host = node.params, node.host_source
    if "dst" in params or "ptr" in params:
        return int(params.get("src", 0)), int(params.get("dst") or params.get("ptr", 0)), int(params.get("bytes", 0))
    if node.kind is not NodeKind.MEMCPY:
        return 0, 0, 0
    source = host.data_ptr() if host is not None else node.reads[0].address if node.reads else 0
    return source, node.writes[0].address if node.writes else 0, host.nbytes if host is not None else 0
