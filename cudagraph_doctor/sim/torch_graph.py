"""`torch._C._CUDAGraph`: the base of PyTorch's Python class, with the checks and texts of ATen/cuda/CUDAGraph.cpp."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from cudagraph_doctor._wire import MODES
from cudagraph_doctor.sim import cuda_error as cuda
from cudagraph_doctor.sim.caching_allocator import PoolId
from cudagraph_doctor.sim.capture import Capture
from cudagraph_doctor.sim.capture_calls import abandon_capture, begin_capture, end_capture, instantiate
from cudagraph_doctor.sim.graphs import SimExec, SimGraph, graph_of, make_exec, replay
from cudagraph_doctor.sim.simulation import Simulation
from cudagraph_doctor.sim.streams import SimStream
from cudagraph_doctor.sim.tracebacks import unseen_methods, warn

_pool_ids = itertools.count(1)
_EMPTY = (
    "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong device or stream."
)
_NOT_NOW = (
    " during CUDA graph capture. If you need this call to be captured, please file an issue. "
    "Current cudaStreamCaptureStatus: cudaStreamCaptureStatus"
)
_REGISTERING = "Cannot register the state during capturing stage." + _NOT_NOW
_REPLAYING = "Cannot prepare for replay during capturing stage." + _NOT_NOW
_OWNS_ONE = "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance."
_STATUS_NAMES = ("None", "Active", "Invalidated")


def graph_pool_handle() -> PoolId:
    """A new pool id (`torch._C._graph_pool_handle`)."""
    return (0, next(_pool_ids))


def registers_generators_itself() -> bool:
    """Torch 2.14 registers a generator with the graph at its first use in the capture; before, only the default one."""
    major, minor = torch.__version__.split(".")[:2]
    return (int(major), int(minor)) >= (2, 14)


class _Held:
    """What a graph object owns: an object of its own, because torch.cuda.CUDAGraph's `__del__` does not call ours."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.capture: Capture | None = None
        self.graph: SimGraph | None = None
        self.executable: SimExec | None = None
        self.pool: PoolId | None = None

    def drop(self) -> None:
        """Destroy the graphs, and leave the memory pool."""
        driver = self.sim.driver
        if self.capture is not None:
            abandon_capture(driver, self.capture)
        if self.executable is not None:
            driver.execs.pop(self.executable.handle, None)
        if self.graph is not None:
            driver.graphs.pop(self.graph.handle, None)
        if self.pool is not None:
            for allocator in self.sim.allocators:
                allocator.leave_pool(self.pool)
        self.capture = self.graph = self.executable = self.pool = None

    def __del__(self) -> None:
        self.drop()


