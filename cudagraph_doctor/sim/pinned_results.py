"""Copies from the device into pinned host memory: the host sees the values once it has waited, and not before.

A GPU makes such a copy some time after the call. Work on the device runs at once here, so the values are set aside in
the order of the stream, and land when the host waits for them, or before the device reads that memory again.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from cudagraph_doctor.sim.driver import SimDriver
from cudagraph_doctor.sim.streams import Clock, SimStream

MOST = 4096
"""Copies that may be set aside: the oldest lands when there is one more."""
_copy = torch.ops.aten.copy_.default._op


@dataclass(slots=True)
class _Landing:
    target: torch.Tensor
    values: torch.Tensor
    key: int
    tick: int


class PinnedResults:
    """Copies to pinned memory that the host has not waited for."""

    def __init__(self, driver: SimDriver) -> None:
        self._waiting: list[_Landing] = []
        self._driver = driver
        driver.host_waited.append(self._host_waited)

    def copy(self, stream: SimStream, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy `source`, a CPU view of device memory, into the pinned `target` as the next work of `stream`."""
        values = torch.empty_like(target, device="cpu")
        _copy(values, source)
        self._waiting.append(_Landing(target, values, stream.key, stream.tick + 1))
        if len(self._waiting) > MOST:
            self._land(self._waiting.pop(0))

    def replay_copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """The same for a copy node of the graph that is being replayed."""
        stream = self._driver.thread.replaying
        assert stream is not None
        self.copy(stream, target, source)

    def settle(self) -> None:
        """Let all land: the device is about to read pinned memory."""
        for landing in self._waiting:
            self._land(landing)
        self._waiting.clear()

    def _host_waited(self, host: Clock) -> None:
        if not self._waiting:
            return
        later = []
        for landing in self._waiting:
            if host.get(landing.key, 0) >= landing.tick:
                self._land(landing)
            else:
                later.append(landing)
        self._waiting = later

    @staticmethod
    def _land(landing: _Landing) -> None:
        with torch.no_grad(), torch._C._AutoDispatchBelowAutograd(), torch._C.DisableTorchFunction():
            _copy(landing.target, landing.values)
