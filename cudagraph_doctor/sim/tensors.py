"""CUDA tensors over simulated device memory, made through DLPack.

`torch._C._from_dlpack` takes a DLManagedTensor of device type kDLCUDA and makes a plain torch.Tensor on `cuda:N` of
it. PyTorch calls the deleter when the storage dies. That may be with a Python exception pending, without the GIL, or
after the interpreter has gone, so the deleter cannot be Python code: it is libc's `time(time_t *)`, which overwrites
the first field of the structure, the data pointer. `collect` finds the rows that were overwritten.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cudagraph_doctor.sim.arena import MAP_NORESERVE
from cudagraph_doctor.sim.caching_allocator import Block

ROWS = 1 << 20
"""Storages that can be alive at once."""
MAX_DIMENSIONS = 25
ROW_SIZE = 64
KDL_CUDA = 2

# DLManagedTensor (dlpack.h, unversioned): data, device {type, id}, ndim, dtype {code, bits, lanes}, shape, strides,
# byte_offset, manager_ctx, deleter.
_PACK_ROW = struct.Struct("<QiiiBBHQQQQQ").pack_into
_PACK_DATA = struct.Struct("<Q").pack_into
_GEOMETRY_SIZE = 16 * MAX_DIMENSIONS

# Values of the data field that are no addresses of a live storage. time() writes seconds since 1970: below 2**34 until
# the year 2514, and no mapping lies that low.
_DEAD_BELOW = 1 << 34
_UNUSED = 1 << 62

_DLPACK_DTYPES: dict[torch.dtype, tuple[int, int]] = {
    torch.int8: (0, 8), torch.int16: (0, 16), torch.int32: (0, 32), torch.int64: (0, 64),
    torch.uint8: (1, 8), torch.uint16: (1, 16), torch.uint32: (1, 32), torch.uint64: (1, 64),
    torch.float16: (2, 16), torch.float32: (2, 32), torch.float64: (2, 64), torch.bfloat16: (4, 16),
    torch.complex32: (5, 32), torch.complex64: (5, 64), torch.complex128: (5, 128), torch.bool: (6, 8),
    torch.float8_e4m3fn: (10, 8), torch.float8_e4m3fnuz: (11, 8), torch.float8_e5m2: (12, 8),
    torch.float8_e5m2fnuz: (13, 8), torch.float8_e8m0fnu: (14, 8),
}  # fmt: skip

_from_dlpack = torch._C._from_dlpack
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Layout:
    """The geometry of a tensor, ready for DLPack. Raises NotImplementedError for a dtype that DLPack does not know."""

    __slots__ = ("code", "dimensions", "dtype", "nbytes", "packed", "size", "stride")

    def __init__(self, dtype: torch.dtype, size: Any, stride: Any) -> None:
        self.dtype, self.size, self.stride = dtype, size, stride
        self.code = dlpack_dtype(dtype)
        self.dimensions = len(size)
        self.packed = struct.pack(f"<{2 * len(size)}q", *size, *stride)
        span = 1 + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
        self.nbytes = 0 if 0 in size else span * dtype.itemsize


_layout = functools.lru_cache(maxsize=4096)(Layout)


def dlpack_dtype(dtype: torch.dtype) -> tuple[int, int]:
    """(type code, bits) of a dtype. Raises NotImplementedError for one that DLPack does not know."""
    try:
        return _DLPACK_DTYPES[dtype]
    except KeyError:
        msg = f"cudagraph-doctor: tensors of {dtype} are not simulated"
        raise NotImplementedError(msg) from None


class TensorFactory:
    """Makes CUDA tensors and learns of their end.

    `release(block)` is called for the block of each storage that has died, when that is noticed.
    """

    def __init__(self, release: Callable[[Block], None]) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
        self._rows = mmap.mmap(-1, ROWS * ROW_SIZE, flags=flags)
        self._geometry = mmap.mmap(-1, ROWS * _GEOMETRY_SIZE, flags=flags)
        self._row_base = ctypes.addressof(ctypes.c_char.from_buffer(self._rows))
        self._geometry_base = ctypes.addressof(ctypes.c_char.from_buffer(self._geometry))
        self._data: Any = np.frombuffer(self._rows, "<u8")[:: ROW_SIZE // 8]
        self._seen: Any = self._data[:0]  # the rows that were ever used
        self._unused_rows: list[int] = []
        self._blocks: dict[int, Block | None] = {}
        self._release = release
        self._deleter = ctypes.cast(ctypes.CDLL(None).time, ctypes.c_void_p).value or 0
        self._lock = threading.RLock()

    def collect(self) -> None:
        """Release the memory of every storage that has died since the last call."""
        seen = self._seen
        if len(seen) == 0:
            return
        with self._lock:
            row = int(seen.argmin())
            while seen.item(row) < _DEAD_BELOW:
                _PACK_DATA(self._rows, row * ROW_SIZE, _UNUSED)
                block = self._blocks.pop(row, None)
                self._unused_rows.append(row)
                if block is not None:
                    self._release(block)
                row = int(seen.argmin())

    def make(
        self, address: int, block: Block | None, device: int, dtype: torch.dtype, size: Any, stride: Any
    ) -> torch.Tensor:
        """An uninitialised tensor of that geometry at `address`, owning `block`.

        Raises NotImplementedError for a dtype that DLPack does not know (quantized, sub-byte).
        """
        return self.lay_out(address, block, device, _layout(dtype, tuple(size), tuple(stride)))

    def lay_out(self, address: int, block: Block | None, device: int, layout: Layout) -> torch.Tensor:
        """Like `make`, with the geometry worked out before."""
        with self._lock:
            row = self._unused_rows.pop() if self._unused_rows else self._new_row()
            geometry = row * _GEOMETRY_SIZE
            packed, dimensions = layout.packed, layout.dimensions
            self._geometry[geometry : geometry + len(packed)] = packed
            shape_at = self._geometry_base + geometry
            self._blocks[row] = block
            place = row * ROW_SIZE
            _PACK_ROW(
                self._rows, place, address, KDL_CUDA, device, dimensions, *layout.code, 1,
                shape_at, shape_at + 8 * dimensions, 0, 0, self._deleter,
            )  # fmt: skip
            tensor: torch.Tensor = _from_dlpack(_new_capsule(self._row_base + place, b"dltensor", None))
            if address == 0:  # an empty tensor; PyTorch has read the pointer, and zero would look like a dead row
                _PACK_DATA(self._rows, place, _UNUSED)
            return tensor

    def _new_row(self) -> int:
        row = len(self._seen)
        if row == ROWS:
            msg = f"cudagraph-doctor: more than {ROWS} tensors are alive on the simulated device"
            raise RuntimeError(msg)
        _PACK_DATA(self._rows, row * ROW_SIZE, _UNUSED)
        self._seen = self._data[: row + 1]
        return row
