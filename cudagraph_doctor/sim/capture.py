"""Stream captures and the nodes they record."""

from __future__ import annotations

import enum
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from cudagraph_doctor._wire import STATUS_ACTIVE, STATUS_INVALIDATED
from cudagraph_doctor.sim.caching_allocator import PoolId
from cudagraph_doctor.sim.memory_span import Span
from cudagraph_doctor.sim.streams import SimStream

_capture_ids = itertools.count(1)
_node_handles = itertools.count(0x5D00_0000_0000, 0x40)


class NodeKind(enum.Enum):
    """Node types, by the names of cudaGraphNodeType."""

    KERNEL = "kernel"
    MEMCPY = "memcpy"
    MEMSET = "memset"
    HOST = "host"
    EMPTY = "empty"
    EVENT_RECORD = "event_record"
    EVENT_WAIT = "wait_event"
    MEM_ALLOC = "mem_alloc"
    MEM_FREE = "mem_free"


@dataclass(eq=False, slots=True, repr=False)
class Node:
    """A graph node: an operator, copy or memset that a replay executes again on the same bytes."""

    kind: NodeKind
    name: str
    """Operator or kernel: `aten::mm`."""
    execute: Callable[[], object]
    depends_on: tuple[Node, ...] = ()
    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()
    host_source: torch.Tensor | None = None
    """Pinned host memory that a copy node reads, without a claim to it."""
    handle: int = field(default_factory=_node_handles.__next__)
    params: dict[str, Any] = field(default_factory=dict)
    """Raw parameters of a memset or memcpy node, which an update may change."""


@dataclass(eq=False, slots=True, repr=False)
class Capture:
    """A capture sequence: from begin to end, over all streams that joined it."""

    origin: SimStream
    mode: int
    """Index into `_wire.MODES`."""
    pool: PoolId | None = None
    id: int = field(default_factory=_capture_ids.__next__)
    thread: int = field(default_factory=threading.get_ident)
    status: int = STATUS_ACTIVE
    poisoned: bool = False
    """A call was refused while keep-going held the status at Active: the end fails all the same."""
    nodes: list[Node] = field(default_factory=list)
    streams: set[SimStream] = field(default_factory=set)
    generators: set[int] = field(default_factory=set)
    """Identities of the random generators registered with the graph."""

    @property
    def blocking(self) -> bool:
        """Whether one of its streams synchronises with the legacy stream."""
        return any(stream.blocking for stream in self.streams)

    @property
    def invalidated(self) -> bool:
        """A call has broken it: every later call fails with 901."""
        return self.status == STATUS_INVALIDATED

    def add(self, node: Node, stream: SimStream) -> None:
        """Append `node` behind what `stream` has done so far."""
        node.depends_on = tuple(stream.frontier)
        stream.frontier = [node]
        self.nodes.append(node)

    def unjoined(self) -> list[Node]:
        """Nodes whose work the origin stream never waited for."""
        depended_on = {parent for node in self.nodes for parent in node.depends_on}
        joined = set(self.origin.frontier)
        return [node for node in self.nodes if node not in depended_on and node not in joined]
