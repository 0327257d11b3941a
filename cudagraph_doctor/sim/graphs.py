"""Graphs and executable graphs: what a capture leaves behind, and how it is replayed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from cudagraph_doctor.sim import cuda_error as cuda
from cudagraph_doctor.sim.caching_allocator import Block, Segment
from cudagraph_doctor.sim.capture import Capture, Node, NodeKind
from cudagraph_doctor.sim.capture_calls import launch_graph
from cudagraph_doctor.sim.streams import SimStream

if TYPE_CHECKING:
    from cudagraph_doctor.sim.simulation import Simulation


@dataclass(eq=False, slots=True)
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


@dataclass(eq=False, slots=True)
class SimExec:
    """A cudaGraphExec_t."""

    handle: int
    graph: SimGraph
    nodes: list[Node]
    auto_free: bool = False
    launches: int = 0
    reads: tuple[Block, ...] = ()
    writes: tuple[Block, ...] = ()
    segments: tuple[Segment, ...] = field(default=())

    def adopt(self, nodes: list[Node]) -> None:
        """Take over these nodes, at instantiation or update."""
        self.nodes = list(nodes)
        written = {block for node in nodes for block in node.writes}
        self.writes = tuple(written)
        self.reads = tuple({block for node in nodes for block in node.reads} - written)
        self.segments = tuple({block.segment for block in (*self.reads, *self.writes)})


def make_exec(sim: Simulation, graph: SimGraph, *, auto_free: bool = False) -> SimExec:
    """Instantiate `graph`, without asking whether that is allowed now."""
    executable = SimExec(sim.driver.new_handle(), graph, [], auto_free)
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
    if not all(segment.mapped for segment in executable.segments):
        sim.driver.sticky = cuda.ILLEGAL_ADDRESS
        return cuda.SUCCESS
    sim.factory.collect()
    with torch.no_grad(), torch._C._AutoDispatchBelowAutograd(), torch._C.DisableTorchFunction():
        for node in executable.nodes:
            node.execute()
    sim.races.launch(stream, "cuGraphLaunch", executable.reads, executable.writes)
    return cuda.SUCCESS


def _leaks_allocation(nodes: list[Node]) -> bool:
    allocated = {node.params.get("ptr") for node in nodes if node.kind is NodeKind.MEM_ALLOC}
    freed = {node.params.get("ptr") for node in nodes if node.kind is NodeKind.MEM_FREE}
    return bool(allocated - freed)
