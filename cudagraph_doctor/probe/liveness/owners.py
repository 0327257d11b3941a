"""Whose memory it is: of a storage that a window used, and of an address that was freed under a graph.

No code of the target runs here: types are compared by identity, containers are only those of the interpreter's own.
"""

from __future__ import annotations

import gc
import sys

from cudagraph_doctor.probe.storage_address import storage_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cudagraph_doctor.probe.liveness.storages import Entry

SEARCHES = 8
"""Searches of the whole heap for the tensor that has an address: 20 to 100 ms each in a large program."""
CASTS = 8
"""Tensors that may be autocast's for which the heap is searched for another owner, in one window."""
AUTOCAST = "autocast cache"


class Owners:
    """Finds owners."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._parameter = torch.nn.Parameter
        self._plain = (torch.Tensor, torch.nn.Parameter)
        self._address = storage_address(torch)
        self._quiet = torch._C.DisableTorchFunction
        self._left = SEARCHES

    def address(self, tensor: Any) -> int:
        """Address of a tensor's storage; 0 where it has none, or is of a class of the target's."""
        if type(tensor) not in self._plain:
            return 0
        try:
            with self._quiet():
                return int(self._address(tensor))
        except Exception:  # sparse, or without memory
            return 0

    # ── storages of a window ────────────────────────────────────────────────────────────────────
    def of_entries(self, entries: list[Entry]) -> dict[int, str]:
        """`parameter` or `autocast cache` by the number of the storage, where that is known."""
        found: dict[int, str] = {}
        casts = []
        dtype = self._autocast_dtype()
        for entry in entries:
            tensor = entry.tensor()
            if type(tensor) is self._parameter:
                found[entry.id] = "parameter"
            elif dtype is not None and not entry.host and type(tensor) is self._torch.Tensor:
                with self._quiet():
                    if tensor.dtype == dtype:
                        casts.append((entry, tensor))
        for entry, tensor in casts[:CASTS]:
            if not _held(tensor):
                found[entry.id] = AUTOCAST
        return found

    def _autocast_dtype(self) -> Any:
        """The dtype to which autocast casts on CUDA now and keeps what it cast; None where it does neither."""
        torch = self._torch
        try:
            if not torch.is_autocast_cache_enabled():
                return None
            try:
                return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
            except TypeError:  # before 2.4
                return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None
        except Exception:
            return None

    # ── an address that was freed ───────────────────────────────────────────────────────────────
    def of_address(self, address: int, *, host: bool = False) -> str:
        """Who has the memory at an address now, in words; empty where it was not found or is not looked for."""
        if self._left <= 0:
            return ""
        self._left -= 1
        tensors = [item for item in gc.get_objects() if type(item) in self._plain]
        with self._quiet():
            for tensor in tensors:
                if tensor.is_cuda is host:
                    continue
                start = self.address(tensor)
                # The host allocator gives out whole blocks, the one of the device parts of them.
                size = 1 if host else tensor.untyped_storage().nbytes()
                if start and start <= address < start + size:
                    dtype = str(tensor.dtype).removeprefix("torch.")
                    return f"a tensor of shape {tuple(tensor.shape)}, {dtype}{_name(tensor, tensors)}"
        return ""


def _held(tensor: Any) -> bool:
    """Whether a container of Python's has a tensor; locals of running functions are not seen."""
    return any(type(other) is not tuple for other in gc.get_referrers(tensor))


def _name(tensor: Any, beside: list[Any]) -> str:
    """Where a tensor is kept: `, `cache`` or `, in the list `requests``; empty where no module's name leads to it."""
    for holder in gc.get_referrers(tensor):
        if holder is beside:
            continue
        name = _global(holder, tensor)
        if name:
            return f", `{name}`"
        if type(holder) in {list, dict}:
            for outer in gc.get_referrers(holder):
                name = _global(outer, holder)
                if name:
                    return f", in the {type(holder).__name__} `{name}`"
    return ""


def _global(namespace: Any, value: Any) -> str:
    """The name of a value among a module's globals."""
    if type(namespace) is not dict or "__name__" not in namespace or "__builtins__" not in namespace:
        return ""
    module = namespace["__name__"]
    if type(module) is not str or sys.modules.get(module) is None:
        return ""
    return next((name for name, item in list(namespace.items()) if item is value and type(name) is str), "")
