"""Which operator made which node: the end of the stream's work is asked for around each operator."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class NodeOps:
    """Marks of one window: the newest node of the stream, and the operator that had just run.

    Two lists of numbers, and no pairs: the garbage collector of the target counts new containers.
    """

    __slots__ = ("_handles", "_last", "_operators")

    def __init__(self) -> None:
        self._handles: list[int] = []
        self._operators: list[int] = []
        self._last = 0

    def mark(self, handle: int, q: int) -> None:
        """The stream's newest node is `handle`, after operator `q`, or before one (0)."""
        if handle and handle != self._last:
            self._last = handle
            self._handles.append(handle)
            self._operators.append(q)

    def by_handle(self, handles: Sequence[int]) -> dict[int, int]:
        """Handle → operator, of nodes in the order of their making.

        An operator made the nodes from the mark before it to its own, where the marks' nodes come in that order.
        """
        place = {handle: index for index, handle in enumerate(handles)}
        found: dict[int, int] = {}
        reached = -1
        for handle, q in zip(self._handles, self._operators, strict=True):
            if q:
                found[handle] = q
            index = place.get(handle)
            if index is None or index <= reached:
                continue
            if q:
                for other in handles[reached + 1 : index]:
                    found.setdefault(other, q)
            reached = index
        return found
