"""PyTorch's caching allocator, with its rules for rounding, splitting, merging and private pools.

The constants and the best-fit search are those of c10/cuda/CUDACachingAllocator.cpp (torch 2.11 to 2.14): what a replay
finds at a stale address depends on which allocation reused it, so the simulated device must reuse as CUDA does.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from cudagraph_doctor.sim.arena import AddressSpace, Arena
from cudagraph_doctor.sim.memory_span import Span

MIN_BLOCK = 512
SMALL_SIZE = 1 << 20
"""Requests up to this size come from small segments."""
SMALL_BUFFER = 2 << 20
MIN_LARGE_ALLOC = 10 << 20
LARGE_BUFFER = 20 << 20
ROUND_LARGE = 2 << 20

Witness = tuple[str, int]
"""Operator or call that made an access, and its stack if that was asked for."""
UNSEEN: Witness = ("", 0)

PoolId = tuple[int, int]
DEFAULT_POOL: PoolId = (0, 0)


@dataclass(eq=False, slots=True, repr=False)
class Segment:
    """What one cudaMalloc returned."""

    address: int
    size: int
    small: bool
    stream: int
    pool: PrivatePool
    shelf: list[tuple[int, int, Block]]
    """Where its free blocks are kept, in the pool."""


@dataclass(eq=False, slots=True, repr=False)
class Block:
    """A piece of a segment: in use by one storage, or free."""

    address: int
    size: int
    segment: Segment
    free: bool = False
    requested: int = 0
    generation: int = 0
    """Counts the storages that lived at this address in this block."""
    before: Block | None = None
    after: Block | None = None
    other_streams: set[int] = field(default_factory=set)
    """Streams that `record_stream` named: the memory comes back only when they have passed."""
    write: tuple[int, int] = (0, 0)
    """(stream, tick) of the last write; kept for the race detector, as is what follows."""
    reads: dict[int, tuple[int, Witness]] | None = None
    """Tick and witness of the last read since that write, by stream."""
    writer: Witness = UNSEEN
    captured: bool = False
    """A graph reads or writes it: accesses from outside are told with their line."""

    def span(self) -> Span:
        """What a graph that uses this block will know of it."""
        self.captured = True
        return Span(self.address, self.size, self.generation)


@dataclass(eq=False, slots=True, repr=False)
class PrivatePool:
    """Blocks that belong together: the default pool, or the private pool of one or several graphs."""

    id: PoolId
    uses: int = 1
    free: dict[tuple[bool, int], list[tuple[int, int, Block]]] = field(default_factory=dict)
    """(small, stream) to the free blocks, sorted by (size, address)."""
    segments: list[Segment] = field(default_factory=list)


@dataclass(slots=True)
class Statistics:
    """Bytes and counts as torch.cuda.memory_stats reports them."""

    current: int = 0
    peak: int = 0
    allocated: int = 0

    @property
    def freed(self) -> int:
        """All that was allocated and is no more."""
        return self.allocated - self.current

    def grow(self, amount: int) -> None:
        """Count `amount` more."""
        self.current += amount
        self.allocated += amount
        if self.current > self.peak:  # noqa: PLR1730 - max() takes longer, and this is counted at each launch
            self.peak = self.current

    def shrink(self, amount: int) -> None:
        """Count `amount` less."""
        self.current -= amount


class OutOfMemory(Exception):  # noqa: N818 - an internal signal, turned into torch.OutOfMemoryError above
    """The device, or this process's share of it, is full."""


