"""The reader of graphs, against a driver in Python that has the structures of cuda.h."""

# ruff: noqa: N802 - the names are CUDA's
from __future__ import annotations

import ctypes
from typing import Any

import pytest

from cudagraph_doctor.probe.graphwalk import structures as cu
from cudagraph_doctor.probe.graphwalk.node_ops import NodeOps
from cudagraph_doctor.probe.graphwalk.pointers import KnownMemory
from cudagraph_doctor.probe.graphwalk.reader import GraphReader

GRAPH, BODY, KERNEL, COPY, FILL, CHILD, PACKED, INNER = 0x100, 0x200, 0x11, 0x12, 0x13, 0x14, 0x15, 0x21
FUNCTION, PACKED_FUNCTION = 0x900, 0x901
HELD = 0x7F00_0000_0000


class Blob(ctypes.Structure):
    """A structure by value that hides an address."""

    _fields_ = (("count", ctypes.c_uint64), ("data", ctypes.c_uint64))


class FakeDriver:
    """One graph: a kernel, a copy, a memset, a child graph and a kernel whose parameters are packed."""

    def __init__(self) -> None:
        self.graphs = {GRAPH: [KERNEL, COPY, FILL, CHILD, PACKED], BODY: [INNER]}
        self.types = {KERNEL: 0, COPY: 1, FILL: 2, CHILD: 4, PACKED: 0, INNER: 2}
        self.pointer, self.number = ctypes.c_uint64(HELD + 64), ctypes.c_uint32(7)
        self.blob = Blob(3, HELD + 128)
        values = (self.pointer, self.number, self.blob)
        self.values = (ctypes.c_void_p * 3)(*map(ctypes.addressof, values))
        self.buffer = (ctypes.c_uint64 * 2)(5, HELD + 256)
        self.bytes = ctypes.c_size_t(16)
        self.extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(self.buffer), 2, ctypes.addressof(self.bytes), 0)
        self.edges = [(KERNEL, COPY, 0), (COPY, FILL, 1)]

    def cuGraphGetNodes(self, graph: Any, nodes: Any, count: Any) -> int:
        found = self.graphs[graph.value]
        if nodes is not None:
            nodes[: len(found)] = found
        count._obj.value = len(found)
        return 0

    def cuGraphNodeGetType(self, node: Any, kind: Any) -> int:
        kind._obj.value = self.types[node.value]
        return 0

    def cuGraphGetEdges_v2(self, graph: Any, sources: Any, targets: Any, data: Any, count: Any) -> int:
        found = self.edges if graph.value == GRAPH else []
        for place, (source, target, kind) in enumerate(found if sources is not None else ()):
            sources[place], targets[place], data[place].type = source, target, bytes([kind])
        count._obj.value = len(found)
        return 0

    def cuGraphKernelNodeGetParams_v2(self, node: Any, params: Any) -> int:
        told = params._obj
        told.grid[:], told.block[:], told.smem = (2, 3, 1), (128, 1, 1), 512
        if node.value == KERNEL:
            told.func, told.params = FUNCTION, ctypes.addressof(self.values)
        else:
            told.kern, told.extra, told.ctx = PACKED_FUNCTION, ctypes.addressof(self.extra), 0xC0
        return 0

    def cuFuncGetName(self, name: Any, function: Any) -> int:
        name._obj.value = b"_Z5scalePff"
        return 0

    def cuKernelGetName(self, name: Any, function: Any) -> int:
        name._obj.value = b"nvjet_tst_128x64"
        return 0

    def cuFuncGetAttribute(self, value: Any, attribute: int, function: Any) -> int:
        value._obj.value = 10 + attribute
        return 0

    def cuKernelGetAttribute(self, value: Any, attribute: int, function: Any, device: Any) -> int:
        return 1

    def cuFuncGetParamInfo(self, function: Any, index: Any, offset: Any, size: Any) -> int:
        layout = [(0, 8), (8, 4), (16, 16)]
        if index.value >= len(layout):
            return 1
        offset._obj.value, size._obj.value = layout[index.value]
        return 0

    def cuKernelGetParamInfo(self, function: Any, index: Any, offset: Any, size: Any) -> int:
        if index.value:
            return 1
        offset._obj.value, size._obj.value = 0, 16
        return 0

    def cuCtxGetDevice(self, device: Any) -> int:
        return 0

    def cuGraphMemcpyNodeGetParams(self, node: Any, params: Any) -> int:
        told = params._obj
        told.src.kind, told.src.host, told.src.x = cu.HOST_MEMORY, 0x5000, 16
        told.dst.kind, told.dst.device, told.dst.y, told.dst.pitch = cu.DEVICE_MEMORY, HELD, 2, 256
        told.width, told.height, told.depth = 64, 1, 1
        return 0

    def cuGraphMemsetNodeGetParams(self, node: Any, params: Any) -> int:
        told = params._obj
        told.dst, told.width, told.element, told.height, told.pitch = HELD, 16, 4, 2, 1024
        return 0

    def cuGraphChildGraphNodeGetGraph(self, node: Any, graph: Any) -> int:
        graph._obj.value = BODY
        return 0


