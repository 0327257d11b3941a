"""Which words of kernel parameters are addresses: those that lie in memory that is known."""

from __future__ import annotations

import struct
from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST = 64
"""Addresses told of one node."""


class KnownMemory:
    """Ranges of memory that belongs to somebody."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(ranges)
        self._starts = [start for start, _ in ordered]
        self._ends: list[int] = []
        reach = 0  # ranges may lie in each other: how far one of them reaches by now
        for start, size in ordered:
            reach = max(reach, start + size)
            self._ends.append(reach)

    def holds(self, address: int) -> bool:
        """Whether an address lies in one of them."""
        place = bisect_right(self._starts, address) - 1
        return place >= 0 and address < self._ends[place]

    def split(self, params: Sequence[bytes], *, opaque: bool) -> tuple[list[int], list[int]]:
        """(addresses that are a parameter of their own, addresses inside structures), in order, each once."""
        plain: dict[int, None] = {}
        inside: dict[int, None] = {}
        lowest = self._starts[0] if self._starts else 0
        for value in params:
            found = plain if len(value) == 8 and not opaque else inside
            for (word,) in struct.iter_unpack("<Q", value[: len(value) & ~7]):
                if word >= lowest and self.holds(word):
                    found[word] = None
        return list(plain)[:MOST], [word for word in inside if word not in plain][:MOST]
