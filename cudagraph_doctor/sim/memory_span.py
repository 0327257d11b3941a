"""A piece of device memory as a graph knows it: by address, whoever owns the memory later."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """Bytes that a node reads or writes. The allocation there may be another one by the time of a replay."""

    address: int
    size: int
    generation: int = 0
    """Which of the storages that lived at this address in its block; 0 for memory that did not come from the caching
    allocator."""
