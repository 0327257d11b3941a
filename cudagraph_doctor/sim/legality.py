"""Which CUDA calls are allowed while a stream captures: a table measured on a GPU, and how to read it.

`legality.json` is a compact form of a measurement on an H200 (driver 580.159, CUDA 13.0): for 81 calls, the return code
and the capture's status afterwards, by capture mode, by calling thread (the one that began the capture, or another) and
by kind of the capturing stream. No rule about a call is written anywhere else.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass

from cudagraph_doctor._wire import MODES, STATUS_ACTIVE


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a call returns, and the status of the capture after it."""

    code: int
    status: int


LEGAL = Verdict(0, STATUS_ACTIVE)


class LegalityTable:
    """The measured table, indexed by the call's name there, such as `cudaStreamSynchronize(other)`."""

    def __init__(self, data: dict[str, object]) -> None:
        columns: list[str] = data["columns"]  # type: ignore[assignment]
        verdicts: dict[str, list[list[int] | None]] = data["verdicts"]  # type: ignore[assignment]
        calls: dict[str, list[str]] = data["calls"]  # type: ignore[assignment]
        wanted = [f"{mode}/{thread}" for mode in MODES for thread in ("capturing", "other")]
        order = [columns.index(name) for name in wanted]
        rows = {
            name: tuple(LEGAL if (cell := cells[i]) is None else Verdict(*cell) for i in order)
            for name, cells in verdicts.items()
        }
        self._calls = {call: (rows[non_blocking], rows[blocking]) for call, (non_blocking, blocking) in calls.items()}

    def look_up(self, call: str, *, mode: int, other_thread: bool, blocking: bool) -> Verdict:
        """Verdict for `call`. Raises KeyError for a call that was not measured."""
        return self._calls[call][blocking][2 * mode + other_thread]

    def __contains__(self, call: str) -> bool:
        return call in self._calls


@functools.cache
def measured() -> LegalityTable:
    """The table that comes with the package."""
    with open(os.path.join(os.path.dirname(__file__), "legality.json"), encoding="utf-8") as file:
        return LegalityTable(json.load(file))
