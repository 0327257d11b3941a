"""The last records of a trace, written by the launcher when the process is gone.

It mends a torn last line by beginning a new one, turns the replay slots into `replay` records, and writes the seal: how
the process ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from cudagraph_doctor._wire import SLOTS_SUFFIX, TRACE_SUFFIX
from cudagraph_doctor.launch.descendants import find
from cudagraph_doctor.launch.options import TargetEnd
from cudagraph_doctor.trace.events import Lost, Process, Record, Seal
from cudagraph_doctor.trace.slots import fold_slots

FAULT_SUFFIX = ".fault"
FAULT_LIMIT = 8000
TAIL = 1 << 18
"""Bytes at the end of a trace in which its last sequence number is looked for."""


@dataclass(frozen=True)
class TraceFile:
    """The trace of one process, as the launcher needs to know it."""

    path: str
    pid: int
    start: int
    """Start of the process in clock ticks, from the file's name; 0 if unknown."""

    @property
    def alive(self) -> bool:
        """Its process still runs."""
        found = find(self.pid)
        return found is not None and found.start == self.start and found.alive

    def beside(self, suffix: str) -> str:
        """Path of the file of the same process with another suffix."""
        return self.path[: -len(TRACE_SUFFIX)] + suffix


@dataclass(frozen=True)
class Tail:
    """What the end of a trace says."""

    torn: bool
    """The last line has no end."""
    last: int
    """Largest sequence number."""
    sealed: bool


def trace_files(folder: str) -> list[TraceFile]:
    """The traces in a run's folder, oldest process first."""
    try:
        names = [name for name in os.listdir(folder) if name.endswith(TRACE_SUFFIX)]
    except OSError:
        return []
    files = []
    for name in names:
        parts = name[: -len(TRACE_SUFFIX)].rsplit("-", 3)
        if len(parts) == 4 and parts[1].isdecimal() and parts[2].isdecimal():
            files.append(TraceFile(os.path.join(folder, name), int(parts[1]), int(parts[2])))
    return sorted(files, key=lambda file: (file.start, file.pid))


def seal(file: TraceFile, end: TargetEnd | None, processes: Sequence[Process] = ()) -> Lost | None:
    """Completes the trace of a process that is gone; one that is sealed already stays as it is.

    Args:
        file: its trace.
        end: how it ended; None where nobody saw it.
        processes: records of its children to write before the seal, not yet numbered.

    Returns:
        What the process itself could not write.

    Raises:
        OSError: the file cannot be written.
    """
    now = time.monotonic_ns()
    lost = None
    with open(file.path, "r+b", buffering=0) as trace:
        tail = read_tail(trace)
        if not tail.sealed:
            records: list[Record] = []
            for record in fold_slots(Path(file.beside(SLOTS_SUFFIX)), after=tail.last, t=now):
                records.append(record)
                if isinstance(record, Lost):
                    lost = record
            last = tail.last + len(records)
            for process in processes:
                last += 1
                records.append(msgspec.structs.replace(process, q=last, t=now))
            records.append(_seal(file, end, q=last + 1, t=now, torn=tail.torn))
            lines = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
            trace.seek(0, os.SEEK_END)
            _write_all(trace, b"\n" + lines if tail.torn else lines, file)
    _remove_companions(file)
    return lost


def read_tail(trace: BinaryIO) -> Tail:
    """Reads the end of a trace, tolerantly: lines that are no records are passed over."""
    size = trace.seek(0, os.SEEK_END)
    trace.seek(max(0, size - TAIL))
    data = trace.read(TAIL)
    last, sealed = 0, False
    for line in data.split(b"\n"):
        try:
            record = json.loads(line)
            last = max(last, int(record["q"]))
            sealed = record["k"] == "seal"
        except (ValueError, KeyError, TypeError):
            continue
    return Tail(bool(data) and not data.endswith(b"\n"), last, sealed)


def _seal(file: TraceFile, end: TargetEnd | None, *, q: int, t: int, torn: bool) -> Seal:
    fault = _read_fault(file.beside(FAULT_SUFFIX))
    if end is None:
        return Seal(q=q, t=t, torn=torn, fault=fault)
    return Seal(
        q=q,
        t=t,
        returncode=end.returncode,
        signal=end.signal,
        core=end.core,
        timed_out=end.timed_out,
        torn=torn,
        fault=fault,
        rss=end.rss,
        user=end.user,
    )


def _read_fault(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(FAULT_LIMIT).strip()
    except OSError:
        return ""


def _write_all(trace: BinaryIO, data: bytes, file: TraceFile) -> None:
    """Writes it all; on a full disk in the room of the slots, which have been read."""
    last_try = False
    while data:
        try:
            data = data[trace.write(data) :]
        except OSError:
            if last_try:
                raise
            _remove_companions(file)
            last_try = True


def _remove_companions(file: TraceFile) -> None:
    for suffix in (SLOTS_SUFFIX, FAULT_SUFFIX):
        with contextlib.suppress(OSError):
            os.unlink(file.beside(suffix))
