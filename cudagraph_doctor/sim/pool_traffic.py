"""Eager work on memory of graph pools: who reads or writes a graph's own tensors outside of its replays.

Told as `touch` records, by address: a storage's number is the recorder's. Each block once for reads and once for writes
between two replays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cudagraph_doctor.sim.caching_allocator import DEFAULT_POOL, Block

if TYPE_CHECKING:
    from cudagraph_doctor.sim.driver import SimDriver
    from cudagraph_doctor.sim.streams import SimStream

LIMIT = 1000
"""Records in one process."""
_HOST_READS = frozenset({"aten::_local_scalar_dense"})


class PoolTraffic:
    """Tells eager accesses to blocks of private pools that a graph uses."""

    def __init__(self, driver: SimDriver) -> None:
        self._driver = driver
        self._told: set[tuple[int, bool]] = set()
        self._count = 0

    def replayed(self) -> None:
        """A graph ran: from here on every block may be told again."""
        self._told.clear()

    def eager(self, stream: SimStream, what: str, reads: Iterable[Block], writes: Iterable[Block]) -> None:
        """Eager work on `stream`."""
        for written, blocks in ((False, reads), (True, writes)):
            for block in blocks:
                if block.captured and block.segment.pool.id != DEFAULT_POOL:
                    self._tell(stream, what, block, written)

    def _tell(self, stream: SimStream, what: str, block: Block, written: bool) -> None:
        key = (block.address, written)
        if key in self._told or self._count >= LIMIT:
            return
        self._told.add(key)
        self._count += 1
        self._driver.emit({
            "k": "touch",
            "storage": 0,
            "what": "write" if written else "host-read" if what in _HOST_READS else "read",
            "name": what,
            "stream": stream.handle,
            "ptr": hex(block.address),
            "size": block.size,
            "stack": self._driver.where(),
        })  # fmt: skip
