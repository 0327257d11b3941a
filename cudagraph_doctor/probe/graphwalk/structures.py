"""Structures of the CUDA driver API (cuda.h) that describe graph nodes, on 64-bit Linux."""

from __future__ import annotations

from ctypes import Structure, c_char, c_int, c_size_t, c_uint, c_uint64, c_void_p

NODE_TYPES = (
    "kernel", "memcpy", "memset", "host", "child", "empty", "wait_event", "event_record", "semaphore_signal",
    "semaphore_wait", "mem_alloc", "mem_free", "batch_mem_op", "conditional",
)  # fmt: skip
"""By CUgraphNodeType."""
KERNEL, MEMCPY, MEMSET, HOST, CHILD = 0, 1, 2, 3, 4
MEM_ALLOC, MEM_FREE, CONDITIONAL = 10, 11, 13
EDGE_TYPES = ("full", "programmatic")
"""By CUgraphDependencyType."""

# CUmemorytype
HOST_MEMORY, DEVICE_MEMORY, ARRAY_MEMORY, UNIFIED_MEMORY = 1, 2, 3, 4

# CUfunction_attribute
ATTRIBUTES = {"static_smem": 1, "local": 3, "regs": 4, "max_smem": 8}

# Keys of the `extra` array of a launch
BUFFER_POINTER, BUFFER_SIZE = 1, 2


class KernelParams(Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2; the first version ends behind `extra`."""

    _fields_ = (
        ("func", c_void_p),
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("smem", c_uint),
        ("params", c_void_p),
        ("extra", c_void_p),
        ("kern", c_void_p),
        ("ctx", c_void_p),
    )


class CopyEnd(Structure):
    """One side of a CUDA_MEMCPY3D."""

    _fields_ = (
        ("x", c_size_t),
        ("y", c_size_t),
        ("z", c_size_t),
        ("lod", c_size_t),
        ("kind", c_int),
        ("host", c_void_p),
        ("device", c_uint64),
        ("array", c_void_p),
        ("reserved", c_void_p),
        ("pitch", c_size_t),
        ("height", c_size_t),
    )


class CopyParams(Structure):
    """CUDA_MEMCPY3D."""

    _fields_ = (("src", CopyEnd), ("dst", CopyEnd), ("width", c_size_t), ("height", c_size_t), ("depth", c_size_t))


class MemsetParams(Structure):
    """CUDA_MEMSET_NODE_PARAMS."""

    _fields_ = (
        ("dst", c_uint64),
        ("pitch", c_size_t),
        ("value", c_uint),
        ("element", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
    )


class AllocParams(Structure):
    """CUDA_MEM_ALLOC_NODE_PARAMS, of whose pool properties only the size matters here."""

    _fields_ = (
        ("pool", c_uint64 * 11),
        ("access", c_void_p),
        ("access_count", c_size_t),
        ("size", c_size_t),
        ("ptr", c_uint64),
    )


class NodeParams(Structure):
    """CUgraphNodeParams, read for conditional nodes only."""

    _fields_ = (
        ("type", c_int),
        ("reserved0", c_int * 3),
        ("handle", c_uint64),
        ("kind", c_int),
        ("count", c_uint),
        ("bodies", c_void_p),
        ("ctx", c_void_p),
        ("rest", c_uint64 * 25),
        ("reserved2", c_uint64),
    )


class EdgeData(Structure):
    """CUgraphEdgeData."""

    _fields_ = (("source_port", c_char), ("target_port", c_char), ("type", c_char), ("reserved", c_char * 5))
