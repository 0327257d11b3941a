"""`torch._C._CudaStreamBase` and `_CudaEventBase`: the bases of PyTorch's own Stream and Event classes."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from cudagraph_doctor.sim import cuda_error as cuda
from cudagraph_doctor.sim.simulation import Simulation
from cudagraph_doctor.sim.streams import SimEvent, SimStream
from cudagraph_doctor.sim.tracebacks import unseen_methods

STREAMS_PER_POOL = 32
"""PyTorch hands out so many streams a device and priority, round robin (c10/cuda/CUDAStream.cpp)."""
_CUDA = 1


class StreamPools:
    """PyTorch's stream pools."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._pools: dict[tuple[int, int], tuple[list[SimStream], Any]] = {}

    def next(self, device: int, priority: int) -> SimStream:
        """The next stream of the pool."""
        priority = max(-3, min(0, priority))
        pool = self._pools.get((device, priority))
        if pool is None:
            pool = self._pools[device, priority] = ([], itertools.cycle(range(STREAMS_PER_POOL)))
        streams, turn = pool
        index = next(turn)
        if index == len(streams):
            streams.append(self._sim.driver.stream_create(device, priority=priority))
        return streams[index]


def make_stream_class(sim: Simulation) -> type:
    """The class that stands for torch._C._CudaStreamBase."""
    driver = sim.driver
    pools = StreamPools(sim)

    class _CudaStreamBase(torch._C.Stream):
        """A stream of a simulated device."""

        _sim: SimStream

        def __new__(
            cls,
            priority: int = 0,
            stream_id: int = 0,
            device_index: int = 0,
            device_type: int = 0,
            stream_ptr: int = 0,
        ) -> Any:
            if stream_ptr or device_type:
                handle = stream_ptr or stream_id
                device = device_index if device_type else sim.streams().device
                stream = driver.stream_of(handle, device)
                if stream is None:  # a handle that this driver did not make
                    raise cuda.cuda_error(cuda.INVALID_HANDLE)
            else:
                stream = pools.next(sim.streams().device, priority)
            self = torch._C.Stream.__new__(cls, stream_id=stream.handle, device_index=stream.device, device_type=_CUDA)
            self._sim = stream
            return self

        def __init__(self, *args: object, **kwargs: object) -> None:
            pass

        @property
        def cuda_stream(self) -> int:
            return self._sim.handle

        @property
        def priority(self) -> int:
            return self._sim.priority

        @staticmethod
        def priority_range() -> tuple[int, int]:
            return (0, -3)

        def query(self) -> bool:
            sim.check(driver.stream_synchronize(self._sim, api="cuStreamQuery", query=True))
            return True

        def synchronize(self) -> None:
            sim.check(driver.stream_synchronize(self._sim))

        def is_capturing(self) -> bool:
            return self._sim.capture is not None

        def __eq__(self, other: object) -> bool:
            return isinstance(other, torch._C.Stream) and sim_stream(sim, other) is self._sim

        def __hash__(self) -> int:
            return hash((self._sim.handle, self._sim.device))

        def __enter__(self) -> Any:
            streams = sim.streams().streams
            self._before = [*getattr(self, "_before", ()), streams[self._sim.device]]
            streams[self._sim.device] = self._sim
            return self

        def __exit__(self, *_error: object) -> None:
            sim.streams().streams[self._sim.device] = self._before.pop()

        def __reduce__(self) -> Any:
            msg = "cannot pickle a CUDA stream"
            raise TypeError(msg)

    _CudaStreamBase.__module__ = "torch._C"
    return unseen_methods(_CudaStreamBase)


def sim_stream(sim: Simulation, stream: Any) -> SimStream:
    """The simulated stream behind a torch stream of any class. Raises the CUDA error for a foreign handle."""
    found = getattr(stream, "_sim", None) or sim.driver.stream_of(stream.stream_id, stream.device_index)
    if found is None:
        raise cuda.cuda_error(cuda.INVALID_HANDLE)
    result: SimStream = found
    return result


def make_event_class(sim: Simulation) -> type:
    """The class that stands for torch._C._CudaEventBase."""
    driver = sim.driver

    class _CudaEventBase(torch._C.Event):
        """An event of a simulated device; created, like PyTorch's, when it is first recorded."""

        _sim: SimEvent | None

        def __new__(
            cls,
            enable_timing: bool = False,
            blocking: bool = False,
            interprocess: bool = False,
            external: bool = False,
        ) -> Any:
            self = torch._C.Event.__new__(
                cls, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
            )
            self._sim, self._timing, self._external = None, enable_timing, external
            return self

        def __init__(self, *args: object, **kwargs: object) -> None:
            pass

        @property
        def cuda_event(self) -> int:
            return 0 if self._sim is None else self._sim.handle

        @property
        def event_id(self) -> int:
            return self.cuda_event

        @property
        def device(self) -> Any:
            return None if self._sim is None else torch.device("cuda", self._sim.device)

        def record(self, stream: Any = None) -> None:
            target = sim_stream(sim, stream) if stream is not None else sim.stream_on(sim.streams().device)
            if self._sim is None:
                self._sim = SimEvent(driver.new_handle(), target.device)
            elif self._sim.device != target.device:
                msg = f"Event device {self._sim.device} does not match recording stream's device {target.device}."
                raise RuntimeError(msg)
            if self._external:
                sim.external_event(self._sim, target, wait=False)
            else:
                sim.check(driver.event_record(self._sim, target))

        def wait(self, stream: Any = None) -> None:
            target = sim_stream(sim, stream) if stream is not None else sim.stream_on(sim.streams().device)
            if self._sim is None:
                return
            if self._external:
                sim.external_event(self._sim, target, wait=True)
            else:
                sim.check(driver.event_wait(target, self._sim))

        def query(self) -> bool:
            if self._sim is not None:
                sim.check(driver.event_synchronize(self._sim, query=True))
            return True

        def synchronize(self) -> None:
            if self._sim is not None:
                sim.check(driver.event_synchronize(self._sim))

        def elapsed_time(self, end_event: Any) -> float:
            end: SimEvent | None = end_event._sim
            if self._sim is None or end is None:
                msg = "Both events must be recorded before calculating elapsed time."
                raise ValueError(msg)
            if not (self._timing and end_event._timing):
                msg = "Both events must be created with argument 'enable_timing=True'."
                raise ValueError(msg)
            sim.check(driver.event_elapsed(self._sim, end))
            return (end.time - self._sim.time) * 1e3

        def ipc_handle(self) -> bytes:
            raise sim.not_simulated("torch.cuda.Event.ipc_handle", "there is one process only")

        def __hash__(self) -> int:
            return id(self)

        def __eq__(self, other: object) -> bool:
            return self is other

    _CudaEventBase.__module__ = "torch._C"
    return unseen_methods(_CudaEventBase)
