"""Device memory: one anonymous mapping of host memory, cut into a range for each device.

A tensor of the simulated device points into it, and the CPU kernel that stands in for a CUDA kernel works on a CPU
tensor over the same bytes. So `data_ptr()`, storages and aliasing are real, and memory that was freed is really reused.
Pages cost nothing until they are touched (`MAP_NORESERVE`).
"""

from __future__ import annotations

import bisect
import mmap
from typing import Any

import torch

MAP_NORESERVE = 0x4000
"""Linux, the same on x86-64 and aarch64; `mmap` does not name it before Python 3.13."""
PAGE = 4096
DEVICE_PAGE = 2 << 20
"""What cudaMalloc hands out is a multiple of this."""


class Arena:
    """Address space of all simulated devices.

    Raises OSError where the system refuses the mapping (strict overcommit, a limit on address space).
    """

    def __init__(self, devices: int, bytes_per_device: int) -> None:
        self.bytes_per_device = bytes_per_device
        length = devices * bytes_per_device
        self._map = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
        self._bytes = torch.frombuffer(self._map, dtype=torch.uint8)
        self.base: int = self._bytes.data_ptr()
        self.end = self.base + length
        self.typed: dict[torch.dtype, Any] = {}

    def over(self, dtype: torch.dtype) -> torch.Tensor:
        """The whole arena as one CPU tensor of `dtype`; `as_strided` of it is a CPU view of a device tensor."""
        view = self.typed.get(dtype)
        if view is None:
            # Inference mode must not make this an inference tensor, which refuses updates outside of it.
            with torch.inference_mode(mode=False), torch._C.DisableTorchFunction():
                storage = self._bytes.untyped_storage()
                count = len(self._map) // dtype.itemsize
                view = torch.empty(0, dtype=dtype, device="cpu").set_(storage, 0, (count,), (1,))
            self.typed[dtype] = view
        return view

    def host_view(self, tensor: torch.Tensor) -> torch.Tensor:
        """CPU tensor over the bytes of `tensor`, with its geometry."""
        size = tensor.shape
        if 0 in size:
            return torch.empty_strided(size, tensor.stride(), dtype=tensor.dtype, device="cpu")
        offset, rest = divmod(tensor.data_ptr() - self.base, tensor.itemsize)
        if rest or not 0 <= offset * tensor.itemsize < len(self._map):
            msg = "a tensor of the simulated device does not lie in its memory"
            raise RuntimeError(msg)
        return torch.as_strided(self.over(tensor.dtype), size, tensor.stride(), offset)

    def holds(self, address: int) -> bool:
        """Whether `address` lies on a simulated device."""
        return self.base <= address < self.end

    def device_of(self, address: int) -> int:
        """Index of the device on which `address` lies."""
        return (address - self.base) // self.bytes_per_device

    def page_of(self, address: int) -> int:
        """Start of the device page that holds `address`."""
        return address - (address - self.base) % DEVICE_PAGE

    def give_pages_back(self, address: int, size: int) -> None:
        """Return the pages of a range to the system; they read as zeros when they are used again."""
        start = -(-(address - self.base) // PAGE) * PAGE
        stop = (address - self.base + size) // PAGE * PAGE
        if stop > start:
            self._map.madvise(mmap.MADV_DONTNEED, start, stop - start)


class AddressSpace:
    """Which ranges of one device are handed out: what cudaMalloc and cudaFree keep in the driver."""

    def __init__(self, base: int, size: int) -> None:
        self.base, self.size = base, size
        self.used = 0
        self._holes: list[tuple[int, int]] = [(base, size)]  # (address, size), by address
        self._mapped: dict[int, int] = {}

    def take(self, size: int) -> int | None:
        """Address of a new range of `size` bytes; None when the device is full."""
        size = -(-size // DEVICE_PAGE) * DEVICE_PAGE
        for index, (address, length) in enumerate(self._holes):
            if length >= size:
                if length == size:
                    del self._holes[index]
                else:
                    self._holes[index] = (address + size, length - size)
                self._mapped[address] = size
                self.used += size
                return address
        return None

    def maps(self, address: int) -> bool:
        """Whether `address` lies in a range that is handed out."""
        if address in self._mapped:
            return True
        return any(start <= address < start + size for start, size in self._mapped.items())

    def give_back(self, address: int) -> int | None:
        """Unmap the range that begins at `address`; its size, or None if none begins there."""
        size = self._mapped.pop(address, None)
        if size is None:
            return None
        self.used -= size
        index = bisect.bisect(self._holes, (address, 0))
        self._holes.insert(index, (address, size))
        for left in (index, index - 1):  # merge with the hole after, then with the one before
            if 0 <= left < len(self._holes) - 1:
                first, second = self._holes[left], self._holes[left + 1]
                if first[0] + first[1] == second[0]:
                    self._holes[left : left + 2] = [(first[0], first[1] + second[1])]
        return size
