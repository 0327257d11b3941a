"""The simulation: devices, their memory, the driver and the one place where kernels are launched from."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import torch

from cudagraph_doctor.sim import cuda_error as cuda
from cudagraph_doctor.sim.arena import Arena
from cudagraph_doctor.sim.caching_allocator import DEFAULT_POOL, Block, CachingAllocator, OutOfMemory
from cudagraph_doctor.sim.capture import Node, NodeKind
from cudagraph_doctor.sim.contexts import Contexts
from cudagraph_doctor.sim.driver import SimDriver
from cudagraph_doctor.sim.emission import Emit, Where
from cudagraph_doctor.sim.memory_statistics import reset_peaks, reset_totals
from cudagraph_doctor.sim.pinned_memory import PinnedMemory
from cudagraph_doctor.sim.pinned_results import PinnedResults
from cudagraph_doctor.sim.pinned_traffic import PendingCopies
from cudagraph_doctor.sim.races import RaceDetector
from cudagraph_doctor.sim.streams import SimEvent, SimStream, ThreadState, join
from cudagraph_doctor.sim.tensors import Layout, TensorFactory

CPU_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
"""Dispatch for kernels that only change metadata: the CPU's work on CUDA tensors as well."""
Geometry: TypeAlias = tuple[int, ...] | torch.Size


