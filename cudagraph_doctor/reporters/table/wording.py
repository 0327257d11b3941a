"""How the report's facts are said in words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import ROOTS
from cudagraph_doctor.reporters.table.foreign import visible

if TYPE_CHECKING:
    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.report import CaptureInfo, DeviceInfo, Exit

_ROOT = re.compile(rf"^(?:{'|'.join(ROOTS)}):")


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 capture`, `12 captures`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def path(file: str) -> str:
    """A recorded path without its root's name: `site:torch/_tensor.py` is `torch/_tensor.py`."""
    return visible(_ROOT.sub("", file, count=1))


def place(location: Location) -> str:
    """`decode.py:24`."""
    return f"{path(location.file)}:{location.line}"


def place_in(location: Location) -> str:
    """`decode.py:24 in generate`."""
    if location.function in (None, "<module>"):
        return place(location)
    return f"{place(location)} in {visible(location.function or '')}"


def ended(exit_: Exit) -> str:
    """How a process ended, in three words or a few more."""
    if exit_.timed_out:
        return "stopped at the time limit"
    if exit_.running:
        return "still running"
    if exit_.signal:
        return f"killed by {visible(exit_.signal)}"
    if exit_.returncode is None:
        raised = (exit_.exception or "").partition(": ")[0]
        return "its end was not seen" + (f"; it raised {visible(raised)}" if raised else "")
    return f"ended with status {exit_.returncode}"


def device(info: DeviceInfo) -> list[str]:
    """Device, driver and torch, those that are known."""
    if info.backend == "sim":
        parts = [info.name or "simulated device"]
    else:
        parts = [info.name or "CUDA device, name unknown"]
        if info.driver:
            parts.append(f"driver {info.driver}")
    if info.torch:
        parts.append(f"torch {info.torch}")
    return [visible(part) for part in parts]


def captures(infos: tuple[CaptureInfo, ...]) -> list[str]:
    """Captures begun, by what became of them, and replays."""
    if not infos:
        return ["nothing was captured"]
    parts = [f"{count(len(infos), 'capture')} begun"]
    for status in ("completed", "failed", "abandoned", "unfinished"):
        number = sum(info.status == status for info in infos)
        if number:
            parts.append(f"{number:,} {status}")
    parts.append(count(sum(info.replays for info in infos), "replay"))
    return parts
