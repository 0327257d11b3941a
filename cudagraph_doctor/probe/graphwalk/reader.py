"""Reads a graph through the CUDA driver that the target has mapped.

The graph of a capture may be read while the capture is open: everything is permitted on it then but destroying it and
removing nodes (CUDA driver API, cuStreamGetCaptureInfo). So no graph has to be kept for the recorder's sake, and it
does not matter who captures. Nothing is read but what the driver keeps on the host.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_size_t, c_void_p

from cudagraph_doctor.probe.graphwalk import structures as cu
from cudagraph_doctor.probe.graphwalk.functions import Functions, Names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MOST_NODES = 20_000
"""Nodes read of one graph, those of its child graphs included."""
MOST_BYTES = 32_764
"""Parameters of a kernel (CUDA 12.1)."""
_DEPTH = 4


class WalkedNode:
    """A node, its pointers not yet told from numbers."""

    __slots__ = (
        "block", "context", "dst", "function", "grid", "handle", "kernel", "opaque", "params", "parent", "ptrs", "size",
        "smem", "src", "type",
    )  # fmt: skip

    def __init__(self, handle: int, kind: str, parent: int = 0) -> None:
        self.handle = handle
        self.type = kind
        self.parent = parent
        """Handle of the node in whose child graph or body it lies."""
        self.kernel = ""
        self.function: dict[str, int] = {}
        self.grid: tuple[int, ...] = ()
        self.block: tuple[int, ...] = ()
        self.smem = 0
        self.context = 0
        self.params: Sequence[bytes] = ()
        """The value of each kernel parameter."""
        self.opaque = False
        """The parameters are one packed buffer."""
        self.ptrs: Sequence[int] = ()
        """Addresses that are known for what they are."""
        self.src = self.dst = self.size = 0


class Walk:
    """What was read of one graph."""

    __slots__ = ("kinds", "nodes", "sources", "targets", "whole")

    def __init__(self) -> None:
        self.nodes: list[WalkedNode] = []
        self.sources: list[int] = []
        """Of each edge: handle of the node that comes first."""
        self.targets: list[int] = []
        self.kinds: dict[int, str] = {}
        """Type of the dependency by the edge's place in these lists, where it is not `full`."""
        self.whole = True
        """False: the graph is larger than what is read."""


