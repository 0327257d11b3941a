"""Copies between host and device, and reading a value back: what makes the host wait, and what a capture refuses."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from cudagraph_doctor.sim import cuda_error as cuda
from cudagraph_doctor.sim.capture import NodeKind
from cudagraph_doctor.sim.kernels.host_operands import UNPINNED_COPY
from cudagraph_doctor.sim.launch import Launcher
from cudagraph_doctor.sim.operator_plan import OperatorPlan
from cudagraph_doctor.sim.planned_launch import planned
from cudagraph_doctor.sim.streams import SimStream

Kernel = Callable[..., object]
_copy = torch.ops.aten.copy_.default._op
_read_scalar = torch.ops.aten._local_scalar_dense.default._op

_H2D, _D2H, _D2D = "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2"


def kernels(launcher: Launcher) -> dict[str, Kernel]:
    """The kernels of this file, by operator."""
    sim = launcher.sim
    plan = OperatorPlan(torch.ops.aten.copy_.default)

    def general(target: torch.Tensor, source: torch.Tensor) -> object:
        return launcher.launch(plan, None, (target, source), {})

    on_device = planned(sim, launcher.views, plan, general)

    def copy(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        """aten::copy_ with at least one side on a device."""
        if target.numel() == 0:
            return target
        if source.shape != target.shape:
            source = source.expand(target.shape)
        if not (target.is_cuda and source.is_cuda):
            copy_host(target, source, non_blocking)
        elif target.get_device() == source.get_device():
            if source.is_neg() or target.is_neg():
                general(target, source)
            else:
                on_device(target, source)
        else:
            copy_peer(target, source, non_blocking)
        return target

    def copy_host(target: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> None:
        to_device = target.is_cuda
        on_device, on_host = (target, source) if to_device else (source, target)
        stream = sim.stream_on(on_device.get_device())
        pinned = on_host.is_pinned()
        if stream.capture is not None and not pinned:
            sim.refuse_in_python(RuntimeError(UNPINNED_COPY))
        api = _H2D if to_device else _D2H
        facts: dict[str, Any] = {"size": on_device.nbytes, "ptr": hex(on_device.data_ptr()), "pinned": pinned}
        device_view = launcher.host.view(plan, on_device.get_device(), on_device)
        held = sim.pinned.view(on_host)
        views = (device_view, held) if to_device else (held, device_view)
        blocks = sim.blocks_of((on_device,))
        reads, writes = ((), blocks) if to_device else (blocks, ())
        if stream.capture is not None:
            # The node holds the host memory's address, not the tensor: who frees it lets a replay read garbage.
            execute = functools.partial(replayed_copy(pinned=pinned, to_device=to_device), *views)
            source = held if to_device and pinned else None
            sim.record_node(
                stream, "memcpy", execute, reads, writes,
                kind=NodeKind.MEMCPY, api=api, host_source=source, **facts,
            )  # fmt: skip
            if sim.driver.keep_going and not pinned:
                return
        else:
            if sim.driver.captures or sim.driver.sticky:
                sim.check(sim.driver.submit(api, stream, **facts))
            if pinned and not to_device:
                sim.pinned_results.copy(stream, *views)
            else:
                if pinned:
                    sim.pinned_results.settle()
                _copy(*views)
            sim.races.launch(stream, "memcpy", reads, writes)
        if not non_blocking:
            launcher.host.read_back(stream)
        elif stream.capture is None and to_device and pinned:
            sim.pending_copies.queued(held, stream, "aten::copy_")

    def replayed_copy(*, pinned: bool, to_device: bool) -> Callable[..., object]:
        if not pinned:
            return _copy
        return into_device if to_device else sim.pinned_results.replay_copy

    def into_device(target: torch.Tensor, source: torch.Tensor) -> None:
        sim.pinned_results.settle()
        _copy(target, source)

    def copy_peer(target: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> None:
        """Between two devices: refused in a capture (900, seen on two H200)."""
        stream: SimStream = sim.stream_on(source.get_device())
        if stream.capture is not None:
            sim.check(sim.driver.refuse("cuMemcpyPeerAsync", cuda.CAPTURE_UNSUPPORTED, [stream.capture], stream))
            return
        if sim.driver.captures:
            sim.check(sim.driver.submit("cuMemcpyPeerAsync", stream))
        _copy(sim.arena.host_view(target), sim.arena.host_view(source), non_blocking)
        sim.races.launch(stream, "memcpy", sim.blocks_of((source,)), sim.blocks_of((target,)))

    def read_scalar(tensor: torch.Tensor) -> object:
        """aten::_local_scalar_dense: a copy to the host and a wait for the stream."""
        device = tensor.get_device()
        stream = sim.stream_on(device)
        if stream.capture is None:
            sim.races.launch(stream, "aten::_local_scalar_dense", sim.blocks_of((tensor,)), ())
        launcher.host.read_back(stream)
        return _read_scalar(launcher.host.view(plan, device, tensor))

    return {"aten::copy_": copy, "aten::_local_scalar_dense": read_scalar}
