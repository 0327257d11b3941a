"""Kernels that give tensors memory or another view of it: no work on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cudagraph_doctor.sim.launch import Launcher
from cudagraph_doctor.sim.simulation import CPU_KEYS

Kernel = Callable[..., object]
_as_strided = torch.ops.aten.as_strided.default
_set = torch.ops.aten.set_.source_Storage_storage_offset


def contiguous_strides(size: Any) -> tuple[int, ...]:
    """Row-major strides of a tensor of that size."""
    strides: list[int] = []
    step = 1
    for length in reversed(size):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


def kernels(launcher: Launcher) -> dict[str, Kernel]:
    """The kernels of this file, by operator."""
    sim = launcher.sim

    def allocate(size: Any, stride: Any, dtype: torch.dtype | None, device: torch.device | None) -> torch.Tensor:
        index = sim.device_index(device)
        return sim.new_tensor(size, stride, dtype or torch.get_default_dtype(), index, sim.stream_on(index))

    def empty(
        size: Any,
        dtype: torch.dtype | None = None,
        layout: Any = None,
        device: torch.device | None = None,
        pin_memory: bool | None = None,
        memory_format: torch.memory_format | None = None,
    ) -> torch.Tensor:
        if pin_memory:
            msg = "Only dense CPU tensors can be pinned"
            raise RuntimeError(msg)
        if memory_format in (None, torch.contiguous_format, torch.preserve_format):
            stride = contiguous_strides(size)
        else:
            stride = torch.empty(size, device="meta", memory_format=memory_format).stride()
        return allocate(size, stride, dtype, device)

    def empty_strided(
        size: Any,
        stride: Any,
        dtype: torch.dtype | None = None,
        layout: Any = None,
        device: torch.device | None = None,
        pin_memory: bool | None = None,
    ) -> torch.Tensor:
        return allocate(tuple(size), tuple(stride), dtype, device)

    def reshape_alias(tensor: torch.Tensor, size: Any, stride: Any) -> object:
        return _as_strided.redispatch(CPU_KEYS, tensor, size, stride, tensor.storage_offset())

    def set_from_offset(*args: Any) -> object:
        return _set.redispatch(CPU_KEYS, *args)

    def set_from_tensor(tensor: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        sim.rebind(tensor, source)
        return tensor

    def set_from_storage(tensor: torch.Tensor, storage: Any) -> object:
        return _set.redispatch(CPU_KEYS, tensor, storage, 0, (len(storage) // tensor.itemsize,), (1,))

    def set_empty(tensor: torch.Tensor) -> torch.Tensor:
        index = tensor.get_device()
        sim.rebind(tensor, sim.new_tensor((0,), (1,), tensor.dtype, index, sim.stream_on(index)))
        return tensor

    def resize(tensor: torch.Tensor, size: Any, memory_format: Any = None) -> torch.Tensor:
        stride = contiguous_strides(size)
        count = 0 if 0 in size else 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        needed = (tensor.storage_offset() + count) * tensor.itemsize
        if needed <= tensor.untyped_storage().nbytes():
            _set.redispatch(CPU_KEYS, tensor, tensor.untyped_storage(), tensor.storage_offset(), size, stride)
            return tensor
        index = tensor.get_device()
        stream = sim.stream_on(index)
        old = tensor.untyped_storage()
        new = sim.new_tensor(size, stride, tensor.dtype, index, stream)
        kept = old.nbytes() // tensor.itemsize
        if kept and stream.capture is None:
            source = sim.arena.over(tensor.dtype)
            start = (old.data_ptr() - sim.arena.base) // tensor.itemsize
            sim.arena.host_view(new).view(-1)[:kept].copy_(source[start : start + kept])
        sim.rebind(tensor, new)
        return tensor

    def record_stream(tensor: torch.Tensor, stream: Any) -> None:
        block = sim.block_of(tensor)
        if block is not None and stream.stream_id != block.segment.stream:
            block.other_streams.add(stream.stream_id)

    return {
        "aten::empty.memory_format": empty,
        "aten::empty_strided": empty_strided,
        "aten::_reshape_alias": reshape_alias,
        "aten::set_.source_Storage_storage_offset": set_from_offset,
        "aten::set_.source_Tensor": set_from_tensor,
        "aten::set_.source_Storage": set_from_storage,
        "aten::set_": set_empty,
        "aten::resize_": resize,
        "aten::record_stream": record_stream,
    }
