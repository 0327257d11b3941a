"""The one sequence counter of a process, drawn by Python now and shared with the C probe once that is loaded.

Alone, Python draws from `itertools.count`, whose step is atomic under the GIL. `share` moves the counter to a 64-bit
word in shared memory and draws through an atomic fetch-and-add of the native library from then on. A thread that was
between reading and calling the old counter keeps a number below the gap that `share` leaves, so no number is drawn
twice.
"""

from __future__ import annotations

import itertools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

GAP = 1 << 10
"""Numbers left out when the counter moves: more than there are threads that may still hold the old one."""


class Sequence:
    """Draws numbers from 1 on: `sequence.draw()`."""

    __slots__ = ("draw",)

    draw: Callable[[], int]

    def __init__(self) -> None:
        self.draw = itertools.count(1).__next__

    def share(self, word: memoryview, fetch_add: Callable[[], int]) -> None:
        """Moves the counter into `word` (one unsigned 64-bit element).

        Args:
            word: shared memory in which the counter lives from now on.
            fetch_add: adds 1 to that word atomically, returns what it held; must not release the GIL for long.
        """
        word[0] = self.draw() + GAP
        self.draw = fetch_add