class CachingAllocator:
    """Memory of one device.

    `driver_alloc(size)` and `driver_free(address)` stand for cudaMalloc and cudaFree and are told of each segment.
    """

    def __init__(
        self,
        arena: Arena,
        device: int,
        driver_alloc: Callable[[int], None],
        driver_free: Callable[[int], None],
    ) -> None:
        self.arena = arena
        self.space = AddressSpace(arena.base + device * arena.bytes_per_device, arena.bytes_per_device)
        self.blocks: dict[int, Block] = {}
        """Blocks in use, by the address of their storage."""
        self.pools: dict[PoolId, PrivatePool] = {DEFAULT_POOL: PrivatePool(DEFAULT_POOL)}
        self.limit = arena.bytes_per_device
        self.bytes_in_use, self.bytes_reserved, self.segments = Statistics(), Statistics(), Statistics()
        self.bytes_requested = self.allocations = self.frees = 0
        self.retries = self.ooms = 0
        self._driver_alloc, self._driver_free = driver_alloc, driver_free
        self._waiting: list[Block] = []
        self._lock = threading.RLock()

    # ── allocation ──────────────────────────────────────────────────────────────────────────────
    def allocate(self, size: int, stream: int, pool_id: PoolId = DEFAULT_POOL) -> Block:
        """A block of at least `size` bytes for work on `stream`. Raises OutOfMemory."""
        with self._lock:
            if self._waiting:
                self.release_passed_streams()
            rounded = MIN_BLOCK if size < MIN_BLOCK else -(-size // MIN_BLOCK) * MIN_BLOCK
            small = rounded <= SMALL_SIZE
            pool = self.pools.get(pool_id) or self.pools.setdefault(pool_id, PrivatePool(pool_id, uses=0))
            block = self._best_fit(pool, small, stream, rounded) or self._new_segment(pool, small, stream, rounded)
            remaining = block.size - rounded
            if remaining >= MIN_BLOCK if small else remaining > SMALL_SIZE:
                self._split(block, rounded)
            block.free = False
            block.generation += 1
            block.requested = size
            block.write, block.reads, block.writer, block.captured = (0, 0), None, UNSEEN, False
            self.blocks[block.address] = block
            in_use = self.bytes_in_use
            in_use.grow(block.size)
            self.bytes_requested += size
            self.allocations += 1
            return block

    def _best_fit(self, pool: PrivatePool, small: bool, stream: int, size: int) -> Block | None:
        shelf = pool.free.get((small, stream))
        if not shelf:
            return None
        index = bisect.bisect_left(shelf, (size,))
        return shelf.pop(index)[2] if index < len(shelf) else None

    def _new_segment(self, pool: PrivatePool, small: bool, stream: int, size: int) -> Block:
        if small:
            wanted = SMALL_BUFFER
        elif size < MIN_LARGE_ALLOC:
            wanted = LARGE_BUFFER
        else:
            wanted = -(-size // ROUND_LARGE) * ROUND_LARGE
        address = self._take(wanted)
        if address is None:
            self.retries += 1
            self.release_passed_streams()
            self.empty_cache()
            address = self._take(wanted)
        if address is None:
            self.ooms += 1
            raise OutOfMemory
        segment = Segment(address, wanted, small, stream, pool, pool.free.setdefault((small, stream), []))
        pool.segments.append(segment)
        self.bytes_reserved.grow(wanted)
        self.segments.grow(1)
        self._driver_alloc(wanted)
        return Block(address, wanted, segment)

    def _take(self, size: int) -> int | None:
        if self.bytes_reserved.current + size > self.limit:
            return None
        return self.space.take(size)

    def _split(self, block: Block, size: int) -> None:
        rest = Block(block.address + size, block.size - size, block.segment, free=True, before=block, after=block.after)
        if block.after is not None:
            block.after.before = rest
        block.after, block.size = rest, size
        self._shelve(rest)

    def _shelve(self, block: Block) -> None:
        # Addresses differ: blocks are never compared.
        bisect.insort(block.segment.shelf, (block.size, block.address, block))

    # ── release ─────────────────────────────────────────────────────────────────────────────────
    def free(self, block: Block) -> None:
        """The storage at `block` died."""
        with self._lock:
            self.blocks.pop(block.address, None)
            self.bytes_in_use.current -= block.size
            self.bytes_requested -= block.requested
            self.frees += 1
            if block.other_streams:
                self._waiting.append(block)
            else:
                self._free_now(block)

    def release_passed_streams(self, *, capturing: Callable[[int], bool] | None = None) -> None:
        """Take back blocks that only waited for other streams; the simulated device has always caught up with them.

        While `capturing` says of a stream that it captures, its blocks go on waiting, as in PyTorch.
        """
        waiting, self._waiting = self._waiting, []
        for block in waiting:
            if capturing is not None and any(map(capturing, block.other_streams)):
                self._waiting.append(block)
            else:
                block.other_streams = set()
                self._free_now(block)

    def _free_now(self, block: Block) -> None:
        block.free = True
        for neighbour in (block.before, block.after):
            if neighbour is not None and neighbour.free:
                self._unshelve(neighbour)
                if neighbour is block.before:
                    block.address, block.before = neighbour.address, neighbour.before
                    if block.before is not None:
                        block.before.after = block
                else:
                    block.after = neighbour.after
                    if block.after is not None:
                        block.after.before = block
                block.size += neighbour.size
        self._shelve(block)

    def _unshelve(self, block: Block) -> None:
        shelf = block.segment.shelf
        index = bisect.bisect_left(shelf, (block.size, block.address))
        del shelf[index]

    def empty_cache(self) -> None:
        """Return to the driver each segment that is free as a whole, unless a graph still owns its pool."""
        with self._lock:
            for pool in list(self.pools.values()):
                if pool.id != DEFAULT_POOL and pool.uses > 0:
                    continue
                for shelf in pool.free.values():
                    for _, _, block in [entry for entry in shelf if entry[2].size == entry[2].segment.size]:
                        self._unshelve(block)
                        self._unmap(block.segment)
                if pool.id != DEFAULT_POOL and not pool.segments:
                    del self.pools[pool.id]

    def _unmap(self, segment: Segment) -> None:
        segment.pool.segments.remove(segment)
        self.space.give_back(segment.address)
        self.arena.give_pages_back(segment.address, segment.size)
        self.bytes_reserved.shrink(segment.size)
        self.segments.shrink(1)
        self._driver_free(segment.address)

    # ── pools ───────────────────────────────────────────────────────────────────────────────────
    def use_pool(self, pool_id: PoolId) -> None:
        """One more graph owns this pool."""
        with self._lock:
            self.pools.setdefault(pool_id, PrivatePool(pool_id, uses=0)).uses += 1

    def leave_pool(self, pool_id: PoolId) -> None:
        """One graph less owns this pool; without an owner its free segments can go back to the driver."""
        with self._lock:
            if (pool := self.pools.get(pool_id)) is not None:
                pool.uses -= 1

    def every_segment(self) -> list[Segment]:
        """All segments, by address."""
        return sorted((s for pool in self.pools.values() for s in pool.segments), key=lambda s: s.address)
