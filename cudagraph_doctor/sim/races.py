"""Race detection: two accesses to one block, one of them a write, that no stream order, event or wait orders.

Execution is serial, so an access is compared with those before it. A block remembers its last write and the reads
since, each as the tick of a stream; the access is ordered behind them if its own stream has waited for that tick, or
the host has. What a replay does is an access of the stream that it is launched on. Nodes inside one capture are not
compared with each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cudagraph_doctor.sim.caching_allocator import Block
from cudagraph_doctor.sim.streams import SimStream

if TYPE_CHECKING:
    from cudagraph_doctor.sim.driver import SimDriver

LIMIT = 200
"""Races reported in one process; a racing loop says the same each time."""


class RaceDetector:
    """Compares each access with the ones before it, and records what is unordered."""

    def __init__(self, driver: SimDriver) -> None:
        self._driver = driver
        self.active = False
        """A second stream has had work. Until then everything is ordered, and only writes are noted."""
        self._reported: set[tuple[int, int, int]] = set()

    def forget(self) -> None:
        """Start anew: everything so far is over."""
        self.active = False

    def launch(self, stream: SimStream, what: str, reads: Iterable[Block], writes: Iterable[Block]) -> None:
        """Work on `stream` that reads and writes these blocks."""
        stream.tick += 1
        if not self.active:
            if stream.legacy:
                mark = (stream.key, stream.tick)
                for block in writes:
                    block.write = mark
                return
            self.active = True
        written = tuple(writes)
        for block in reads:
            if block not in written:
                self._read(stream, what, block)
        for block in written:
            self._write(stream, what, block)

    def _ordered(self, stream: SimStream, key: int, tick: int) -> bool:
        if key == stream.key or tick == 0:
            return True
        if stream.clock.get(key, 0) >= tick or self._driver.host.get(key, 0) >= tick:
            return True
        # The legacy stream and every blocking stream wait for each other without being told.
        if stream.legacy:
            other = self._driver.streams.get(key)
            return other is not None and other.blocking
        return stream.blocking and key < 0

    def _read(self, stream: SimStream, what: str, block: Block) -> None:
        if not self._ordered(stream, *block.write):
            self._report(block, block.write[0], stream, "read after unordered write", what)
        if block.reads is None:
            block.reads = {}
        block.reads[stream.key] = stream.tick

    def _write(self, stream: SimStream, what: str, block: Block) -> None:
        if not self._ordered(stream, *block.write):
            self._report(block, block.write[0], stream, "write after unordered write", what)
        else:
            for key, tick in (block.reads or {}).items():
                if not self._ordered(stream, key, tick):
                    self._report(block, key, stream, "write after unordered read", what)
                    break
        block.write, block.reads = (stream.key, stream.tick), None

    def _report(self, block: Block, first: int, second: SimStream, kind: str, what: str) -> None:
        seen = (block.address, first, second.key)
        if seen in self._reported or len(self._reported) >= LIMIT:
            return
        self._reported.add(seen)
        self._driver.emit({
            "k": "race",
            "what": kind,
            "ptr": hex(block.address),
            "size": block.size,
            "first": max(first, 0),
            "stream": second.handle,
            "name": what,
        })  # fmt: skip
