"""Where an address lies in the memory of torch's caching allocator, by one snapshot of it."""

from __future__ import annotations

from bisect import bisect_right
from time import perf_counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GENERAL = "general"
BUDGET = 2.0
"""Seconds that all snapshots of a process may take."""


class AllocatorMap:
    """Segments and blocks as they were at one moment."""

    def __init__(self, segments: list[dict[str, Any]]) -> None:
        self._segments = sorted(segments, key=lambda segment: int(segment["address"]))
        self._starts = [int(segment["address"]) for segment in self._segments]

    def ranges(self) -> list[tuple[int, int]]:
        """(address, bytes) of every segment."""
        return [(int(segment["address"]), int(segment["total_size"])) for segment in self._segments]

    def pool(self, address: int) -> str:
        """`general`, or the id of a private pool, "0,1"; empty for memory that is not the allocator's."""
        segment = self._segment(address)
        if segment is None:
            return ""
        number = tuple(segment.get("segment_pool_id") or (0, 0))
        return GENERAL if number == (0, 0) else ",".join(map(str, number))

    def state(self, address: int) -> str:
        """`used`, `cached` or `unmapped`."""
        segment = self._segment(address)
        if segment is None:
            return "unmapped"
        start = int(segment["address"])
        for block in segment["blocks"]:
            start = int(block.get("address", start))
            size = int(block["size"])
            if start <= address < start + size:
                return "used" if block["state"] == "active_allocated" else "cached"
            start += size
        return "unmapped"  # a hole in an expandable segment

    def _segment(self, address: int) -> dict[str, Any] | None:
        place = bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        segment = self._segments[place]
        return segment if address < self._starts[place] + int(segment["total_size"]) else None


class Allocator:
    """Makes snapshots, as long as they are cheap."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._spent = 0.0
        self._options: tuple[Any, ...] | None = None
        self.why = ""
        """Why there are no snapshots."""

    def look(self) -> AllocatorMap | None:
        """A snapshot, or None. The allocator only copies its tables: no CUDA call is made."""
        if self.why or not self._torch.cuda.is_initialized():
            return None
        began = perf_counter()
        found = self._snapshot()
        self._spent += perf_counter() - began
        if found is None:
            self.why = "torch gives no snapshot of this allocator"
            return None
        if self._spent > BUDGET:
            self.why = f"snapshots of the allocator took more than {BUDGET:.0f} s"
        return AllocatorMap(found)

    def _snapshot(self) -> list[dict[str, Any]] | None:
        tried = _CALLS if self._options is None else (self._options,)
        for options in tried:
            try:
                found: list[dict[str, Any]] = self._torch._C._cuda_memorySnapshot(*options)["segments"]
            except Exception:
                continue
            self._options = options
            return found
        return None


_CALLS: tuple[tuple[Any, ...], ...] = (((0, 0, False),), (None,), ())
"""Arguments of `_cuda_memorySnapshot`: without the history where torch can leave it out; torch 2.8; older."""
