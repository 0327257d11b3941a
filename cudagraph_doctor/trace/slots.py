"""The slot file: counts of replays in shared memory, which survive any death of the process.

A replay writes no record. Its slot, `_wire.SLOT_SIZE` bytes of eight 64-bit words in the machine's byte order, is
updated before and after it. Unit 0 is the head: sequence counter, records lost, errno of the last loss, slots in use.
The seal turns slots into records and removes the file; of an unsealed trace the reader does, and leaves it.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import SLOT_SIZE, SLOT_WORDS
from cudagraph_doctor.trace.decode import INT64_MAX
from cudagraph_doctor.trace.events import Lost, Replay

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_UNIT = struct.Struct("<8Q")  # every machine with CUDA is little-endian
_SLOTS_LIMIT = 65536
"""Slots read at most: 4 MiB, far more graphs than a process can hold."""


def fold_slots(path: Path, *, after: int, t: int) -> Iterator[Replay | Lost]:
    """What a slot file says, as records numbered from `after` on: losses, then one `replay` a slot.

    A missing, cut or unreadable file yields what is there. `t` is the time of what carries none.
    """
    try:
        with path.open("rb") as file:
            data = file.read(SLOT_SIZE * (1 + _SLOTS_LIMIT))
    except OSError:
        return
    units = [unit for unit in _UNIT.iter_unpack(data[: len(data) - len(data) % SLOT_SIZE]) if max(unit) <= INT64_MAX]
    if not units:
        return
    _sequence, lost, errno, _used, *_ = units[0]
    if lost:
        why = os.strerror(errno) if 0 < errno < 200 else "the trace could not be written"
        after += 1
        yield Lost(q=after, t=t, count=lost, why=why)
    for unit in units[1:]:
        slot = dict(zip(SLOT_WORDS, unit, strict=True))
        if slot["exec"] and slot["begun"]:
            after += 1
            yield _replay(slot, after, t)


def _replay(slot: dict[str, int], q: int, t: int) -> Replay:
    return Replay(
        q=q,
        t=slot["last_t"] or t,
        tid=slot["tid"],
        exec=slot["exec"],
        count=slot["begun"],
        done=min(slot["done"], slot["begun"]),
        stream=slot["stream"],
        total=True,
    )
