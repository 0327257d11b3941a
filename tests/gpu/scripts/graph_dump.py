"""Run a script and write the graph of each capture as text: `python graph_dump.py FOLDER script.py`.

One line a node (type, kernel, launch configuration; memcpy and memset sizes) and the list of edges, read through
cuda-bindings from the graph that torch is asked to keep. The same question is put to a run with the recorder and to one
without it, so that their graphs can be compared node for node.
"""

import itertools
import runpy
import sys
from pathlib import Path

import torch
from cuda.bindings import driver

folder, sys.argv = Path(sys.argv[1]), sys.argv[2:]
number = itertools.count(1)
KERNEL = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL


def ask(answer):
    error, *rest = answer
    if int(error) != 0:
        raise RuntimeError(error.name)
    return rest


def kernel(node):
    [found] = ask(driver.cuGraphKernelNodeGetParams(node))
    try:
        [name] = ask(driver.cuFuncGetName(found.func))
    except RuntimeError:
        [name] = ask(driver.cuKernelGetName(found.kern))
    grid = (found.gridDimX, found.gridDimY, found.gridDimZ)
    block = (found.blockDimX, found.blockDimY, found.blockDimZ)
    return f"{name.decode()} {grid} {block} {found.sharedMemBytes}"


def describe(raw):
    graph = driver.CUgraph(raw)
    count = ask(driver.cuGraphGetNodes(graph, 0))[-1]
    nodes = ask(driver.cuGraphGetNodes(graph, count))[0] if count else []
    index = {int(node): place for place, node in enumerate(nodes)}
    lines = []
    for place, node in enumerate(nodes):
        [kind] = ask(driver.cuGraphNodeGetType(node))
        lines.append(f"{place} {kind.name} {kernel(node) if kind == KERNEL else ''}")
    count = ask(driver.cuGraphGetEdges(graph, 0))[-1]
    if count:
        sources, targets, *_ = ask(driver.cuGraphGetEdges(graph, count))
        lines.append(str(sorted((index[int(a)], index[int(b)]) for a, b in zip(sources, targets, strict=True))))
    return "\n".join(lines) + "\n"


class KeepingGraph(torch.cuda.CUDAGraph):
    """Keeps its graph, writes it down, and is instantiated at once, as the script expects."""

    def __new__(cls, keep_graph=False):
        del keep_graph
        return super().__new__(cls, True)

    def __init__(self, keep_graph=False):
        super().__init__(True)
        self.user_keeps = keep_graph

    def capture_end(self):
        super().capture_end()
        (folder / f"{next(number):03d}.txt").write_text(describe(self.raw_cuda_graph()))
        if not self.user_keeps:
            self.instantiate()


torch.cuda.CUDAGraph = torch.cuda.graphs.CUDAGraph = KeepingGraph
sys.path[0] = str(Path(sys.argv[0]).parent)
runpy.run_path(sys.argv[0], run_name="__main__")
