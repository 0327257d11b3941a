"""Graphs and executable graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cudagraph_doctor.sim import cuda_error as cuda
from cudagraph_doctor.sim.bindings.values import Typed, number, stream_of
from cudagraph_doctor.sim.capture import Node, NodeKind
from cudagraph_doctor.sim.capture_calls import instantiate
from cudagraph_doctor.sim.graphs import SimExec, SimGraph, make_exec, replay
from cudagraph_doctor.sim.simulation import Simulation

Answer = tuple[Any, ...]
AUTO_FREE_ON_LAUNCH = 1
# cudaGraphNodeType / CUgraphNodeType
_TYPE_NUMBERS = {
    NodeKind.KERNEL: 0,
    NodeKind.MEMCPY: 1,
    NodeKind.MEMSET: 2,
    NodeKind.HOST: 3,
    NodeKind.EMPTY: 5,
    NodeKind.EVENT_WAIT: 6,
    NodeKind.EVENT_RECORD: 7,
    NodeKind.MEM_ALLOC: 10,
    NodeKind.MEM_FREE: 11,
}


def calls(sim: Simulation) -> dict[str, Callable[..., Answer]]:
    """The calls of this file, by name."""
    driver = sim.driver

    def graph_of(value: Any) -> SimGraph | None:
        return driver.graphs.get(number(value))

    def exec_of(value: Any) -> SimExec | None:
        return driver.execs.get(number(value))

    def make(graph: Any, flags: Any = 0) -> Answer:
        found = graph_of(graph)
        if found is None:
            return cuda.INVALID_VALUE, None
        code = instantiate(driver)
        if code != cuda.SUCCESS:
            return code, None
        executable = make_exec(sim, found, auto_free=bool(number(flags) & AUTO_FREE_ON_LAUNCH))
        driver.execs[executable.handle] = executable
        return code, Typed("cudaGraphExec_t", "CUgraphExec", executable.handle)

    def launch(executable: Any, stream: Any) -> Answer:
        found, target = exec_of(executable), stream_of(sim, stream)
        if found is None or target is None:
            return (cuda.INVALID_VALUE if found is None else cuda.INVALID_HANDLE,)
        return (replay(sim, found, target),)

    def upload(_executable: Any, stream: Any) -> Answer:
        return (driver.call("cuGraphUpload", "cudaGraphUpload(other)", stream_of(sim, stream)),)

    def update(executable: Any, graph: Any, *_info: Any) -> Answer:
        found, new = exec_of(executable), graph_of(graph)
        if found is None or new is None:
            return cuda.INVALID_VALUE, None
        facts: dict[str, Any] = {"exec": found.handle}
        code = driver.call("cuGraphExecUpdate_v2", "cudaGraphExecUpdate(another)", **facts)
        if code == cuda.SUCCESS and found.graph.shape() != new.shape():
            code = cuda.GRAPH_EXEC_UPDATE_FAILURE
            driver.record("cuGraphExecUpdate_v2", code, None, None, 0, **facts)
        if code != cuda.SUCCESS:
            return code, None
        found.adopt(new.nodes)
        return code, Typed("cudaGraphExecUpdateResultInfo", "CUgraphExecUpdateResultInfo", None)

    def destroy(graph: Any) -> Answer:
        return (cuda.SUCCESS if driver.graphs.pop(number(graph), None) is not None else cuda.INVALID_VALUE,)

    def exec_destroy(executable: Any) -> Answer:
        return (cuda.SUCCESS if driver.execs.pop(number(executable), None) is not None else cuda.INVALID_VALUE,)

    def node_handle(node: Node) -> Typed:
        return Typed("cudaGraphNode_t", "CUgraphNode", node.handle)

    def get_nodes(graph: Any, numNodes: int = 0) -> Answer:  # noqa: N803 - cuda-bindings' name
        found = graph_of(graph)
        if found is None:
            return cuda.INVALID_VALUE, None, None
        if numNodes == 0:
            return cuda.SUCCESS, [], len(found.nodes)
        return cuda.SUCCESS, [node_handle(node) for node in found.nodes[:numNodes]], min(numNodes, len(found.nodes))

    def get_edges(graph: Any, numEdges: int = 0) -> Answer:  # noqa: N803 - cuda-bindings' name
        found = graph_of(graph)
        if found is None:
            return cuda.INVALID_VALUE, None, None, None, None
        edges = [(found.nodes[a], found.nodes[b]) for a, b in found.edges()]
        shown = edges[:numEdges]
        return (
            cuda.SUCCESS,
            [node_handle(a) for a, _ in shown],
            [node_handle(b) for _, b in shown],
            [],
            len(shown) if numEdges else len(edges),
        )

    def node_of(value: Any, graphs: list[SimGraph]) -> Node | None:
        return next((node for graph in graphs for node in graph.nodes if node.handle == number(value)), None)

    def node_type(node: Any) -> Answer:
        found = node_of(node, [*driver.graphs.values(), *(one.graph for one in driver.execs.values())])
        if found is None:
            return cuda.INVALID_VALUE, None
        return cuda.SUCCESS, Typed("cudaGraphNodeType", "CUgraphNodeType", _TYPE_NUMBERS[found.kind])

    def exec_set_memset(executable: Any, node: Any, params: Any, *_context: Any) -> Answer:
        width = int(params.elementSize)
        changed = {
            "dst": number(params.dst),
            "value": int(params.value),
            "width": width,
            "bytes": width * int(params.width) * max(1, int(params.height)),
        }
        return set_params(executable, node, changed, "cuGraphExecMemsetNodeSetParams")

    def exec_set_copy(executable: Any, node: Any, target: Any, source: Any, size: Any, _kind: Any) -> Answer:
        changed = {"dst": number(target), "src": number(source), "bytes": number(size)}
        return set_params(executable, node, changed, "cuGraphExecMemcpyNodeSetParams")

    def set_params(executable: Any, node: Any, changed: dict[str, Any], api: str) -> Answer:
        found = exec_of(executable)
        mine = found.nodes_by_handle.get(number(node)) if found is not None else None
        if found is None or mine is None:
            return (cuda.INVALID_VALUE,)
        code = driver.call(api, "cudaGraphExecUpdate(another)", exec=found.handle)
        if code == cuda.SUCCESS:
            mine.params.update(changed)
            found.look_at_memory()
        return (code,)

    both: dict[str, Callable[..., Answer]] = {
        "GraphLaunch": launch,
        "GraphUpload": upload,
        "GraphExecUpdate": update,
        "GraphDestroy": destroy,
        "GraphExecDestroy": exec_destroy,
        "GraphGetNodes": get_nodes,
        "GraphGetEdges": get_edges,
        "GraphNodeGetType": node_type,
        "GraphInstantiate": make,
        "GraphInstantiateWithFlags": make,
        "GraphExecMemsetNodeSetParams": exec_set_memset,
    }
    return {f"{prefix}{name}": call for name, call in both.items() for prefix in ("cuda", "cu")} | {
        "cudaGraphExecMemcpyNodeSetParams1D": exec_set_copy,
    }
