"""Streams and events of the simulated device, with vector clocks, and each thread's current stream.

Work runs at once, in the order of the host's calls, so no interleaving ever goes wrong by itself. What CUDA promises is
kept beside it: every stream counts its work (a *tick*) and carries a *vector clock*, the tick of every other stream
that it has waited for. `races` compares the two.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudagraph_doctor.sim.capture import Capture, Node

LEGACY = 0
"""Raw handle of the legacy default stream, as torch gives it."""
LEGACY_EXPLICIT = 1
PER_THREAD = 2

Clock = dict[int, int]
"""Key of a stream to its tick."""


@dataclass(eq=False, slots=True, repr=False)
class SimStream:
    """A CUDA stream."""

    handle: int
    device: int
    blocking: bool = False
    """It synchronises with the legacy stream (created without cudaStreamNonBlocking)."""
    priority: int = 0
    capture: Capture | None = None
    frontier: list[Node] = field(default_factory=list)
    """Captured nodes on which the next one of this stream depends."""
    tick: int = 0
    clock: Clock = field(default_factory=dict)
    """Tick of each other stream that this one has waited for."""
    key: int = 0
    """Identity over all devices: the handle, or for a legacy stream a negative number by device."""

    def __post_init__(self) -> None:
        self.key = self.handle or -1 - self.device

    @property
    def legacy(self) -> bool:
        """Whether this is a legacy default stream."""
        return self.handle == LEGACY

    def now(self) -> Clock:
        """Everything that is finished when this stream has finished."""
        return {**self.clock, self.key: self.tick}


@dataclass(eq=False, slots=True, repr=False)
class SimEvent:
    """A CUDA event, as last recorded."""

    handle: int
    device: int = 0
    recorded: bool = False
    capture: Capture | None = None
    """The capture in which it was recorded last; None for a record outside of any."""
    frontier: tuple[Node, ...] = ()
    clock: Clock = field(default_factory=dict)
    time: float = 0.0
    """Seconds, time.perf_counter."""


class ThreadState:
    """One thread's current device, and its current stream on each device."""

    __slots__ = ("context", "device", "engine", "mode", "replaying", "streams")

    def __init__(self, defaults: tuple[SimStream, ...]) -> None:
        self.device = 0
        self.streams = list(defaults)
        self.mode = 0
        """Capture mode of the thread (cuThreadExchangeStreamCaptureMode): what it may call under others' captures."""
        self.replaying: SimStream | None = None
        """Stream on which this thread is running a graph just now."""
        self.context = False
        """The primary context is current in this thread, for callers of the driver API."""
        self.engine = threading.get_ident() not in threading._active  # type: ignore[attr-defined]
        """A thread of PyTorch's autograd engine, which Python did not start: it works on the streams of the thread that
        called backward."""


class PerThread(threading.local):
    """Holds each thread's state."""

    def __init__(self, defaults: tuple[SimStream, ...]) -> None:
        self.state = ThreadState(defaults)


def join(into: Clock, other: Clock) -> None:
    """Make `into` the later of the two clocks, stream by stream."""
    for key, tick in other.items():
        if into.get(key, 0) < tick:
            into[key] = tick
