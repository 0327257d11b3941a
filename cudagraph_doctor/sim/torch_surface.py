"""Puts the simulated device under `torch.cuda`.

PyTorch's own Python code runs on top: only what is C++ in a CUDA build is replaced, and the modules that took the old
names at their import are read again. A few Python functions that would ask NVML or the environment are replaced too.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import torch
import torch.utils._device

from cudagraph_doctor.sim.backward import run_backward_on_callers_streams
from cudagraph_doctor.sim.compiled_functions import compile_passes_through
from cudagraph_doctor.sim.launch import Launcher
from cudagraph_doctor.sim.random_generators import make_generator_class
from cudagraph_doctor.sim.simulation import Simulation
from cudagraph_doctor.sim.torch_functions import (
    DeviceProperties,
    device_functions,
    make_pool_class,
    make_runtime_module,
    memory_functions,
)
from cudagraph_doctor.sim.torch_graph import make_graph_class
from cudagraph_doctor.sim.torch_streams import make_event_class, make_stream_class, sim_stream
from cudagraph_doctor.sim.tracebacks import unseen

_READ_AGAIN = ("streams", "graphs", "memory")
"""Submodules of torch.cuda whose classes derive from, or whose imports come from, what is replaced."""


def put_under_torch(sim: Simulation, launcher: Launcher) -> None:
    """Replace the C++ side of torch.cuda in this process."""
    core: Any = torch._C
    generator_class = make_generator_class(sim)
    defaults = tuple(generator_class(f"cuda:{index}") for index in range(len(sim.allocators)))
    launcher.random.defaults = defaults

    def initialise() -> None:
        torch.cuda.default_generators = defaults

    replaced: dict[str, Any] = {
        **device_functions(sim),
        **memory_functions(sim),
        "_cuda_init": initialise,
        "_CudaStreamBase": make_stream_class(sim),
        "_CudaEventBase": make_event_class(sim),
        "_CUDAGraph": make_graph_class(sim),
        "_MemPool": make_pool_class(sim),
        "_CudaDeviceProperties": DeviceProperties,
        "_cudart": make_runtime_module(sim),
        "_has_cuda": True,
        "_has_cudnn": False,
    }
    for name, value in replaced.items():
        replaced[name] = unseen(value) if isinstance(value, types.FunctionType) else value
        setattr(core, name, replaced[name])
    torch.Generator = generator_class
    if torch.version.cuda is None:
        torch.version.cuda = "13.0"
    _cuda_module(replaced, len(sim.allocators))
    _accelerator(sim, replaced)
    run_backward_on_callers_streams(sim)
    compile_passes_through(sim)
    _storages_on_device()


def _cuda_module(replaced: dict[str, Any], devices: int) -> None:
    cuda: Any = torch.cuda
    cuda._cudart = replaced["_cudart"]
    cuda._CudaDeviceProperties = DeviceProperties
    cuda._exchange_device = replaced["_cuda_exchangeDevice"]
    cuda._maybe_exchange_device = replaced["_cuda_maybeExchangeDevice"]
    cuda._is_in_bad_fork = replaced["_cuda_isInBadFork"]
    cuda._get_device_properties = replaced["_get_device_properties"]
    # torch.cuda.random took it at its import; the real one may ask NVML, and CUDA_VISIBLE_DEVICES is empty.
    cuda.device_count = cuda.random.device_count = lambda: devices
    cuda.is_bf16_supported = lambda including_emulation=True: True
    torch.backends.cudnn.version = lambda: None
    torch.backends.cudnn.is_acceptable = lambda _tensor: False  # it would warn of the build
    for name in _READ_AGAIN:
        module = sys.modules[f"torch.cuda.{name}"]
        before = dict(vars(module))
        importlib.reload(module)
        for attribute, value in vars(module).items():
            old = before.get(attribute)
            if old is not None and old is not value and getattr(cuda, attribute, None) is old:
                setattr(cuda, attribute, value)
    cuda.is_current_stream_capturing = cuda.graphs.is_current_stream_capturing


def _accelerator(sim: Simulation, replaced: dict[str, Any]) -> None:
    """`torch.accelerator` and `torch.Stream`: the no-op guard knows neither streams nor the current device."""
    core: Any = torch._C
    core._accelerator_getDeviceIndex = replaced["_cuda_getDevice"]
    core._accelerator_setDeviceIndex = replaced["_cuda_setDevice"]
    core._accelerator_exchangeDevice = replaced["_cuda_exchangeDevice"]
    core._accelerator_maybeExchangeDevice = replaced["_cuda_maybeExchangeDevice"]
    core._accelerator_synchronizeDevice = unseen(lambda index: sim.check(sim.driver.synchronize(index)))
    core._accelerator_getStream = torch.cuda.current_stream
    core._accelerator_emptyCache = replaced["_cuda_emptyCache"]
    core._accelerator_isAllocatorInitialized = lambda: True
    core._accelerator_getDeviceStats = replaced["_cuda_memoryStats"]
    core._accelerator_resetPeakStats = replaced["_cuda_resetPeakMemoryStats"]
    core._accelerator_resetAccumulatedStats = replaced["_cuda_resetAccumulatedMemoryStats"]

    def set_stream(stream: Any) -> None:
        found = sim_stream(sim, stream)
        streams = sim.streams()
        streams.device = found.device
        streams.streams[found.device] = found

    core._accelerator_setStream = set_stream


def _storages_on_device() -> None:
    """`torch.UntypedStorage(size, device="cuda")`, which C++ knows in CUDA builds only: serialization uses it."""
    storage: Any = torch.UntypedStorage
    real = storage.__new__

    def new(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is not None and torch.device(device).type == "cuda":
            size = args[0] if args and isinstance(args[0], int) else 0
            return torch.empty(size, dtype=torch.uint8, device=device).untyped_storage()
        if device is not None:
            kwargs["device"] = device
        return real(cls, *args, **kwargs)

    storage.__new__ = staticmethod(new)