class Simulation:
    """Everything behind the simulated devices of this process."""

    def __init__(self, devices: int, bytes_per_device: int) -> None:
        self.driver = SimDriver(devices)
        self.arena = Arena(devices, bytes_per_device)
        self.allocators = tuple(
            CachingAllocator(self.arena, index, self._segment_allocated, self._segment_freed)
            for index in range(devices)
        )
        self.factory = TensorFactory(self._storage_died)
        self.races = RaceDetector(self.driver, self.block_at)
        self.contexts = Contexts(self.driver)
        self.pinned = PinnedMemory(self.driver)
        self.pinned_results = PinnedResults(self.driver)
        self.pending_copies = PendingCopies(self.driver)
        self.driver.host_waited.append(self.pending_copies.host_waited)
        self.backward_caller: ThreadState | None = None
        """Streams of the thread that is inside torch.autograd's run_backward."""
        self._left_out: set[tuple[str, str, bool, int]] = set()
        """What limit was recorded, and the capture that was open."""
        self.pool_context: dict[int, tuple[int, int]] = {}
        """Pool that `torch.cuda.use_mem_pool` chose, by thread identity."""

    def start(self, emit: Emit, where: Where, *, keep_going: bool) -> None:
        """Forget what the self-test did, and tell `emit` from now on."""
        self.driver.emit, self.driver.where, self.driver.keep_going = emit, where, keep_going
        self.driver.error_log.clear()
        self.races.forget()
        self.factory.collect()
        for memory in self.allocators:
            memory.empty_cache()
            reset_totals(memory)
            reset_peaks(memory)

    # ── streams ─────────────────────────────────────────────────────────────────────────────────
    def streams(self) -> ThreadState:
        """Current device and streams of this thread."""
        state = self.driver.thread
        if state.engine and self.backward_caller is not None:
            return self.backward_caller
        return state

    def stream_on(self, device: int) -> SimStream:
        """Current stream of this thread on `device`."""
        return self.streams().streams[device]

    def device_index(self, device: torch.device | None) -> int:
        """Index of the device that `device` names. Raises what torch raises for one that is not there."""
        index = None if device is None else device.index
        if index is None:
            return self.streams().device
        if not 0 <= index < len(self.allocators):
            raise cuda.cuda_error(cuda.INVALID_DEVICE)
        return index

    # ── memory ──────────────────────────────────────────────────────────────────────────────────
    def new_tensor(
        self, size: Geometry, stride: Geometry, dtype: torch.dtype, device: int, stream: SimStream
    ) -> torch.Tensor:
        """An uninitialised tensor in memory that belongs to `stream`. Raises torch.OutOfMemoryError."""
        return self.new_block_tensor(size, stride, dtype, device, stream)[0]

    def new_block_tensor(
        self, size: Geometry, stride: Geometry, dtype: torch.dtype, device: int, stream: SimStream
    ) -> tuple[torch.Tensor, Block | None]:
        """Like `new_tensor`, with the block that it owns; None for an empty tensor."""
        self.factory.collect()
        span = 1
        for length, step in zip(size, stride, strict=True):
            if length == 0:
                return self.factory.make(0, None, device, dtype, size, stride), None
            span += (length - 1) * step
        block = self.allocate(span * dtype.itemsize, device, stream)
        return self.factory.make(block.address, block, device, dtype, size, stride), block

    def new_laid_out(self, layout: Layout, device: int, stream: SimStream) -> tuple[torch.Tensor, Block]:
        """Like `new_block_tensor`, for a geometry that is not empty and was worked out before."""
        self.factory.collect()
        block = self.allocate(layout.nbytes, device, stream)
        return self.factory.lay_out(block.address, block, device, layout), block

    def allocate(self, size: int, device: int, stream: SimStream) -> Block:
        """Memory from the caching allocator: from the capture's private pool if `stream` captures."""
        capture = stream.capture
        if capture is not None and capture.pool is not None:
            pool = capture.pool
        elif self.pool_context:
            pool = self.pool_context.get(threading.get_ident(), DEFAULT_POOL)
        else:
            pool = DEFAULT_POOL
        allocator = self.allocators[device]
        try:
            return allocator.allocate(size, stream.handle, pool)
        except OutOfMemory:
            raise torch.OutOfMemoryError(self._out_of_memory_text(size, device)) from None

    def _out_of_memory_text(self, size: int, device: int) -> str:
        allocator = self.allocators[device]
        total, reserved = self.arena.bytes_per_device, allocator.bytes_reserved.current
        return (
            f"CUDA out of memory. Tried to allocate {_readable(size)}. GPU {device} has a total capacity of "
            f"{_readable(total)} of which {_readable(total - allocator.space.used)} is free. "
            f"{_readable(allocator.limit)} allowed; Of the allocated memory "
            f"{_readable(allocator.bytes_in_use.current)} is allocated by PyTorch, and "
            f"{_readable(reserved - allocator.bytes_in_use.current)} is reserved by PyTorch but unallocated."
        )

    def block_of(self, tensor: torch.Tensor) -> Block | None:
        """The block in which `tensor` lies; None for an empty tensor."""
        address = tensor.untyped_storage().data_ptr()
        return None if address == 0 else self.block_at(address)

    def block_at(self, address: int) -> Block | None:
        """The block in use that begins at `address`."""
        device = (address - self.arena.base) // self.arena.bytes_per_device
        return self.allocators[device].blocks.get(address) if 0 <= device < len(self.allocators) else None

    def maps(self, pages: Iterable[int]) -> bool:
        """Whether all of these addresses lie in memory that the driver has handed out."""
        device_of = self.arena.device_of
        return all(self.allocators[device_of(page)].space.maps(page) for page in pages)

    def blocks_of(self, tensors: Iterable[torch.Tensor]) -> tuple[Block, ...]:
        """The blocks in which the tensors lie."""
        return tuple(block for tensor in tensors if (block := self.block_of(tensor)) is not None)

    @staticmethod
    def rebind(tensor: torch.Tensor, other: torch.Tensor) -> None:
        """Let the tensor object `tensor` have the storage and geometry of `other`, as resize_ and set_ do."""
        torch.ops.aten.set_.source_Storage_storage_offset.redispatch(
            CPU_KEYS, tensor, other.untyped_storage(), other.storage_offset(), other.shape, other.stride()
        )

    def _storage_died(self, block: Block) -> None:
        self.allocators[self.arena.device_of(block.address)].free(block)

    def _segment_allocated(self, size: int) -> None:
        # PyTorch relaxes its thread's capture mode for its own cudaMalloc: legal in every capture.
        if self.driver.captures:
            capture = self.driver.captures[-1]
            self.driver.record("cuMemAlloc_v2", cuda.SUCCESS, None, capture, capture.status, size=size)

    def _segment_freed(self, address: int) -> None:
        if self.driver.captures:
            capture = self.driver.captures[-1]
            self.driver.record("cuMemFree_v2", cuda.SUCCESS, None, capture, capture.status, ptr=hex(address))

    # ── work ────────────────────────────────────────────────────────────────────────────────────
    def check(self, code: int) -> None:
        """Raise what C10_CUDA_CHECK throws for a code that is not 0."""
        if code != cuda.SUCCESS:
            raise cuda.cuda_error(code)

    def refuse_in_python(self, error: Exception) -> None:
        """Raise an error of torch's own, which leaves the capture Active; with keep-going, record it and go on."""
        driver = self.driver
        if not driver.keep_going:
            raise error
        for capture in driver.captures:
            capture.poisoned = True
        driver.emit({
            "k": "exception",
            "where": "raised",
            "chain": [{"type": type(error).__name__, "message": str(error)}],
        })  # fmt: skip

    def not_simulated(self, what: str, reason: str) -> NotImplementedError:
        """Record that the target needs something which the simulated device has not; the error to raise."""
        self.has_no_effect(what, reason, fatal=True)
        return NotImplementedError(f"cudagraph-doctor: {what} is not simulated: {reason}")

    def has_no_effect(self, what: str, reason: str, *, fatal: bool) -> None:
        """Record, once a capture, that something was left out; `fatal` if the capture cannot be checked without it."""
        captures = self.driver.captures
        key = (what, reason, fatal, captures[-1].id if captures else 0)
        if key not in self._left_out:
            self._left_out.add(key)
            self.driver.emit({"k": "limit", "what": what, "reason": reason, "fatal": fatal})

    def sleep(self) -> int:
        """torch.cuda._sleep: a kernel that does nothing."""
        stream = self.stream_on(self.streams().device)
        if stream.capture is not None:
            self.record_node(stream, "spin_kernel", lambda: None, (), ())
        return cuda.SUCCESS

    def free_raw(self, address: int) -> None:
        """Free memory that caching_allocator_alloc gave."""
        allocator = self.allocators[self.arena.device_of(address)]
        if (block := allocator.blocks.get(address)) is not None:
            allocator.free(block)

    def external_event(self, event: SimEvent, stream: SimStream, *, wait: bool) -> None:
        """An event made with external=True: in a capture it becomes a node of its own instead of a dependency."""
        if stream.capture is None:
            self.check(self.driver.event_wait(stream, event) if wait else self.driver.event_record(event, stream))
            return
        kind = NodeKind.EVENT_WAIT if wait else NodeKind.EVENT_RECORD
        api = "cuStreamWaitEvent" if wait else "cuEventRecordWithFlags"
        if not wait:
            event.recorded = True

        def execute() -> None:
            on = self.driver.thread.replaying
            assert on is not None
            if wait:
                join(on.clock, event.clock)
            else:  # the replay is the next work of its stream
                event.clock, event.time = {**on.clock, on.key: on.tick + 1}, time.perf_counter()

        self.record_node(stream, kind.value, execute, (), (), kind=kind, api=api, event=event.handle)

    def record_node(
        self,
        stream: SimStream,
        name: str,
        execute: Callable[[], object],
        reads: tuple[Block, ...],
        writes: tuple[Block, ...],
        *,
        kind: NodeKind = NodeKind.KERNEL,
        api: str = "cuLaunchKernel",
        host_source: torch.Tensor | None = None,
        **facts: Any,
    ) -> Node:
        """Record work on a capturing stream as a node. Raises the CUDA error if the capture is invalid."""
        node = Node(kind, name, execute, host_source=host_source)
        node.reads, node.writes = tuple(map(Block.span, reads)), tuple(map(Block.span, writes))
        ptrs = [hex(block.address) for block in (*reads, *writes)]
        self.check(self.driver.submit(api, stream, kernel=name, ptrs=ptrs, node=node.handle, **facts))
        if stream.capture is not None:
            self.driver.add_node(stream, node)
        return node


def _readable(size: int) -> str:
    if size >= 1 << 30:
        return f"{size / (1 << 30):.2f} GiB"
    return f"{size / (1 << 20):.2f} MiB" if size >= 1 << 20 else f"{size / 1024:.2f} KiB"
