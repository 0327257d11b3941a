"""Race detection: two accesses to one block, one of them a write, that no stream order, event or wait orders.

Execution is serial, so an access is compared with those before it. A block remembers its last write and the reads
since, each as the tick of a stream; the access is ordered behind them if its own stream has waited for that tick, or
the host has. What a replay does is an access of the stream that it is launched on, to the addresses that the graph
holds, whoever owns them now. Nodes inside one capture are not compared with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from cudagraph_doctor.sim.caching_allocator import UNSEEN, Block, Witness
from cudagraph_doctor.sim.pool_traffic import PoolTraffic
from cudagraph_doctor.sim.streams import SimStream

if TYPE_CHECKING:
    from cudagraph_doctor.sim.driver import SimDriver
    from cudagraph_doctor.sim.memory_span import Span

LIMIT = 200
"""Races reported in one process; a racing loop says the same each time."""


class _Bare:
    """Remembers accesses to memory that no storage of PyTorch owns: raw allocations, intermediates of a graph."""

    __slots__ = ("address", "captured", "reads", "size", "write", "writer")

    def __init__(self, address: int, size: int) -> None:
        self.address, self.size = address, size
        self.write = (0, 0)
        self.reads: dict[int, tuple[int, Witness]] | None = None
        self.writer = UNSEEN
        self.captured = True


class RaceDetector:
    """Compares each access with the ones before it, and records what is unordered."""

    def __init__(self, driver: SimDriver, block_at: Callable[[int], Block | None]) -> None:
        self._driver = driver
        self._block_at = block_at
        self._bare: dict[int, _Bare] = {}
        self.active = False
        """A second stream has had work. Until then everything is ordered, and of eager work only writes are noted."""
        self._reported: set[tuple[int, int, int]] = set()
        self._traffic = PoolTraffic(driver)

    def forget(self) -> None:
        """Start anew: everything so far is over."""
        self.active = False
        self._bare.clear()

    def launch(self, stream: SimStream, what: str, reads: Iterable[Block], writes: Iterable[Block]) -> None:
        """Eager work on `stream` that reads and writes these blocks."""
        stream.tick += 1
        if not self.active:
            if stream.legacy:
                mark = (stream.key, stream.tick)
                for block in writes:
                    block.write = mark
                    if block.captured:
                        block.writer = self._witness(what)
                return
            self.active = True
        read, written = tuple(reads), tuple(writes)
        self._access(stream, what, read, written)
        self._traffic.eager(stream, what, read, written)

    def graph_launch(self, stream: SimStream, what: str, reads: Iterable[Span], writes: Iterable[Span]) -> None:
        """A replay, or raw work: it reads and writes memory by address."""
        stream.tick += 1
        self.active = self.active or not stream.legacy
        self._traffic.replayed()
        self._access(stream, what, [self._at(span) for span in reads], tuple(self._at(span) for span in writes))

    def _at(self, span: Span) -> Block | _Bare:
        block = self._block_at(span.address)
        if block is not None:
            return block
        bare = self._bare.get(span.address)
        if bare is None:
            bare = self._bare[span.address] = _Bare(span.address, span.size)
        return bare

    def _witness(self, what: str) -> Witness:
        return what, self._driver.where()

    def _access(
        self,
        stream: SimStream,
        what: str,
        reads: Iterable[Block | _Bare],
        writes: tuple[Block | _Bare, ...],
    ) -> None:
        witness: Witness | None = None
        for written, blocks in ((False, reads), (True, writes)):
            for block in blocks:
                if block.captured:
                    witness = witness or self._witness(what)
                if written:
                    self._write(stream, what, block, witness if witness and block.captured else UNSEEN)
                elif block not in writes:
                    self._read(stream, what, block, witness if witness and block.captured else UNSEEN)

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

    def _read(self, stream: SimStream, what: str, block: Block | _Bare, witness: Witness) -> None:
        if not self._ordered(stream, *block.write):
            self._report(block, block.write[0], block.writer, stream, "read after unordered write", what)
        if block.reads is None:
            block.reads = {}
        block.reads[stream.key] = (stream.tick, witness)

    def _write(self, stream: SimStream, what: str, block: Block | _Bare, witness: Witness) -> None:
        if not self._ordered(stream, *block.write):
            self._report(block, block.write[0], block.writer, stream, "write after unordered write", what)
        else:
            for key, (tick, reader) in (block.reads or {}).items():
                if not self._ordered(stream, key, tick):
                    self._report(block, key, reader, stream, "write after unordered read", what)
                    break
        block.write, block.reads, block.writer = (stream.key, stream.tick), None, witness

    def _report(
        self, block: Block | _Bare, first: int, earlier: Witness, second: SimStream, kind: str, what: str
    ) -> None:
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
            "first_name": earlier[0],
            "first_stack": earlier[1],
        })  # fmt: skip
