"""The launch path for calls of a kind seen before: one kernel, known geometry, nothing to judge.

The general path (`launch`) lets the CPU kernel allocate its result and copies that to the device. Where the geometry of
an operator's one result follows from its arguments, the second call of a kind needs none of that: the output is
allocated on the device first, as a CUDA kernel's is, and the CPU kernel's `out=` variant writes into it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from cudagraph_doctor.sim.kernels.host_views import HostViews
from cudagraph_doctor.sim.operator_plan import ArgumentKind, OperatorPlan
from cudagraph_doctor.sim.tensors import Layout
from cudagraph_doctor.sim.tracebacks import hide

if TYPE_CHECKING:
    from cudagraph_doctor.sim.simulation import Simulation

Kernel = Callable[..., object]
Prepared = tuple[list[Any], list[object], int]

_MOST_KINDS = 4096
"""Kinds of calls remembered for one operator; the table is emptied when it is full."""
_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_TENSOR, _TENSORS, _NUMBER = ArgumentKind.TENSOR, ArgumentKind.TENSORS, ArgumentKind.NUMBER
_function_modes = torch._C._len_torch_function_stack
_below_autograd = torch._C._AutoDispatchBelowAutograd
_default_dtype = torch.get_default_dtype


def planned(sim: Simulation, views: HostViews, plan: OperatorPlan, general: Kernel) -> Kernel:
    """A kernel that computes known kinds of calls directly, and leaves the rest to the kernel `general`."""
    driver, races = sim.driver, sim.races
    in_place, name = plan.in_place, plan.qualified
    kinds: tuple[ArgumentKind, ...] = plan.argument_kinds
    call: Any = plan.call if in_place else plan.out_call
    layouts: dict[tuple[object, ...], Layout] = {}

    def cuda_kernel(*args: Any, **kwargs: Any) -> object:
        try:
            if driver.captures or driver.sticky or _function_modes():
                return general(*args, **kwargs)
            prepared = _prepare(views, kinds, args)
            if prepared is None or (kwargs and not _plain(plan, kwargs, prepared[1])):
                return general(*args, **kwargs)
            host, kind, device = prepared
            layout = None
            if not in_place:
                key = (_default_dtype(), *kind)
                layout = layouts.get(key)
                if layout is None:
                    return _learn(layouts, key, general(*args, **kwargs))
            streams = sim.streams()
            streams.context = True
            stream = streams.streams[device]
            if layout is None:
                target = args[0]
                with _below_autograd():
                    call(*host, **kwargs)
                block = sim.block_of(target)
            else:
                target, block = sim.new_laid_out(layout, device, stream)
                out = views.of_new(block.address, layout, device)
                with _below_autograd():
                    call(*host, **kwargs, out=out)
            if races.active or not stream.legacy or (block is not None and block.captured):
                races.launch(stream, name, sim.blocks_of(_tensors(args)), () if block is None else (block,))
            else:
                stream.tick += 1
                if block is not None:
                    block.write = (stream.key, stream.tick)
            return target
        except BaseException as error:
            hide(error)
            raise

    return cuda_kernel


def _prepare(views: HostViews, kinds: tuple[ArgumentKind, ...], args: tuple[Any, ...]) -> Prepared | None:
    """(arguments of the CPU kernel, what the result's geometry depends on, device); None if one is unusual."""
    known = views.known
    host: list[Any] = []
    kind: list[object] = []
    device = -1
    number_place = -1
    beside: torch.dtype | None = None
    for what, value in zip(kinds, args):  # noqa: B905 - defaults are left out
        cls = value.__class__
        if what is _TENSOR:
            if cls is _Tensor or cls is _Parameter:
                view = known((value.data_ptr(), value.shape, value.stride(), value.dtype)) or views.enter(value)
                if view is None or (view.device != device and device >= 0):
                    return None
                tensor, geometry, device, absorbs = view
                host.append(tensor)
                kind.append(geometry)
                if absorbs is not None:
                    beside = absorbs if beside is None or beside is absorbs else torch.float64
            elif cls is float or cls is int:
                number_place = len(host)
                host.append(value)
                kind.append(cls)
            elif value is None:
                host.append(None)
                kind.append(None)
            else:
                return None
        elif what is _NUMBER:
            host.append(value)
            kind.append(cls)
        elif what is _TENSORS:
            parts = _prepare(views, (_TENSOR,) * len(value), value)
            if parts is None or (parts[2] != device and device >= 0):
                return None
            device = parts[2]
            host.append(parts[0])
            kind.append(tuple(parts[1]))
        else:
            host.append(value)
            kind.append((cls, tuple(value)) if cls is list or cls is tuple else (cls, value))
    if device < 0:
        return None
    if number_place >= 0 and beside is not None:
        host[number_place] = views.number(host[number_place], beside)
    return host, kind, device


def _plain(plan: OperatorPlan, kwargs: dict[str, Any], kind: list[object]) -> bool:
    """Whether the named arguments are values of the host; they are added to `kind`."""
    for name, value in kwargs.items():
        if name in plan.tensor_names:
            return False
        kind.append((name, value.__class__, tuple(value) if isinstance(value, (list, tuple)) else value))
    return True


def _learn(layouts: dict[tuple[object, ...], Layout], key: tuple[object, ...], result: Any) -> object:
    if isinstance(result, _Tensor) and result.numel() and not result.dtype.is_complex:
        if len(layouts) >= _MOST_KINDS:
            layouts.clear()
        layouts[key] = Layout(result.dtype, result.shape, result.stride())
    return result


def _tensors(args: tuple[Any, ...]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in args:
        for part in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(part, _Tensor):
                found.append(part)  # noqa: PERF401 - two loops in one comprehension are no clearer
    return found
