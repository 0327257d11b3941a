"""Copies from pinned host memory that may still be pending: has the host written the source before waiting?

The copy itself has run at once. Its source is remembered with a checksum until the host has waited for its stream; when
the checksum differs then, a GPU could have read either content.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import torch

from cudagraph_doctor.sim.caching_allocator import Witness
from cudagraph_doctor.sim.driver import SimDriver
from cudagraph_doctor.sim.streams import Clock, SimStream

LARGEST = 64 << 20
"""Bytes of a source above which it is not watched: its checksum would take longer than 50 ms."""


@dataclass(slots=True)
class _Pending:
    source: torch.Tensor
    checksum: int
    key: int
    tick: int
    stream: int
    witness: Witness


class PendingCopies:
    """Copies that the host has not waited for."""

    def __init__(self, driver: SimDriver) -> None:
        self._driver = driver
        self._pending: dict[int, _Pending] = {}
        self._reported: set[int] = set()

    def queued(self, source: torch.Tensor, stream: SimStream, what: str) -> None:
        """`what` has put a copy from `source` (a CPU view of pinned memory) on `stream`."""
        if source.nbytes > LARGEST or not source.is_contiguous():
            return
        address = source.data_ptr()
        if (earlier := self._pending.get(address)) is not None:
            self._compare(earlier)
        witness = (what, self._driver.where())
        self._pending[address] = _Pending(source, _checksum(source), stream.key, stream.tick, stream.handle, witness)

    def host_waited(self, host: Clock) -> None:
        """The host has waited for what `host` says: look at what is done by now."""
        for address, copy in list(self._pending.items()):
            if host.get(copy.key, 0) >= copy.tick:
                self._compare(copy)
                del self._pending[address]

    def _compare(self, copy: _Pending) -> None:
        address = copy.source.data_ptr()
        if address in self._reported or _checksum(copy.source) == copy.checksum:
            return
        self._reported.add(address)
        self._driver.emit({
            "k": "race",
            "what": "host wrote the pinned source of a copy before waiting for it",
            "ptr": hex(address),
            "size": copy.source.nbytes,
            "stream": copy.stream,
            "name": copy.witness[0],
            "first": copy.stream,
            "first_name": copy.witness[0],
            "first_stack": copy.witness[1],
        })  # fmt: skip


def _checksum(tensor: torch.Tensor) -> int:
    words: Callable[[], object] = tensor.detach().reshape(-1).view(torch.uint8).numpy
    return zlib.crc32(memoryview(words()))  # type: ignore[arg-type]
