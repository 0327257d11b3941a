"""Recording an operator into a capture: memory and metadata now, the computation at each replay."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from cudagraph_doctor.sim.kernels.host_operands import HostOperands
from cudagraph_doctor.sim.kernels.host_views import HostViews
from cudagraph_doctor.sim.kernels.random import RandomState
from cudagraph_doctor.sim.operator_plan import OperatorPlan
from cudagraph_doctor.sim.simulation import Simulation
from cudagraph_doctor.sim.streams import SimStream

_META = torch.device("meta")


class Recorder:
    """Turns a launch on a capturing stream into a node."""

    def __init__(self, sim: Simulation, host: HostOperands, views: HostViews, random: RandomState) -> None:
        self._sim = sim
        self._views = views
        self._host = host
        self._random = random

    def record(
        self, plan: OperatorPlan, stream: SimStream, device: int, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> object:
        """Record the operator on `stream`; its results, whose memory keeps what was in it.

        Raises the CUDA error of a capture that is already invalid.
        """
        sim = self._sim
        if stream.capture is not None and stream.capture.invalidated:
            sim.check(sim.driver.submit("cuLaunchKernel", stream, kernel=plan.qualified))
        generator = self._random.generator_for_capture(plan, stream, device, args, kwargs)
        tensors: list[torch.Tensor] = []

        def frozen(tensor: torch.Tensor) -> torch.Tensor:
            view = self._host.view(plan, device, tensor)
            if tensor.is_cuda:
                tensors.append(tensor)
                return view
            return view.clone()  # a kernel argument: its value is in the node from now on

        host_args = [_each_tensor(value, frozen) for value in args]
        absorbing = {tensor.dtype for tensor in tensors if tensor.is_floating_point() and tensor.dim()}
        if absorbing:
            beside = absorbing.pop() if len(absorbing) == 1 else torch.float64
            for place in plan.tensor_places:
                if place < len(host_args) and isinstance(host_args[place], (int, float)):
                    host_args[place] = self._views.number(host_args[place], beside)
        host_kwargs = {name: _each_tensor(value, frozen) for name, value in kwargs.items()}
        _replace_device(plan, host_args, host_kwargs, torch.device("cpu"))
        shaped, shaped_written = self._shapes(plan, host_args, host_kwargs)

        written = self._written(plan, args, kwargs, shaped_written, stream, host_args, host_kwargs)
        new: list[tuple[tuple[int, ...], torch.Tensor]] = []  # (path in the result, CPU view of the output)
        new_tensors: list[torch.Tensor] = []

        parts = (shaped,) if len(plan.returns) == 1 else shaped or ()
        results = [
            self._allocate((place,), part, device, stream, new, new_tensors)
            if twin is None
            else args[twin[0]] if twin[0] < len(args) else kwargs[twin[1]]
            for place, (part, twin) in enumerate(zip(parts, plan.returns, strict=True))
        ]  # fmt: skip
        execute = self._execution(plan, generator, host_args, host_kwargs, new)
        reads, writes = sim.blocks_of(tensors), sim.blocks_of((*written, *new_tensors))
        sim.record_node(stream, plan.qualified, execute, reads, writes)
        if len(plan.returns) == 1:
            return results[0]
        return tuple(results) if results else None

    def _allocate(
        self,
        path: tuple[int, ...],
        shape: object,
        device: int,
        stream: SimStream,
        new: list[tuple[tuple[int, ...], torch.Tensor]],
        tensors: list[torch.Tensor],
    ) -> object:
        """Memory for a result of that shape; not a local function, whose reference to itself would keep it alive."""
        if isinstance(shape, torch.Tensor):
            tensor = self._sim.new_tensor(shape.shape, shape.stride(), shape.dtype, device, stream)
            new.append((path, self._sim.arena.host_view(tensor)))
            tensors.append(tensor)
            return tensor
        if isinstance(shape, (list, tuple)):
            return [
                self._allocate((*path, index), part, device, stream, new, tensors) for index, part in enumerate(shape)
            ]
        return shape

    def _execution(
        self,
        plan: OperatorPlan,
        generator: Any,
        host_args: list[Any],
        host_kwargs: dict[str, Any],
        new: list[tuple[tuple[int, ...], torch.Tensor]],
    ) -> Callable[[], object]:
        if generator is not None:
            compute = self._random.replayed(plan, generator, host_args, host_kwargs)
        elif plan.out_call is not None and len(new) == 1:
            return functools.partial(plan.out_call, *host_args, **host_kwargs, out=new[0][1])
        else:
            compute = functools.partial(plan.call, *host_args, **host_kwargs)
        if not new:
            return compute
        single = len(plan.returns) == 1

        def execute() -> None:
            result = compute()
            for path, output in new:
                part: Any = result
                for index in path[1:] if single else path:
                    part = part[index]
                if part.shape == output.shape:  # the CPU leaves out some by-products: statistics of batch_norm
                    output.copy_(part)

        return execute

    def _shapes(
        self, plan: OperatorPlan, host_args: list[Any], host_kwargs: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """A result of the operator whose values mean nothing, and its written arguments by name.

        It is computed with the CPU kernel, so that geometry is what eager execution gives, but on scratch: see
        `_scratch`. Where that fails (a value that the kernel refuses) the meta kernel is asked.
        """
        if plan.in_place:
            return tuple(None for _ in plan.returns) if len(plan.returns) != 1 else None, {}
        blank = plan.random or plan.has_generator or plan.name.startswith(_VALUES_MATTER)
        writes = {id(argument) for argument in _written_arguments(plan, host_args, host_kwargs)}

        def scratch(tensor: torch.Tensor) -> torch.Tensor:
            return _scratch(tensor, blank=blank or id(tensor) in writes)

        args = [_each_tensor(value, scratch) for value in host_args]
        kwargs = {name: _each_tensor(value, scratch) for name, value in host_kwargs.items()}
        result, refused = None, False
        try:
            result = self._random.rehearsed(plan, args, kwargs) if blank else plan.call(*args, **kwargs)
        except Exception:
            refused = True
        if refused:  # outside of the handler: the target's own errors must not hang on this one
            args = [_each_tensor(value, self._meta_twin) for value in host_args]
            kwargs = {name: _each_tensor(value, self._meta_twin) for name, value in host_kwargs.items()}
            _replace_device(plan, args, kwargs, _META)
            _drop_generator(plan, args, kwargs)
            result = plan.call(*args, **kwargs)
        written = {name: args[place] if place < len(args) else kwargs.get(name) for place, name in plan.written}
        return result, written

    def _meta_twin(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 0 and not self._sim.arena.holds(tensor.data_ptr()):
            return tensor  # a CPU scalar stays one: kernels accept it beside tensors of another device
        twin = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=_META)
        if tensor.is_conj():
            twin = torch._conj(twin)
        return torch._neg_view(twin) if tensor.is_neg() else twin

    def _written(
        self,
        plan: OperatorPlan,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        shaped: dict[str, Any],
        stream: SimStream,
        host_args: list[Any],
        host_kwargs: dict[str, Any],
    ) -> list[torch.Tensor]:
        """The arguments that the node writes; an `out=` tensor of the wrong shape gets new memory."""
        written: list[torch.Tensor] = []
        for place, name in plan.written:
            target = args[place] if place < len(args) else kwargs.get(name)
            if isinstance(target, (list, tuple)):
                written.extend(target)
            elif isinstance(target, torch.Tensor):
                shape = shaped.get(name)
                if shape is not None and target.shape != shape.shape:
                    device = target.get_device()
                    new = self._sim.new_tensor(shape.shape, shape.stride(), target.dtype, device, stream)
                    self._sim.rebind(target, new)
                    view = self._sim.arena.host_view(target)
                    if place < len(args):
                        host_args[place] = view
                    else:
                        host_kwargs[name] = view
                written.append(target)
        return written


def _each_tensor(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return [_each_tensor(part, change) for part in value]
    return value


_VALUES_MATTER = ("linalg_", "_linalg_", "cholesky", "lu_", "native_batch_norm", "cudnn_batch_norm", "batch_norm")
"""Kernels that look at values (and may refuse what is in memory), or that change an argument their schema does not say
they change (running statistics)."""


def _scratch(tensor: torch.Tensor, *, blank: bool) -> torch.Tensor:
    """What the kernel may compute on to find shapes: the memory as it is, or zeros of the same geometry.

    Memory of a capture holds anything: floating-point garbage is harmless, but as an index it is out of range.
    """
    dtype = tensor.dtype
    if not blank and (dtype.is_floating_point or dtype.is_complex):
        return tensor
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device="cpu").zero_()


def _written_arguments(plan: OperatorPlan, args: list[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for place, name in plan.written:
        value = args[place] if place < len(args) else kwargs.get(name)
        found.extend(value if isinstance(value, (list, tuple)) else [] if value is None else [value])
    return found


def _replace_device(plan: OperatorPlan, args: list[Any], kwargs: dict[str, Any], device: torch.device) -> None:
    place = plan.device_place
    if place is not None and place < len(args) and args[place] is not None:
        args[place] = device
    if "device" in kwargs:
        kwargs["device"] = device
    if kwargs.get("pin_memory"):
        kwargs["pin_memory"] = None


def _drop_generator(plan: OperatorPlan, args: list[Any], kwargs: dict[str, Any]) -> None:
    place = plan.generator_place
    if place is not None and place < len(args):
        args[place] = None
    if kwargs.get("generator") is not None:
        kwargs["generator"] = None
