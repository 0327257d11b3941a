"""Where torch keeps the address of a storage's memory, found out by trying, for the torch that the target has.

A weak reference keeps the `StorageImpl` of C++ in place after its memory is gone, and torch then clears the address in
it. So eight bytes tell freed (0), moved (another address) and alive (the same) apart, at the price of reading them.
"""

from __future__ import annotations

import ctypes
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WORDS = 8
"""Words of a StorageImpl in which the address is looked for: table, counts, address come first."""


class Layout:
    """How the storages of this torch are watched."""

    __slots__ = ("last", "offset")

    def __init__(self, offset: int, last: int) -> None:
        self.offset = offset
        """Bytes from the StorageImpl to the address of its memory."""
        self.last = last
        """Use count of a storage while the last tensor of it dies."""


def layout_of(torch: Any) -> Layout | None:
    """The layout, or None where it is not as expected. Makes a CPU tensor: only outside of captures."""
    if not hasattr(torch._C, "_storage_Use_Count"):
        return None
    counts: list[int] = []
    tensor = torch.empty(16, dtype=torch.uint8, device="cpu")
    storage = tensor.untyped_storage()
    impl = storage._weak_ref()
    try:
        words = [ctypes.c_uint64.from_address(impl + 8 * place) for place in range(_WORDS)]
        address = storage.data_ptr()
        before = [word.value for word in words]
        storage.resize_(4096)  # moves it
        after, moved = [word.value for word in words], storage.data_ptr()
        del storage
        watch = weakref.ref(tensor, lambda _: counts.append(torch._C._storage_Use_Count(impl)))
        del tensor
        dead = [word.value for word in words]
    finally:
        torch.UntypedStorage._free_weak_ref(impl)
    fits = [
        place
        for place in range(_WORDS)
        if before[place] == address and after[place] == moved and address != moved and not dead[place]
    ]
    if not fits or not counts or watch() is not None:
        return None
    return Layout(8 * fits[0], counts[0])
