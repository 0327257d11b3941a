"""In which order the graphs of one memory pool are replayed, and on which streams.

Such graphs have their scratch memory at the same addresses. That is sound as long as they run one after the other, in
the order of their captures where one's output is another's scratch.
"""

from __future__ import annotations

import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cudagraph_doctor.probe.liveness.watch import Watch

FIRST = 32
"""Replays of each graph that are told, whatever came before."""
MOST_PAIRS = 4096
"""Pairs of graphs, one replayed behind the other, that are told once each."""


class SharedPool:
    """A memory pool, and which of its graphs was replayed last."""

    __slots__ = ("last", "pairs", "watches")

    def __init__(self) -> None:
        self.watches: weakref.WeakSet[Watch] = weakref.WeakSet()
        self.last: tuple[int, int] = (0, 0)
        """Executable graph and raw stream."""
        self.pairs: set[tuple[int, int, bool]] = set()

    def news(self, watch: Watch, executable: int, raw: int) -> int | None:
        """A graph is replayed: the one before it (0: none) if this is to be told, else None."""
        before, stream = self.last
        pair = (before, executable, stream == raw)
        self.last = (executable, raw)
        if watch.told < FIRST:
            watch.told += 1
        elif pair in self.pairs or len(self.pairs) >= MOST_PAIRS:
            return None
        self.pairs.add(pair)
        return before


class Pools:
    """The memory pools of a process's graphs."""

    def __init__(self) -> None:
        self._by_name: dict[str, SharedPool] = {}

    def join(self, name: str, watch: Watch) -> None:
        """A graph uses a pool: from the second one on, replays of all of them are followed."""
        pool = self._by_name.get(name)
        if pool is None:
            pool = self._by_name[name] = SharedPool()
        pool.watches.add(watch)
        if len(pool.watches) > 1:
            for member in list(pool.watches):
                member.pool = pool