class GraphReader:
    """Reads graphs by handle."""

    def __init__(self, lib: Any) -> None:
        self._lib = lib
        self._names = Names()
        self._kernel_params = getattr(lib, "cuGraphKernelNodeGetParams_v2", None) or lib.cuGraphKernelNodeGetParams
        self._edges_v2 = getattr(lib, "cuGraphGetEdges_v2", None)
        self._node_params = getattr(lib, "cuGraphNodeGetParams", None)

    def read(self, graph: int) -> Walk:
        """The nodes and edges of a graph, child graphs and the bodies of conditional nodes included."""
        walk = Walk()
        self._read(walk, Functions(self._lib, self._names), graph, 0, 0)
        return walk

    def _read(self, walk: Walk, functions: Functions, graph: int, parent: int, depth: int) -> None:
        count = c_size_t()
        handle = c_void_p(graph)
        if self._lib.cuGraphGetNodes(handle, None, byref(count)) != 0 or not count.value:
            return
        nodes = (c_void_p * count.value)()
        if self._lib.cuGraphGetNodes(handle, nodes, byref(count)) != 0:
            return
        for number in nodes[: count.value]:
            if len(walk.nodes) >= MOST_NODES:
                walk.whole = False
                return
            if number:
                self._node(walk, functions, number, parent, depth)
        self._edges(walk, handle)

    def _edges(self, walk: Walk, graph: c_void_p) -> None:
        count = c_size_t()
        ask = self._edges_v2
        first = (graph, None, None, None, byref(count)) if ask is not None else (graph, None, None, byref(count))
        if (ask or self._lib.cuGraphGetEdges)(*first) != 0 or not count.value:
            return
        number = count.value
        sources, targets = (c_void_p * number)(), (c_void_p * number)()
        data = (cu.EdgeData * number)()
        if ask is not None:
            code = ask(graph, sources, targets, data, byref(count))
        else:
            code = self._lib.cuGraphGetEdges(graph, sources, targets, byref(count))
        if code != 0:
            return
        before = len(walk.sources)
        walk.sources += [handle or 0 for handle in sources]
        walk.targets += [handle or 0 for handle in targets]
        for place, entry in enumerate(data):
            kind = entry.type[0] if entry.type else 0
            if kind:
                walk.kinds[before + place] = cu.EDGE_TYPES[kind] if kind < len(cu.EDGE_TYPES) else str(kind)

    # ── nodes by type ───────────────────────────────────────────────────────────────────────────
    def _node(self, walk: Walk, functions: Functions, number: int, parent: int, depth: int) -> None:
        kind = ctypes.c_int()
        handle = c_void_p(number)
        if self._lib.cuGraphNodeGetType(handle, byref(kind)) != 0:
            return
        name = cu.NODE_TYPES[kind.value] if 0 <= kind.value < len(cu.NODE_TYPES) else str(kind.value)
        node = WalkedNode(number, name, parent)
        walk.nodes.append(node)
        if kind.value == cu.KERNEL:
            self._kernel(node, functions, handle)
        elif kind.value == cu.MEMCPY:
            self._copy(node, handle)
        elif kind.value == cu.MEMSET:
            self._memset(node, handle)
        elif kind.value == cu.MEM_ALLOC:
            params = cu.AllocParams()
            if self._lib.cuGraphMemAllocNodeGetParams(handle, byref(params)) == 0:
                node.dst, node.size = params.ptr, params.size
        elif kind.value == cu.MEM_FREE:
            address = ctypes.c_uint64()
            if self._lib.cuGraphMemFreeNodeGetParams(handle, byref(address)) == 0:
                node.dst = address.value
        elif depth < _DEPTH:
            for body in self._bodies(kind.value, handle):
                self._read(walk, functions, body, number, depth + 1)

    def _kernel(self, node: WalkedNode, functions: Functions, handle: c_void_p) -> None:
        params = cu.KernelParams()
        if self._kernel_params(handle, byref(params)) != 0:
            node.opaque = True
            return
        node.grid, node.block, node.smem = tuple(params.grid), tuple(params.block), params.smem
        node.context = params.ctx or 0
        function = None
        if params.func or params.kern:
            function = functions.of(params.func or params.kern, kernel=not params.func)
            node.kernel, node.function = function.name, function.attributes
        layout = function.parameters if function is not None else None
        if params.params and layout is not None:
            values = (c_void_p * len(layout)).from_address(params.params)
            node.params = [
                ctypes.string_at(value, size)
                for value, (_offset, size) in zip(values, layout, strict=True)
                if value and 0 < size <= MOST_BYTES
            ]
            return
        node.opaque = layout is None or bool(layout) or bool(params.extra)
        if params.extra:
            node.params = _split(_packed(params.extra), layout)

    def _copy(self, node: WalkedNode, handle: c_void_p) -> None:
        params = cu.CopyParams()
        if self._lib.cuGraphMemcpyNodeGetParams(handle, byref(params)) != 0:
            return
        node.src, node.dst = _address(params.src), _address(params.dst)
        node.size = params.width * max(params.height, 1) * max(params.depth, 1)

    def _memset(self, node: WalkedNode, handle: c_void_p) -> None:
        params = cu.MemsetParams()
        if self._lib.cuGraphMemsetNodeGetParams(handle, byref(params)) != 0:
            return
        rows = max(params.height, 1)
        node.dst = params.dst
        node.size = params.width * params.element + (rows - 1) * params.pitch

    def _bodies(self, kind: int, handle: c_void_p) -> list[int]:
        if kind == cu.CHILD:
            graph = c_void_p()
            if self._lib.cuGraphChildGraphNodeGetGraph(handle, byref(graph)) == 0 and graph.value:
                return [graph.value]
        elif kind == cu.CONDITIONAL and self._node_params is not None:
            params = cu.NodeParams()
            if self._node_params(handle, byref(params)) == 0 and params.type == kind and params.bodies:
                return [body for body in (c_void_p * params.count).from_address(params.bodies) if body]
        return []


def _address(end: cu.CopyEnd) -> int:
    """First byte of one side of a copy; 0 for an array, which has none."""
    if end.kind == cu.ARRAY_MEMORY:
        return 0
    start = end.host if end.kind == cu.HOST_MEMORY else end.device
    rows = end.y + end.z * end.height
    return int(start or 0) + int(end.x + rows * end.pitch)


def _packed(extra: int) -> bytes:
    """The buffer of a launch through `extra`: a list of keys and values that ends with 0."""
    words = ctypes.cast(extra, ctypes.POINTER(ctypes.c_uint64))
    pointer = size = place = 0
    while words[place] and place < 16:
        if words[place] == cu.BUFFER_POINTER:
            pointer = words[place + 1]
        elif words[place] == cu.BUFFER_SIZE and words[place + 1]:
            size = ctypes.c_size_t.from_address(words[place + 1]).value
        place += 2
    return ctypes.string_at(pointer, size) if pointer and 0 < size <= MOST_BYTES else b""


def _split(buffer: bytes, layout: list[tuple[int, int]] | None) -> list[bytes]:
    if not layout:
        return [buffer] if buffer else []
    return [buffer[offset : offset + size] for offset, size in layout if offset + size <= len(buffer)]
