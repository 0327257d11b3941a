"""The launch path: how an operator on the simulated device is computed, or recorded while its stream captures.

An operator arrives here from the dispatcher's CUDA key, so everything above the backend (autograd, autocast,
functional transforms, device checks of composites) is PyTorch's own code. Eagerly it is computed at once by the CPU
kernel, on CPU tensors over the same bytes. While the stream captures nothing is computed: shapes come from a
rehearsal, outputs get memory and keep what is in it, and a node is recorded that a replay executes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from cudagraph_doctor.sim.caching_allocator import Block
from cudagraph_doctor.sim.kernels.host_operands import HostOperands
from cudagraph_doctor.sim.kernels.host_views import HostViews
from cudagraph_doctor.sim.kernels.random import RandomState
from cudagraph_doctor.sim.operator_plan import OperatorPlan
from cudagraph_doctor.sim.planned_launch import planned
from cudagraph_doctor.sim.recording import Recorder
from cudagraph_doctor.sim.simulation import Simulation
from cudagraph_doctor.sim.streams import SimStream
from cudagraph_doctor.sim.tracebacks import hide

_CPU = torch.device("cpu")
_below_autograd = torch._C._AutoDispatchBelowAutograd
_without_torch_function = torch._C.DisableTorchFunction
_function_modes = torch._C._len_torch_function_stack


class Launcher:
    """Computes or records operators."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.host = HostOperands(sim)
        self.random = RandomState(sim)
        self.views = HostViews(sim.arena)
        self.recorder = Recorder(sim, self.host, self.views, self.random)
        self._views = sim.arena.typed
        self._base = sim.arena.base

    def entry(self, run: Callable[..., object]) -> Callable[..., object]:
        """A kernel for the dispatcher: `run`, below autograd and unseen by the target's `__torch_function__` modes."""

        def cuda_kernel(*args: object, **kwargs: object) -> object:
            try:
                with _below_autograd():
                    if _function_modes():
                        with _without_torch_function():
                            return run(*args, **kwargs)
                    return run(*args, **kwargs)
            except BaseException as error:
                hide(error)
                raise

        return cuda_kernel

    def kernel(self, plan: OperatorPlan) -> Callable[..., object]:
        """The kernel of an operator without special treatment."""
        wait = self.host.wait_of(plan)

        def run(*args: Any, **kwargs: Any) -> object:
            return self.launch(plan, wait, args, kwargs)

        general = self.entry(run)
        return planned(self.sim, self.views, plan, general) if plan.plannable and wait is None else general

    def launch(
        self, plan: OperatorPlan, wait: Callable[..., None] | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> object:
        """Compute or record one operator."""
        sim = self.sim
        device = self._device(plan, args, kwargs)
        streams = sim.streams()
        streams.context = True
        stream: SimStream = streams.streams[device]
        if wait is not None:
            wait(stream, args, kwargs)
        if stream.capture is not None:
            return self.recorder.record(plan, stream, device, args, kwargs)
        if sim.driver.captures or sim.driver.sticky:
            sim.check(sim.driver.submit("cuLaunchKernel", stream, kernel=plan.qualified))
        if not stream.legacy:
            sim.races.active = True  # from here on reads are noted
        reads: list[Block] = []
        host_args, host_kwargs = self._to_host(plan, device, args, kwargs, reads)
        if plan.has_generator or plan.random:
            result = self.random.compute(plan, device, host_args, host_kwargs)
        else:
            result = plan.call(*host_args, **host_kwargs)
        writes: list[Block] = []
        if plan.written:
            self._after_write(plan, stream, args, kwargs, host_args, host_kwargs, writes)
        returns = plan.returns
        out: object
        if len(returns) == 1:
            twin = returns[0]
            if twin is None:
                out = self._place(result, device, stream, writes)
            else:
                out = args[twin[0]] if twin[0] < len(args) else kwargs[twin[1]]
        elif not returns:
            out = None
        else:
            out = tuple(
                self._place(part, device, stream, writes)
                if twin is None
                else args[twin[0]] if twin[0] < len(args) else kwargs[twin[1]]
                for part, twin in zip(result, returns, strict=True)
            )  # fmt: skip
        sim.races.launch(stream, plan.qualified, reads, writes)
        return out

    # ── arguments ───────────────────────────────────────────────────────────────────────────────
    def _device(self, plan: OperatorPlan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Device on which the operator runs: that of its first CUDA tensor, else of its `device` argument."""
        for place in plan.tensor_places:
            if place >= len(args):
                break
            value = args[place]
            if isinstance(value, torch.Tensor):
                if value.is_cuda:
                    return value.get_device()
            elif value:
                for element in value if isinstance(value, (list, tuple)) else ():
                    if isinstance(element, torch.Tensor) and element.is_cuda:
                        return element.get_device()
        for value in kwargs.values():
            if isinstance(value, torch.Tensor) and value.is_cuda:
                return value.get_device()
        if plan.device_place is not None:
            place = plan.device_place
            return self.sim.device_index(args[place] if place < len(args) else kwargs.get("device"))
        return int(self.sim.streams().device)

    def _to_host(
        self, plan: OperatorPlan, device: int, args: tuple[Any, ...], kwargs: dict[str, Any], reads: list[Block]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The same arguments, with CPU tensors over the bytes of the CUDA ones."""
        host = list(args)
        count = len(host)
        block_of = self.sim.block_of
        noting = self.sim.races.active
        view = self.host.view
        for place in plan.tensor_places:
            if place >= count:
                break
            value = host[place]
            if value is None:
                continue
            if isinstance(value, torch.Tensor):
                if noting and value.is_cuda and (block := block_of(value)) is not None:
                    reads.append(block)
                host[place] = view(plan, device, value)
            elif isinstance(value, (list, tuple)):
                host[place] = self._list_to_host(plan, device, value, reads)
            # else a number, which the dispatcher unwraps: it stays one, as its dtype gives way to the tensors'
        if plan.device_place is not None and plan.device_place < count and host[plan.device_place] is not None:
            host[plan.device_place] = _CPU
        if not kwargs:
            return host, kwargs
        host_kwargs = dict(kwargs)
        for name, value in kwargs.items():
            if isinstance(value, torch.Tensor):
                if value.is_cuda and (block := block_of(value)) is not None:
                    reads.append(block)
                host_kwargs[name] = self.host.view(plan, device, value)
            elif name == "device":
                host_kwargs[name] = _CPU
            elif name == "pin_memory":
                host_kwargs[name] = None
            elif name in plan.tensor_names and isinstance(value, (list, tuple)):
                host_kwargs[name] = self._list_to_host(plan, device, value, reads)
        return host, host_kwargs

    def _list_to_host(self, plan: OperatorPlan, device: int, values: Any, reads: list[Block]) -> list[Any]:
        views: list[Any] = []
        for value in values:
            if isinstance(value, torch.Tensor):
                if value.is_cuda and (block := self.sim.block_of(value)) is not None:
                    reads.append(block)
                views.append(self.host.view(plan, device, value))
            else:
                views.append(value)
        return views

    # ── results ─────────────────────────────────────────────────────────────────────────────────
    def _place(self, result: Any, device: int, stream: SimStream, writes: list[Block]) -> object:
        """A CUDA tensor with the value of the CPU tensor `result`; lists by element, other things as they are."""
        if isinstance(result, torch.Tensor):
            dtype = result.dtype
            if dtype.is_complex:
                result = result.resolve_conj()
            size, stride = result.shape, result.stride()
            nbytes = result.nbytes
            if nbytes and result.is_contiguous():
                sim = self.sim
                sim.factory.collect()
                block = sim.allocate(nbytes, device, stream)
                source = result.data_ptr()
                if source:
                    ctypes.memmove(block.address, source, nbytes)
                else:  # an "efficient zero tensor" of the autograd engine has no memory
                    ctypes.memset(block.address, 0, nbytes)
                writes.append(block)
                return sim.factory.make(block.address, block, device, dtype, size, stride)
            tensor, other = self.sim.new_block_tensor(size, stride, dtype, device, stream)
            if other is not None:
                writes.append(other)
                self.sim.arena.host_view(tensor).copy_(result)
            return tensor
        if isinstance(result, (list, tuple)):
            return [self._place(part, device, stream, writes) for part in result]
        return result

    def _after_write(
        self,
        plan: OperatorPlan,
        stream: SimStream,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        host_args: list[Any],
        host_kwargs: dict[str, Any],
        writes: list[Block],
    ) -> None:
        """Note what was written, and give an `out=` tensor that the kernel resized its new memory."""
        for place, name in plan.written:
            if place < len(args):
                target, view = args[place], host_args[place]
            else:
                target, view = kwargs.get(name), host_kwargs.get(name)
            pairs: Any = zip(target, view, strict=True) if isinstance(target, (list, tuple)) else ((target, view),)
            for tensor, host in pairs:
                if not isinstance(tensor, torch.Tensor) or not tensor.is_cuda:
                    continue
                if tensor.shape != host.shape:
                    self.sim.rebind(tensor, self._place(host, tensor.get_device(), stream, writes))
                elif (block := self.sim.block_of(tensor)) is not None:
                    writes.append(block)
