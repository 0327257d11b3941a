"""Devices, contexts and the profiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cudagraph_doctor.sim import cuda_error as cuda
from cudagraph_doctor.sim.bindings.values import Typed, number
from cudagraph_doctor.sim.simulation import Simulation

Answer = tuple[Any, ...]
VERSION = 13000
_ATTRIBUTES = {1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2147483647, 6: 65535, 7: 65535, 8: 49152, 10: 32, 12: 65536,
               16: 132, 39: 2048, 75: 9, 76: 0, 81: 233472, 97: 232448}  # fmt: skip
"""cudaDeviceAttr to an H200's value: block and grid limits, memory sizes, multiprocessors, compute capability."""


def calls(sim: Simulation) -> dict[str, Callable[..., Answer]]:
    """The calls of this file, by name."""
    driver = sim.driver
    contexts = sim.contexts

    def device(_value: Any = 0) -> Answer:
        return cuda.SUCCESS, Typed("", "CUdevice", number(_value))

    def get_device() -> Answer:
        return cuda.SUCCESS, sim.streams().device

    def set_device(index: Any) -> Answer:
        if not 0 <= number(index) < len(sim.allocators):
            return (cuda.INVALID_DEVICE,)
        streams = sim.streams()
        streams.device, streams.context = number(index), True
        return (cuda.SUCCESS,)

    def attribute(which: Any, _device: Any) -> Answer:
        code = driver.call("cuDeviceGetAttribute", "cudaDeviceGetAttribute")
        return code, _ATTRIBUTES.get(number(which), 0)

    def synchronize() -> Answer:
        sim.streams().context = True
        return (driver.synchronize(sim.streams().device),)

    def handle(value: int) -> Typed:
        return Typed("", "CUcontext", value)

    def create(*_options: Any) -> Answer:
        code = driver.call("cuCtxCreate_v4", "cuCtxCreate")
        return (code, handle(contexts.create())) if code == cuda.SUCCESS else (code, None)

    def pop() -> Answer:
        context = contexts.pop()
        return (cuda.INVALID_CONTEXT, None) if context is None else (cuda.SUCCESS, handle(context))

    def push(context: Any) -> Answer:
        contexts.push(number(context))
        return (cuda.SUCCESS,)

    def set_current(context: Any) -> Answer:
        contexts.set_current(number(context))
        return (cuda.SUCCESS,)

    def profiler() -> Answer:
        return (driver.call("cuProfilerStart", "cudaProfilerStart"),)

    count = len(sim.allocators)
    done = (cuda.SUCCESS,)
    return {
        "cuInit": lambda _flags=0: done,
        "cuDriverGetVersion": lambda: (cuda.SUCCESS, VERSION),
        "cudaDriverGetVersion": lambda: (cuda.SUCCESS, VERSION),
        "cudaRuntimeGetVersion": lambda: (cuda.SUCCESS, VERSION),
        "cudaGetDeviceCount": lambda: (cuda.SUCCESS, count),
        "cuDeviceGetCount": lambda: (cuda.SUCCESS, count),
        "cuDeviceGet": device,
        "cudaGetDevice": get_device,
        "cudaSetDevice": set_device,
        "cudaDeviceGetAttribute": attribute,
        "cuDeviceGetAttribute": attribute,
        "cuDeviceGetName": lambda size, _device: (cuda.SUCCESS, b"cudagraph-doctor simulated device"[: number(size)]),
        "cudaDeviceSynchronize": synchronize,
        "cuCtxSynchronize": synchronize,
        "cudaGetLastError": lambda: done,
        "cudaPeekAtLastError": lambda: done,
        "cuCtxCreate": create,
        "cuCtxDestroy": lambda _context: done,
        "cuCtxGetCurrent": lambda: (cuda.SUCCESS, handle(contexts.current())),
        "cuCtxSetCurrent": set_current,
        "cuCtxPushCurrent": push,
        "cuCtxPopCurrent": pop,
        "cuCtxGetDevice": lambda: (cuda.SUCCESS, Typed("", "CUdevice", sim.streams().device)),
        "cuDevicePrimaryCtxRetain": lambda _device: (cuda.SUCCESS, handle(contexts.PRIMARY)),
        "cuDevicePrimaryCtxRelease": lambda _device: done,
        "cudaProfilerStart": profiler,
        "cudaProfilerStop": profiler,
        "cuProfilerStart": profiler,
        "cuProfilerStop": profiler,
    }
