"""cudaMalloc, cudaMemcpy, cudaMemset and their like."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from cudagraph_doctor.sim import cuda_error as cuda
from cudagraph_doctor.sim.bindings.values import Typed, number, stream_of
from cudagraph_doctor.sim.capture import Node, NodeKind
from cudagraph_doctor.sim.graphs import run_copy, run_memset
from cudagraph_doctor.sim.memory_span import Span
from cudagraph_doctor.sim.simulation import Simulation

OUT_OF_MEMORY = 2


def calls(sim: Simulation) -> dict[str, Callable[..., tuple[Any, ...]]]:
    """The calls of this file, by name."""
    driver = sim.driver

    def pointer(address: int) -> Typed:
        return Typed("", "CUdeviceptr", address)

    def take(size: int) -> int | None:
        return sim.allocators[sim.streams().device].space.take(max(size, 1))

    def malloc(api: str, rule: str, size: Any, *_flags: Any) -> tuple[Any, ...]:
        code = driver.call(api, rule, size=number(size))
        address = take(number(size)) if code == cuda.SUCCESS else None
        if code == cuda.SUCCESS and address is None:
            code = OUT_OF_MEMORY
        return code, pointer(address or 0)

    def free(api: str, rule: str, address: Any) -> tuple[Any, ...]:
        sim.streams().context = True
        if number(address) == 0:
            return (cuda.SUCCESS,)
        code = driver.call(api, rule, ptr=hex(number(address)))
        if code == cuda.SUCCESS:
            for memory in sim.allocators:
                size = memory.space.give_back(number(address))
                if size is not None:
                    sim.arena.give_pages_back(number(address), size)
                    return (cuda.SUCCESS,)
            return (cuda.INVALID_VALUE,)
        return (code,)

    def malloc_async(size: Any, stream: Any, *_rest: Any) -> tuple[Any, ...]:
        target = stream_of(sim, stream)
        if target is None:
            return cuda.INVALID_HANDLE, None
        capture = target.capture
        if capture is None:
            code = driver.call("cuMemAllocAsync", "cudaMallocAsync(other)", target, size=number(size))
        else:
            code = driver.call("cuMemAllocAsync", "cudaMallocAsync(capturing)", target, size=number(size))
        if code != cuda.SUCCESS:
            return code, None
        address = take(number(size))
        if address is None:
            return OUT_OF_MEMORY, None
        if capture is not None:
            node = Node(NodeKind.MEM_ALLOC, "mem_alloc", lambda: None, params={"ptr": address})
            driver.add_node(target, node)
        return code, pointer(address)

    def free_async(address: Any, stream: Any) -> tuple[Any, ...]:
        target = stream_of(sim, stream)
        if target is None:
            return (cuda.INVALID_HANDLE,)
        if target.capture is None:
            return free("cuMemFreeAsync", "cudaFreeAsync(other)", address)
        mine = any(
            node.kind is NodeKind.MEM_ALLOC and node.params.get("ptr") == number(address)
            for node in target.capture.nodes
        )
        if not mine:
            return (driver.call("cuMemFreeAsync", "cudaFreeAsync(capturing, outside ptr)", target),)
        node = Node(NodeKind.MEM_FREE, "mem_free", lambda: None, params={"ptr": number(address)})
        driver.add_node(target, node)
        return (cuda.SUCCESS,)

    def queue(
        api: str, kind: NodeKind, run: Callable[[dict[str, Any]], None], stream: Any, params: dict[str, Any]
    ) -> int:
        """Put a copy or memset on a stream: run it now, or record a node that reads its parameters when it runs."""
        target = stream_of(sim, stream)
        if target is None:
            return cuda.INVALID_HANDLE
        node = Node(kind, kind.value, lambda: None, params=params)
        node.execute = functools.partial(run, node.params)
        code = driver.submit(api, target, size=params["bytes"], ptr=hex(params["dst"]), node=node.handle)
        if code != cuda.SUCCESS:
            return code
        if target.capture is not None:
            driver.add_node(target, node)
        else:
            node.execute()
            source = [Span(params["src"], params["bytes"])] if "src" in params else []
            sim.races.graph_launch(target, api, source, [Span(params["dst"], params["bytes"])])
        return code

    def memset_async(api: str, width: int, address: Any, value: Any, count: Any, stream: Any) -> tuple[Any, ...]:
        params = {"dst": number(address), "value": number(value), "width": width, "bytes": width * number(count)}
        return (queue(api, NodeKind.MEMSET, run_memset, stream, params),)

    def memset(api: str, width: int, address: Any, value: Any, count: Any) -> tuple[Any, ...]:
        code = driver.call(api, "cudaMemset sync", driver.defaults[sim.streams().device])
        if code == cuda.SUCCESS:
            run_memset({"dst": number(address), "value": number(value), "width": width, "bytes": width * number(count)})
        return (code,)

    def copy_async(api: str, target: Any, source: Any, size: Any, stream: Any) -> tuple[Any, ...]:
        params = {"dst": number(target), "src": number(source), "bytes": number(size)}
        return (queue(api, NodeKind.MEMCPY, run_copy, stream, params),)

    def copy(api: str, target: Any, source: Any, size: Any) -> tuple[Any, ...]:
        into_device = sim.arena.holds(number(target))
        rule = "cudaMemcpy D2D sync" if into_device and sim.arena.holds(number(source)) else "cudaMemcpy H2D sync"
        code = driver.call(api, rule, driver.defaults[sim.streams().device], size=number(size))
        if code == cuda.SUCCESS:
            ctypes.memmove(number(target), number(source), number(size))
        return (code,)

    def runtime_copy(target: Any, source: Any, size: Any, _kind: Any) -> tuple[Any, ...]:
        return copy("cuMemcpy", target, source, size)

    def runtime_copy_async(target: Any, source: Any, size: Any, _kind: Any, stream: Any) -> tuple[Any, ...]:
        return copy_async("cuMemcpyAsync", target, source, size, stream)

    def host_alloc(api: str, size: Any, *_flags: Any) -> tuple[Any, ...]:
        code = driver.call(api, "cudaHostAlloc", size=number(size))
        return code, sim.pinned.allocate(number(size))[0] if code == cuda.SUCCESS else None

    def host_free(_address: Any) -> tuple[Any, ...]:
        return (driver.call("cuMemFreeHost", "cudaFreeHost"),)

    def mem_get_info() -> tuple[Any, ...]:
        total = sim.arena.bytes_per_device
        return cuda.SUCCESS, total - sim.allocators[sim.streams().device].space.used, total

    partial = functools.partial
    return {
        "cudaMalloc": partial(malloc, "cuMemAlloc_v2", "cudaMalloc"),
        "cuMemAlloc": partial(malloc, "cuMemAlloc_v2", "cudaMalloc"),
        "cudaMallocManaged": partial(malloc, "cuMemAllocManaged", "cudaMallocManaged"),
        "cuMemAllocManaged": partial(malloc, "cuMemAllocManaged", "cudaMallocManaged"),
        "cudaFree": partial(free, "cuMemFree_v2", "cudaFree"),
        "cuMemFree": partial(free, "cuMemFree_v2", "cudaFree"),
        "cudaMallocAsync": malloc_async,
        "cuMemAllocAsync": malloc_async,
        "cudaFreeAsync": free_async,
        "cuMemFreeAsync": free_async,
        "cudaMallocHost": partial(host_alloc, "cuMemHostAlloc"),
        "cudaHostAlloc": partial(host_alloc, "cuMemHostAlloc"),
        "cuMemHostAlloc": partial(host_alloc, "cuMemHostAlloc"),
        "cuMemAllocHost": partial(host_alloc, "cuMemHostAlloc"),
        "cudaFreeHost": host_free,
        "cuMemFreeHost": host_free,
        "cudaMemset": partial(memset, "cuMemsetD8_v2", 1),
        "cuMemsetD8": partial(memset, "cuMemsetD8_v2", 1),
        "cuMemsetD32": partial(memset, "cuMemsetD32_v2", 4),
        "cudaMemsetAsync": partial(memset_async, "cuMemsetD8Async", 1),
        "cuMemsetD8Async": partial(memset_async, "cuMemsetD8Async", 1),
        "cuMemsetD32Async": partial(memset_async, "cuMemsetD32Async", 4),
        "cudaMemcpy": runtime_copy,
        "cudaMemcpyAsync": runtime_copy_async,
        "cuMemcpy": partial(copy, "cuMemcpy"),
        "cuMemcpyHtoD": partial(copy, "cuMemcpyHtoD_v2"),
        "cuMemcpyDtoH": partial(copy, "cuMemcpyDtoH_v2"),
        "cuMemcpyDtoD": partial(copy, "cuMemcpyDtoD_v2"),
        "cuMemcpyAsync": partial(copy_async, "cuMemcpyAsync"),
        "cuMemcpyHtoDAsync": partial(copy_async, "cuMemcpyHtoDAsync_v2"),
        "cuMemcpyDtoHAsync": partial(copy_async, "cuMemcpyDtoHAsync_v2"),
        "cuMemcpyDtoDAsync": partial(copy_async, "cuMemcpyDtoDAsync_v2"),
        "cudaMemGetInfo": mem_get_info,
        "cuMemGetInfo": mem_get_info,
    }
