"""Where the memory of a tensor's storage begins: for a view, before its own first byte."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def storage_address(torch: Any) -> Callable[[Any], int]:
    """The function of this torch that tells it; 0 without memory. Raises for tensors without a storage (sparse)."""
    # The first does not materialise a copy-on-write storage; torch has it since 2.1.
    found: Callable[[Any], int] | None = getattr(torch._C, "_data_address", None)
    return found or (lambda tensor: int(tensor.untyped_storage().data_ptr()))
