"""CPU tensors over device memory, kept: a decode loop meets the same operands at the same addresses in each step."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from cudagraph_doctor.sim.arena import Arena
from cudagraph_doctor.sim.tensors import Layout

_MOST = 8192
"""Views kept; all are dropped when there are more."""
_MOST_NUMBERS = 256

_Place = tuple[int, Any, Any, torch.dtype]
"""Address, size, stride and dtype."""


class HostView(NamedTuple):
    """What is known of an operand."""

    tensor: torch.Tensor
    """A CPU tensor over the same bytes. Nobody may change its geometry."""
    geometry: int
    """The same number for the same size, stride, dtype and device."""
    device: int
    absorbs: torch.dtype | None
    """Its dtype if it is floating-point and not 0-dimensional: a Python number beside it takes that dtype."""


class HostViews:
    """Views by place. Only tensors of a device are entered, so a place that is found here is known to be one's."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._views: dict[_Place, HostView] = {}
        self._geometries: dict[tuple[Any, Any, torch.dtype, int], int] = {}
        self._numbers: dict[tuple[type, Any, bool], torch.Tensor] = {}
        self.known = self._views.get

    def enter(self, tensor: torch.Tensor) -> HostView | None:
        """The view of an operand that is not known yet; None for one that has to be looked at each time."""
        if not tensor.is_cuda or tensor.numel() == 0 or tensor.is_neg() or tensor.dtype.is_complex:
            return None
        device = tensor.get_device()
        return self._enter(tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, device)

    def of_new(self, address: int, layout: Layout, device: int) -> torch.Tensor:
        """The view of a tensor of that layout at `address`."""
        view = self.known((address, layout.size, layout.stride, layout.dtype))
        if view is None:
            view = self._enter(address, layout.size, layout.stride, layout.dtype, device)
        return view.tensor

    def _enter(self, address: int, size: Any, stride: Any, dtype: torch.dtype, device: int) -> HostView:
        if len(self._views) >= _MOST:
            self._views.clear()
        offset = (address - self._arena.base) // dtype.itemsize
        # A view that inference mode made could not be written outside of it.
        with torch.inference_mode(mode=False), torch.no_grad():
            tensor = self._arena.over(dtype).as_strided(size, stride, offset)
        geometry = self._geometries.setdefault((size, stride, dtype, device), len(self._geometries))
        view = HostView(tensor, geometry, device, dtype if dtype.is_floating_point and len(size) else None)
        self._views[address, size, stride, dtype] = view
        return view

    def number(self, value: float, beside: torch.dtype) -> Any:
        """What stands for a Python number beside a tensor of dtype `beside` that absorbs it.

        A 0-dimensional tensor: PyTorch makes one at each call. It keeps the number's precision except beside float32,
        where the kernel would convert it first; beside float16 and bfloat16 it computes with the number itself.
        """
        if not value:
            return value  # -0.0 equals 0.0 and is something else
        narrow = beside is torch.float32
        key = (value.__class__, value, narrow)
        tensor = self._numbers.get(key)
        if tensor is None:
            if len(self._numbers) >= _MOST_NUMBERS:
                self._numbers.clear()
            with torch.inference_mode(mode=False):
                dtype = torch.float32 if narrow else torch.float64 if value.__class__ is float else None
                tensor = self._numbers[key] = torch.tensor(value, dtype=dtype, device="cpu")
        return tensor
