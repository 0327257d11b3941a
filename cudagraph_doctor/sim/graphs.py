"""Graphs and executable graphs: what a capture leaves behind, and how it is replayed."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from cudagraph_doctor.sim import cuda_error as cuda
from cudagraph_doctor.sim.arena import Arena
from cudagraph_doctor.sim.capture import Capture, Node, NodeKind
from cudagraph_doctor.sim.capture_calls import launch_graph
from cudagraph_doctor.sim.memory_span import Span
from cudagraph_doctor.sim.streams import SimStream

if TYPE_CHECKING:
    from cudagraph_doctor.sim.simulation import Simulation


@dataclass(eq=False, slots=True, repr=False)
class SimGraph:
    """A cudaGraph_t."""

    handle: int
    nodes: list[Node]
    capture_id: int = 0

    def edges(self) -> list[tuple[int, int]]:
        """Dependencies, as pairs of indices into `nodes`."""
        place = {node: index for index, node in enumerate(self.nodes)}
        return [(place[parent], index) for index, node in enumerate(self.nodes) for parent in node.depends_on]

    def shape(self) -> tuple[object, ...]:
        """What an executable graph can be updated to: the same kinds of nodes with the same dependencies."""
        return tuple(node.kind for node in self.nodes), tuple(self.edges())


@dataclass(eq=False, slots=True, repr=False)
class SimExec:
    """A cudaGraphExec_t."""

    handle: int
    graph: SimGraph
    nodes: list[Node]
    arena: Arena
    auto_free: bool = False
    launches: int = 0
    reads: tuple[Span, ...] = ()
    """Device memory that it reads and does not write: its inputs and weights."""
    writes: tuple[Span, ...] = ()
    pages: tuple[int, ...] = ()
    """Device pages on which these begin."""
    host_sources: tuple[torch.Tensor, ...] = ()
    nodes_by_handle: dict[int, Node] = field(default_factory=dict)
    """This graph's own copy of each node, by the handle of the original."""

    def adopt(self, nodes: list[Node]) -> None:
        """Take over these nodes, at instantiation or update."""
        self.nodes = [_own_copy(node) for node in nodes]
        self.nodes_by_handle = {node.handle: node for node in self.nodes}
        self.host_sources = tuple(node.host_source for node in nodes if node.host_source is not None)
        self.look_at_memory()

    def look_at_memory(self) -> None:
        """Work out what the nodes read and write, after their parameters were set."""
        written = dict.fromkeys(span for node in self.nodes for span in node.writes)
        read = dict.fromkeys(span for node in self.nodes for span in node.reads)
        raw = [node.params for node in self.nodes if "bytes" in node.params]
        written |= {Span(params["dst"], params["bytes"]): None for params in raw}
        read |= {Span(params["src"], params["bytes"]): None for params in raw if "src" in params}
        self.writes = tuple(written)
        self.reads = tuple(span for span in read if span not in written)
        arena = self.arena
        self.pages = tuple({arena.page_of(span.address) for span in written | read if arena.holds(span.address)})


def _own_copy(node: Node) -> Node:
    """A node whose parameters an update may change without changing the graph's."""
    run = _RUNS.get(node.kind)
    if run is None or "bytes" not in node.params:
        return node
    copy = dataclasses.replace(node, params=dict(node.params))
    copy.execute = functools.partial(run, copy.params)
    return copy


def run_memset(params: dict[str, Any]) -> None:
    """Execute a memset of `bytes` bytes at `dst` with elements of `width` bytes."""
    pattern = int(params["value"]).to_bytes(8, "little")[: params["width"]]
    if params["width"] == 1:
        ctypes.memset(params["dst"], pattern[0], params["bytes"])
    else:
        ctypes.memmove(params["dst"], pattern * (params["bytes"] // params["width"]), params["bytes"])


def run_copy(params: dict[str, Any]) -> None:
    """Execute a copy of `bytes` bytes from `src` to `dst`."""
    ctypes.memmove(params["dst"], params["src"], params["bytes"])


_RUNS: dict[NodeKind, Callable[[dict[str, Any]], None]] = {NodeKind.MEMSET: run_memset, NodeKind.MEMCPY: run_copy}


def make_exec(sim: Simulation, graph: SimGraph, *, auto_free: bool = False) -> SimExec:
    """Instantiate `graph`, without asking whether that is allowed now."""
    executable = SimExec(sim.driver.new_handle(), graph, [], sim.arena, auto_free)
    executable.adopt(graph.nodes)
    return executable


def graph_of(sim: Simulation, capture: Capture) -> SimGraph:
    """The graph that a finished capture made."""
    return SimGraph(sim.driver.new_handle(), list(capture.nodes), capture.id)


def replay(sim: Simulation, executable: SimExec, stream: SimStream) -> int:
    """Launch an executable graph on `stream`; the code of cuGraphLaunch.

    The nodes run now, in the order of their recording, on the addresses they were recorded with. When one of these was
    returned to the driver meanwhile, the device faults: like CUDA, later calls report it (700), not this one.
    """
    code = launch_graph(sim.driver, stream, exec=executable.handle)
    if code != cuda.SUCCESS:
        return code
    if executable.launches and not executable.auto_free and _leaks_allocation(executable.nodes):
        return cuda.INVALID_VALUE  # the first launch's memory is still allocated (cuGraphLaunch)
    executable.launches += 1
    if not sim.maps(executable.pages):
        sim.driver.sticky = cuda.ILLEGAL_ADDRESS
        return cuda.SUCCESS
    sim.factory.collect()
    sim.driver.thread.replaying = stream
    with torch.no_grad(), torch._C._AutoDispatchBelowAutograd(), torch._C.DisableTorchFunction():
        for node in executable.nodes:
            node.execute()
    sim.races.graph_launch(stream, "cuGraphLaunch", executable.reads, executable.writes)
    for source in executable.host_sources:
        sim.pending_copies.queued(source, stream, "cuGraphLaunch")
    return cuda.SUCCESS


def _leaks_allocation(nodes: list[Node]) -> bool:
    allocated = {node.params.get("ptr") for node in nodes if node.kind is NodeKind.MEM_ALLOC}
    freed = {node.params.get("ptr") for node in nodes if node.kind is NodeKind.MEM_FREE}
    return bool(allocated - freed)