@pytest.fixture
def walk() -> Any:
    return GraphReader(FakeDriver()).read(GRAPH)


def test_structures_are_as_large_as_in_cuda_h() -> None:
    kinds = (cu.KernelParams, cu.CopyParams, cu.MemsetParams, cu.AllocParams, cu.NodeParams, cu.EdgeData)
    assert [ctypes.sizeof(kind) for kind in kinds] == [72, 200, 40, 120, 256, 8]
    assert (cu.KernelParams.params.offset, cu.KernelParams.ctx.offset) == (40, 64)
    assert (cu.AllocParams.size.offset, cu.NodeParams.bodies.offset) == (104, 32)


def test_every_node_is_read_and_child_graphs_are_entered(walk: Any) -> None:
    assert [(node.type, node.parent) for node in walk.nodes] == [
        ("kernel", 0), ("memcpy", 0), ("memset", 0), ("child", 0), ("memset", CHILD), ("kernel", 0),
    ]  # fmt: skip
    assert (walk.sources, walk.targets, walk.kinds) == ([KERNEL, COPY], [COPY, FILL], {1: "programmatic"})
    assert walk.whole


def test_a_kernel_has_its_launch_and_its_resources(walk: Any) -> None:
    kernel = walk.nodes[0]
    assert (kernel.grid, kernel.block, kernel.smem) == ((2, 3, 1), (128, 1, 1), 512)
    assert kernel.kernel in {"scale(float*, float)", "_Z5scalePff"}  # where no C++ library is mapped
    assert kernel.function == {"static_smem": 11, "local": 13, "regs": 14, "max_smem": 18}


def test_addresses_are_told_from_numbers_and_from_words_of_structures(walk: Any) -> None:
    memory = KnownMemory([(HELD, 4096)])
    assert memory.split(walk.nodes[0].params, opaque=False) == ([HELD + 64], [HELD + 128])


def test_packed_parameters_are_opaque(walk: Any) -> None:
    packed = walk.nodes[-1]
    assert packed.opaque
    assert packed.context == 0xC0
    assert KnownMemory([(HELD, 4096)]).split(packed.params, opaque=True) == ([], [HELD + 256])


def test_ends_of_copies_and_memsets(walk: Any) -> None:
    copy, fill = walk.nodes[1], walk.nodes[2]
    assert (copy.src, copy.dst, copy.size) == (0x5010, HELD + 512, 64)
    assert (fill.dst, fill.size) == (HELD, 16 * 4 + 1024)


def test_a_driver_that_refuses_everything_gives_no_nodes() -> None:
    class Refusing(FakeDriver):
        def cuGraphGetNodes(self, graph: Any, nodes: Any, count: Any) -> int:
            return 1

    assert GraphReader(Refusing()).read(GRAPH).nodes == []


def test_ranges_may_lie_in_each_other() -> None:
    memory = KnownMemory([(100, 100), (120, 10), (300, 1)])
    assert [memory.holds(address) for address in (99, 100, 140, 199, 200, 300, 301)] == [
        False, True, True, True, False, True, False,
    ]  # fmt: skip


def test_nodes_between_two_marks_are_the_operators() -> None:
    ops = NodeOps()
    for handle, q in ((1, 7), (1, 0), (3, 0), (5, 9)):  # 2 and 3 were launched past torch, 4 and 5 by operator 9
        ops.mark(handle, q)
    assert ops.by_handle([1, 2, 3, 4, 5, 6]) == {1: 7, 4: 9, 5: 9}


def test_nodes_in_another_order_keep_only_what_was_seen() -> None:
    ops = NodeOps()
    ops.mark(5, 7)
    ops.mark(1, 9)
    assert ops.by_handle([1, 5, 6]) == {1: 9, 5: 7}
