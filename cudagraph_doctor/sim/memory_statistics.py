"""`torch.cuda.memory_stats` and `memory_snapshot` of a simulated device, in the shape that PyTorch's C++ gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudagraph_doctor.sim.caching_allocator import DEFAULT_POOL, Block, CachingAllocator, PoolId, Statistics

if TYPE_CHECKING:
    from cudagraph_doctor.sim.simulation import Simulation

_ZERO = Statistics()


def _three(total: Statistics) -> dict[str, dict[str, int]]:
    def one(part: Statistics) -> dict[str, int]:
        return {
            "current": part.current,
            "peak": part.peak,
            "allocated": part.allocated,
            "freed": part.freed,
        }

    return {"all": one(total), "small_pool": one(_ZERO), "large_pool": one(_ZERO)}


def memory_stats(sim: Simulation, device: int) -> dict[str, Any]:
    """What `torch._C._cuda_memoryStats` returns."""
    sim.factory.collect()
    memory = sim.allocators[device]
    live = memory.allocations - memory.frees
    allocations = Statistics(live, live, memory.allocations)
    return {
        "allocation": _three(allocations),
        "segment": _three(memory.segments),
        "active": _three(allocations),
        "inactive_split": _three(_ZERO),
        "allocated_bytes": _three(memory.bytes_in_use),
        "reserved_bytes": _three(memory.bytes_reserved),
        "active_bytes": _three(memory.bytes_in_use),
        "inactive_split_bytes": _three(_ZERO),
        "requested_bytes": _three(Statistics(memory.bytes_requested, memory.bytes_requested, memory.bytes_requested)),
        "oversize_allocations": {"current": 0, "peak": 0, "allocated": 0, "freed": 0},
        "oversize_segments": {"current": 0, "peak": 0, "allocated": 0, "freed": 0},
        "max_split_size": -1,
        "num_alloc_retries": memory.retries,
        "num_ooms": memory.ooms,
        "num_sync_all_streams": 0,
        "num_device_alloc": memory.segments.allocated,
        "num_device_free": memory.segments.freed,
    }


def reset_peaks(memory: CachingAllocator) -> None:
    """Let the peaks start again at what is in use now."""
    for part in _parts(memory):
        part.peak = part.current


def reset_totals(memory: CachingAllocator) -> None:
    """Let the historical sums start again at nothing."""
    for part in _parts(memory):
        part.allocated = part.current
    memory.retries = memory.ooms = 0


def _parts(memory: CachingAllocator) -> tuple[Statistics, ...]:
    return memory.bytes_in_use, memory.bytes_reserved, memory.segments


def memory_snapshot(sim: Simulation, pool: PoolId = DEFAULT_POOL) -> dict[str, Any]:
    """What `torch._C._cuda_memorySnapshot` returns, without allocation history.

    Args:
        sim: The simulation.
        pool: Only the segments of this private pool; of all where it is (0, 0).
    """
    sim.factory.collect()
    segments = []
    for device, memory in enumerate(sim.allocators):
        free = {
            block.address: block
            for pool in memory.pools.values()
            for shelf in pool.free.values()
            for *_, block in shelf
        }
        for segment in memory.every_segment():
            if pool not in {DEFAULT_POOL, segment.pool.id}:
                continue
            blocks: list[dict[str, Any]] = []
            address = segment.address
            while address < segment.address + segment.size:
                block: Block | None = memory.blocks.get(address) or free.get(address)
                if block is None:  # it waits for other streams
                    break
                state = "active_allocated" if address in memory.blocks else "inactive"
                blocks.append({
                    "address": address, "size": block.size, "requested_size": block.requested, "state": state,
                    "frames": [],
                })  # fmt: skip
                address += block.size
            used = sum(b["size"] for b in blocks if b["state"] == "active_allocated")
            segments.append({
                "device": device, "address": segment.address, "total_size": segment.size, "allocated_size": used,
                "active_size": used, "requested_size": used, "stream": segment.stream,
                "segment_type": "small" if segment.small else "large",
                "segment_pool_id": segment.pool.id if segment.pool.id != DEFAULT_POOL else (0, 0),
                "is_expandable": False, "frames": [], "blocks": blocks,
            })  # fmt: skip
    return {
        "segments": segments,
        "device_traces": [[] for _ in sim.allocators],
        "allocator_settings": {},
        "external_annotations": [],
    }