def make_graph_class(sim: Simulation) -> type:
    """The class that stands for torch._C._CUDAGraph."""
    driver = sim.driver

    class _CUDAGraph:
        """A graph of a simulated device."""

        _keep: bool
        _ended: bool
        _device: int
        _origin: SimStream | None
        _held: _Held
        _generators: list[Any]

        def __new__(cls, keep_graph: bool = False) -> Any:
            self = object.__new__(cls)
            self._keep, self._ended, self._device, self._origin = keep_graph, False, 0, None
            self._held, self._generators = _Held(sim), []
            return self

        def __init__(self, *args: object, **kwargs: object) -> None:
            pass

        def register_generator_state(self, generator: Any) -> None:
            self._generators.append(generator)

        def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
            streams = sim.streams()
            self._device = streams.device
            stream = streams.streams[self._device]
            if self._held.executable is not None or self._ended:
                raise RuntimeError(_OWNS_ONE)
            if capture_error_mode not in MODES:
                msg = (
                    "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got "
                    f"{capture_error_mode}"
                )
                raise RuntimeError(msg)
            if stream.capture is not None and not registers_generators_itself():
                raise RuntimeError(_REGISTERING + _STATUS_NAMES[stream.capture.status])
            if stream.legacy:
                code, _ = begin_capture(driver, stream, 0) if driver.captures else (cuda.SUCCESS, None)
                msg = (
                    "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay "
                    "them on the default stream.)"
                )
                raise RuntimeError(msg)
            code, capture = begin_capture(driver, stream, MODES.index(capture_error_mode))
            sim.check(code)
            assert capture is not None
            self._held.pool = tuple(pool) if pool is not None else graph_pool_handle()
            capture.pool = self._held.pool
            capture.generators = {generator._cdata for generator in self._generators}
            self._held.capture = capture
            self._origin = stream
            sim.races.active = True  # from now on graphs have memory of their own, and its readers matter
            for allocator in sim.allocators:
                allocator.use_pool(self._held.pool)

        def capture_end(self) -> None:
            self.capture_end_pre()
            if not self._keep:
                self.instantiate()
                self._held.graph = None
            self.capture_end_post()

        def capture_end_pre(self) -> None:
            capture = self._held.capture
            stream = sim.stream_on(self._device)
            if self._origin is None:
                msg = "capture_end() called before capture_begin()."
                raise RuntimeError(msg)
            if stream is not self._origin:
                msg = "Capture must end on the same stream it began on."
                raise RuntimeError(msg)
            code, _ = end_capture(driver, stream)
            self._held.capture = None
            sim.check(code)
            assert capture is not None
            self._ended = True
            self._held.graph = graph_of(sim, capture)
            if not capture.nodes:
                warn(_EMPTY)

        def capture_end_post(self) -> None:
            pass

        def instantiate(self) -> None:
            if self._held.graph is None:
                msg = "capture_end() must have been called before calling instantiate"
                raise RuntimeError(msg)
            sim.check(instantiate(driver))
            self._held.executable = make_exec(sim, self._held.graph)
            driver.execs[self._held.executable.handle] = self._held.executable

        def replay(self) -> None:
            if not self._ended:
                msg = "Called CUDAGraph::replay without a preceding successful capture."
                raise RuntimeError(msg)
            if self._held.executable is None:
                self.instantiate()
            assert self._held.executable is not None
            stream = sim.stream_on(self._device)
            if stream.capture is not None and not registers_generators_itself():
                raise RuntimeError(_REPLAYING + _STATUS_NAMES[stream.capture.status])
            sim.check(replay(sim, self._held.executable, stream))

        def reset(self) -> None:
            self._held.drop()
            self._ended = False

        def pool(self) -> PoolId:
            if self._held.pool is None or not self._ended:
                msg = "Called CUDAGraph::pool() without a preceding successful capture."
                raise RuntimeError(msg)
            return self._held.pool

        def pools(self) -> list[PoolId]:
            return [self.pool()]

        def _retain_pool(self, pool: Any) -> None:
            pass

        @property
        def _has_graph_exec(self) -> bool:
            return self._held.executable is not None

        def enable_debug_mode(self) -> None:
            pass

        def debug_dump(self, path: str) -> None:
            nodes = self._held.executable.nodes if self._held.executable is not None else []
            lines = [f'"{index}" [label="{node.name}"];' for index, node in enumerate(nodes)]
            edges = self._held.executable.graph.edges() if self._held.executable is not None else []
            lines += [f'"{parent}" -> "{child}";' for parent, child in edges]
            with open(path, "w", encoding="utf-8") as file:
                file.write("digraph dot {\n" + "\n".join(lines) + "\n}\n")

        def raw_cuda_graph(self) -> int:
            if not self._keep:
                msg = (
                    "You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with "
                    "keep_graph=true"
                )
                raise RuntimeError(msg)
            if self._held.graph is None:
                msg = "You cannot access the raw cudaGraph_t instance until capture_end() has been called"
                raise RuntimeError(msg)
            driver.graphs[self._held.graph.handle] = self._held.graph
            return self._held.graph.handle

        def raw_cuda_graph_exec(self) -> int:
            if self._held.executable is None:
                msg = "You cannot access the raw cudaGraphExec_t instance until instantiate() has been called"
                raise RuntimeError(msg)
            return self._held.executable.handle

    _CUDAGraph.__module__ = "torch._C"
    return unseen_methods(_CUDAGraph)
