"""Page-locked host memory, with PyTorch's caching host allocator: what `pin_memory()` gives and `is_pinned()` asks.

Both end in virtual functions of the CUDA hooks, so factories, DataLoader and `Tensor.pin_memory` need no patch. Blocks
are powers of two and are reused as soon as they are free, which on a GPU is where a pending copy reads the next batch.
Blocks of a capture come from its own pool (ATen/core/CachingHostAllocator.h, HostPrivatePool).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import threading
from typing import TYPE_CHECKING, Any

import torch

from cudagraph_doctor.sim import cuda_error as cuda
from cudagraph_doctor.sim.arena import MAP_NORESERVE, Arena
from cudagraph_doctor.sim.caching_allocator import PoolId
from cudagraph_doctor.sim.driver import RELAXED
from cudagraph_doctor.sim.unavailable import SimUnavailable

if TYPE_CHECKING:
    from cudagraph_doctor.sim.driver import SimDriver
    from cudagraph_doctor.sim.native_interface import _Table
    from cudagraph_doctor.sim.streams import ThreadState

_SIZE = 64 << 30
_ROWS = 1 << 16
_MINIMUM = 512
_GET_CPU_ALLOCATOR = "_ZN3c1015GetCPUAllocatorEv"
_ALLOCATE_SLOT = 2
"""c10::Allocator: two destructor entries, then allocate(size_t)."""


class PinnedMemory:
    """Address range of pinned memory and its allocator object."""

    def __init__(self, driver: SimDriver) -> None:
        self._driver = driver
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
        self._arena = Arena(1, _SIZE)
        self._base = self._arena.base
        self._top = 0
        self._free: dict[tuple[PoolId | None, int], list[int]] = {}
        """Addresses by the capture's private pool (None: outside of captures) and size."""
        self._lock = threading.Lock()
        # A row a live block: libc's time() is the deleter and overwrites the row (as in `tensors`).
        self._rows = mmap.mmap(-1, _ROWS * 8, flags=flags)
        self._row_base = ctypes.addressof(ctypes.c_char.from_buffer(self._rows))
        self._live: dict[int, tuple[int, tuple[PoolId | None, int]]] = {}
        self._spare_rows = list(range(_ROWS - 1, -1, -1))
        self._deleter = ctypes.cast(ctypes.CDLL(None).time, ctypes.c_void_p).value or 0
        self.refused = threading.local()
        """`code`: an error that the allocator of this thread met and C++ could not be told."""

    def holds(self, address: int) -> bool:
        """Whether `address` is pinned."""
        return self._base <= address < self._base + self._top

    def view(self, tensor: torch.Tensor) -> torch.Tensor:
        """`tensor`, if it is pinned, without a claim to its memory: what a captured copy holds."""
        return self._arena.host_view(tensor) if self.holds(tensor.data_ptr()) else tensor

    def allocate(self, size: int) -> tuple[int, int]:
        """(address, context) of a block of `size` bytes."""
        with self._lock:
            self._collect()
            rounded = max(_MINIMUM, 1 << (size - 1).bit_length())
            state = self._driver.thread
            capture = state.streams[state.device].capture
            kind = (None if capture is None else capture.pool, rounded)
            shelf = self._free.get(kind)
            if shelf:
                address = shelf.pop()
            else:
                self.refused.code = self._new(rounded, state, relaxed=capture is not None)
                address = self._base + self._top
                self._top += rounded
                if self._top > _SIZE:
                    raise MemoryError
            row = self._spare_rows.pop()
            struct.pack_into("<Q", self._rows, row * 8, address)
            self._live[row] = (address, kind)
        return address, self._row_base + row * 8

    def _new(self, size: int, state: ThreadState, *, relaxed: bool) -> int:
        """cudaHostAlloc; PyTorch relaxes the thread's capture mode for it if the thread's current stream captures."""
        before = state.mode
        if relaxed:
            state.mode = RELAXED
        try:
            return self._driver.call("cuMemHostAlloc", "cudaHostAlloc", size=size)
        finally:
            state.mode = before

    def _collect(self) -> None:
        for row, (address, kind) in list(self._live.items()):
            if struct.unpack_from("<Q", self._rows, row * 8)[0] != address:
                del self._live[row]
                self._spare_rows.append(row)
                self._free.setdefault(kind, []).append(address)

    def install(self, hooks: _Table, names: list[str]) -> None:
        """Let the CUDA hooks answer with this memory. Raises SimUnavailable if c10::DataPtr is laid out otherwise."""
        library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
        get_allocator = getattr(library, _GET_CPU_ALLOCATOR)
        get_allocator.restype = ctypes.c_void_p
        cpu_allocator = ctypes.c_void_p.from_address(get_allocator())  # its table of virtual functions
        real = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(
            (ctypes.c_void_p * (_ALLOCATE_SLOT + 1)).from_address(cpu_allocator.value or 0)[_ALLOCATE_SLOT] or 0
        )
        # Have the CPU's allocator fill a DataPtr, and see where it puts data, context and deleter.
        sample = (ctypes.c_uint64 * 4)()
        real(ctypes.addressof(sample), get_allocator(), 64)
        data = sample[0]
        contexts = [index for index in (1, 2) if sample[index] == data]
        if not data or len(contexts) != 1:
            raise SimUnavailable("c10::DataPtr is not laid out as expected")
        context_at = contexts[0]
        deleter_at, device = 3 - context_at, sample[3]

        def allocate(result: int, _this: int, size: int) -> int:
            fields = (ctypes.c_uint64 * 4).from_address(result)
            address, context = self.allocate(size) if size else (0, 0)
            fields[0], fields[context_at] = address, context
            fields[deleter_at], fields[3] = self._deleter if size else 0, device
            return result

        from cudagraph_doctor.sim.native_interface import _alive, _Table

        table = _Table(cpu_allocator.value or 0)
        callback = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(allocate)
        table._entries[_ALLOCATE_SLOT] = ctypes.cast(callback, ctypes.c_void_p).value
        allocator = (ctypes.c_void_p * 8)(table.address)
        _alive.extend((callback, allocator))
        address = ctypes.addressof(allocator)
        hooks.replace(names.index("getPinnedMemoryAllocator"), lambda _this: address, ctypes.c_void_p)
        hooks.replace(names.index("isPinnedPtr"), lambda _this, at: self.holds(at or 0), ctypes.c_bool, ctypes.c_void_p)
        self._raise_refusals()

    def _raise_refusals(self) -> None:
        """Tensor.pin_memory reports what the allocator could not: C++ cannot be told of an error from a callback."""
        original: Any = torch.Tensor.pin_memory

        def pin_memory(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            self.refused.code = cuda.SUCCESS
            result: torch.Tensor = original(tensor, *args, **kwargs)
            if self.refused.code != cuda.SUCCESS:
                raise cuda.cuda_error(self.refused.code)
            return result

        torch.Tensor.pin_memory = pin_memory
