"""The functions `torch._C._cuda_*` that PyTorch's own `torch/cuda/*.py` calls, on a simulated device."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from typing import Any

from cudagraph_doctor.sim import cuda_error as cuda
from cudagraph_doctor.sim.backward import Accumulators
from cudagraph_doctor.sim.caching_allocator import DEFAULT_POOL, PoolId
from cudagraph_doctor.sim.memory_statistics import memory_snapshot, memory_stats, reset_peaks, reset_totals
from cudagraph_doctor.sim.simulation import Simulation
from cudagraph_doctor.sim.streams import SimStream
from cudagraph_doctor.sim.torch_graph import graph_pool_handle

Function = Callable[..., Any]
_CUDA = 1
ARCHITECTURES = "sm_80 sm_90"


class DeviceProperties:
    """`torch.cuda.get_device_properties`: the H200's limits, with the arena's memory."""

    name = "cudagraph-doctor simulated device"
    major, minor = 9, 0
    multi_processor_count = 132
    is_integrated = is_multi_gpu_board = 0
    max_threads_per_multi_processor, max_threads_per_block = 2048, 1024
    warp_size, regs_per_multiprocessor = 32, 65536
    shared_memory_per_block, shared_memory_per_block_optin, shared_memory_per_multiprocessor = 49152, 232448, 233472
    L2_cache_size = 50 << 20
    clock_rate, memory_clock_rate, memory_bus_width = 1_980_000, 3_201_000, 6144
    gcnArchName = ""  # noqa: N815 - torch's name
    uuid = "00000000-0000-0000-0000-000000000000"
    pci_bus_id = pci_device_id = pci_domain_id = 0

    def __init__(self, total_memory: int) -> None:
        self.total_memory = total_memory

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory >> 20}MB, multi_processor_count={self.multi_processor_count})"
        )


def device_functions(sim: Simulation) -> dict[str, Function]:
    """Devices and current streams."""
    count = len(sim.allocators)
    accumulators = Accumulators()
    properties = [DeviceProperties(sim.arena.bytes_per_device) for _ in range(count)]

    def checked(index: int) -> int:
        if not 0 <= index < count:
            raise cuda.cuda_error(cuda.INVALID_DEVICE)
        return index

    def set_device(index: int) -> None:
        streams = sim.streams()
        streams.device = checked(index)
        streams.context = True

    def exchange_device(index: int) -> int:
        streams = sim.streams()
        before: int = streams.device
        if index >= 0:
            streams.device = checked(index)
        return before

    def triple(stream: SimStream) -> tuple[int, int, int]:
        return stream.handle, stream.device, _CUDA

    def set_stream(stream_id: int, device_index: int, device_type: int) -> None:
        stream = sim.driver.stream_of(stream_id, device_index)
        if stream is None:
            raise cuda.cuda_error(cuda.INVALID_HANDLE)
        streams = sim.streams()
        if streams.streams[device_index].legacy and not stream.legacy:
            accumulators.leaving_default_stream()
        streams.device = device_index
        streams.streams[device_index] = stream

    def index_or_current(index: int) -> int:
        return int(sim.streams().device) if index < 0 else checked(index)

    def is_capturing() -> bool:
        return sim.stream_on(sim.streams().device).capture is not None

    return {
        "_cuda_getDeviceCount": lambda: count,
        "_cuda_getDevice": lambda: sim.streams().device,
        "_cuda_setDevice": set_device,
        "_cuda_exchangeDevice": exchange_device,
        "_cuda_maybeExchangeDevice": exchange_device,
        "_cuda_canDeviceAccessPeer": lambda device, peer: checked(device) != checked(peer),
        "_cuda_hasPrimaryContext": lambda _device: True,
        "_cuda_isInBadFork": lambda: False,
        "_cuda_getArchFlags": lambda: ARCHITECTURES,
        "_cuda_getCompiledVersion": lambda: 13000,
        "_get_device_properties": lambda index: properties[checked(index)],
        "_cuda_synchronize": lambda: sim.check(sim.driver.synchronize(sim.streams().device)),
        "_cuda_getCurrentStream": lambda index: triple(sim.stream_on(index_or_current(index))),
        "_cuda_getDefaultStream": lambda index: triple(sim.driver.defaults[index_or_current(index)]),
        "_cuda_getCurrentRawStream": lambda index: sim.stream_on(index_or_current(index)).handle,
        "_cuda_getStreamFromExternal": lambda handle, index: (handle, index, _CUDA),
        "_cuda_setStream": set_stream,
        "_cuda_isCurrentStreamCapturing": is_capturing,
        "_cuda_sleep": lambda _cycles: sim.check(sim.sleep()),
        "_cuda_get_sync_debug_mode": lambda: 0,
        "_cuda_set_sync_debug_mode": lambda _mode: None,
        "_cuda_ipc_collect": lambda: None,
        "_cuda_lock_mutex": lambda: None,
        "_cuda_unlock_mutex": lambda: None,
        "_cuda_clearCublasWorkspaces": lambda: None,
    }


def memory_functions(sim: Simulation) -> dict[str, Function]:
    """The caching allocators, graph pools and the host allocator."""

    def empty_cache() -> None:
        sim.factory.collect()
        for memory in sim.allocators:
            memory.release_passed_streams()
            memory.empty_cache()

    def set_fraction(fraction: float, device: int) -> None:
        sim.allocators[device].limit = int(fraction * sim.arena.bytes_per_device)

    def begin_pool(_device: int, pool: PoolId) -> None:
        sim.pool_context[threading.get_ident()] = tuple(pool)  # type: ignore[assignment]

    def end_pool(_device: int, _pool: PoolId) -> None:
        sim.pool_context.pop(threading.get_ident(), None)

    def release_pool(device: int, pool: PoolId) -> None:
        sim.allocators[device].leave_pool(tuple(pool))  # type: ignore[arg-type]

    def raw_alloc(size: int, stream: int) -> int:
        device = sim.streams().device
        found = sim.driver.stream_of(stream, device)
        return sim.allocate(size, device, found or sim.stream_on(device)).address

    def raw_delete(address: int) -> None:
        sim.free_raw(address)

    return {
        "_graph_pool_handle": graph_pool_handle,
        "_cuda_emptyCache": empty_cache,
        "_host_emptyCache": lambda: None,
        "_cuda_memoryStats": lambda device: memory_stats(sim, device),
        "_cuda_memorySnapshot": lambda options=None: memory_snapshot(sim, (options or DEFAULT_POOL)[:2]),
        "_cuda_record_memory_history": lambda *_args, **_kwargs: None,
        "_cuda_record_memory_history_legacy": lambda *_args, **_kwargs: None,
        "_cuda_isHistoryEnabled": lambda: False,
        "_cuda_resetPeakMemoryStats": lambda device: reset_peaks(sim.allocators[device]),
        "_cuda_resetAccumulatedMemoryStats": lambda device: reset_totals(sim.allocators[device]),
        "_cuda_hostMemoryStats": dict,
        "_cuda_resetPeakHostMemoryStats": lambda: None,
        "_cuda_resetAccumulatedHostMemoryStats": lambda: None,
        "_cuda_setMemoryFraction": set_fraction,
        "_cuda_getMemoryFraction": lambda device: sim.allocators[device].limit / sim.arena.bytes_per_device,
        "_cuda_getAllocatorBackend": lambda: "native",
        "_cuda_cudaCachingAllocator_raw_alloc": raw_alloc,
        "_cuda_cudaCachingAllocator_raw_delete": raw_delete,
        "_cuda_cudaCachingAllocator_is_enabled": lambda: True,
        "_cuda_cudaCachingAllocator_enable": lambda _on: None,
        "_cuda_beginAllocateToPool": begin_pool,
        "_cuda_beginAllocateCurrentThreadToPool": begin_pool,
        "_cuda_beginAllocateCurrentStreamToPool": begin_pool,
        "_cuda_endAllocateToPool": end_pool,
        "_cuda_releasePool": release_pool,
        "_cuda_checkPoolLiveAllocations": lambda *_args: True,
        "_cuda_setMemoryMetadata": lambda _text: None,
        "_cuda_getMemoryMetadata": lambda: "",
    }


def make_pool_class(sim: Simulation) -> type:
    """The class that stands for torch._C._MemPool."""

    class _MemPool:
        """A memory pool that a user made."""

        def __init__(self, *_args: object, **_kwargs: object) -> None:
            self.id = graph_pool_handle()
            self.device = sim.streams().device
            sim.allocators[self.device].use_pool(self.id)

        @property
        def allocator(self) -> None:
            return None

        def use_count(self) -> int:
            pool = sim.allocators[self.device].pools.get(self.id)
            return 0 if pool is None else pool.uses

        def __del__(self) -> None:
            if hasattr(self, "id"):
                sim.allocators[self.device].leave_pool(self.id)

    _MemPool.__module__ = "torch._C"
    return _MemPool


def make_runtime_module(sim: Simulation) -> types.SimpleNamespace:
    """`torch.cuda.cudart()`: the few runtime calls that PyTorch binds."""
    driver = sim.driver

    class cudaError(int):  # noqa: N801 - the runtime's name
        """A code that compares equal to its number."""

        success = 0

    def mem_get_info(device: int = -1) -> tuple[int, int]:
        index = int(sim.streams().device) if device < 0 else device
        total = sim.arena.bytes_per_device
        return total - sim.allocators[index].space.used, total

    def host_register(_address: int, _size: int, _flags: int) -> cudaError:
        return cudaError(driver.call("cuMemHostRegister_v2", "cudaHostRegister"))

    return types.SimpleNamespace(
        cudaError=cudaError,
        cudaGetErrorString=lambda code: cuda.error_name(int(code)),
        cudaMemGetInfo=mem_get_info,
        cudaProfilerStart=lambda: cudaError(driver.call("cuProfilerStart", "cudaProfilerStart")),
        cudaProfilerStop=lambda: cudaError(driver.call("cuProfilerStop", "cudaProfilerStart")),
        cudaHostRegister=host_register,
        cudaHostUnregister=lambda _address: cudaError(driver.call("cuMemHostUnregister", "cudaFreeHost")),
    )
