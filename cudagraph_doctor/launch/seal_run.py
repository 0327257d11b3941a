"""Completes every trace of a run once the target has ended."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

from cudagraph_doctor._wire import SLOTS_SUFFIX
from cudagraph_doctor.launch.descendants import Proc
from cudagraph_doctor.launch.seal import TraceFile, seal, trace_files
from cudagraph_doctor.launch.watch import Watched
from cudagraph_doctor.trace.events import Lost, Process
from cudagraph_doctor.trace.slots import fold_slots

HEAD = 1 << 16
"""Bytes at the start of a trace in which header and first capabilities are looked for."""
NAMED = 5
"""Running processes that a note names."""


@dataclass(frozen=True)
class SealedRun:
    """What the traces of a run came to."""

    files: tuple[TraceFile, ...]
    notes: tuple[str, ...] = ()
    no_simulation: str = ""
    """Why the simulated device could not be installed in the target."""
    why_empty: str = ""
    """Why a process that was recorded could not write even its first record; "" if none is known to have failed so."""


def seal_run(folder: str, watched: Watched) -> SealedRun:
    """Seals the traces of all processes that are gone; those that still run are named in a note."""
    found = trace_files(folder)
    files = [file for file in found if _begins(file)]
    recorded = {file.pid: _how(file) for file in files}
    notes: list[str] = []
    unreachable = ""
    for file in files:
        if file.pid == watched.pid:
            unreachable = unreachable or _no_simulation(file)
        elif file.alive:
            continue
        children = _children(file.pid, watched.children, recorded)
        try:
            lost = seal(file, watched.end if file.pid == watched.pid else None, children)
        except OSError as error:
            notes.append(f"{file.path} could not be completed: {error.strerror or error}")
            continue
        if lost is not None:
            notes.append(f"{lost.count} records could not be written to {file.path}: {lost.why}")
    if watched.running:
        pids = ", ".join(str(proc.pid) for proc in watched.running[:NAMED])
        more = f" and {len(watched.running) - NAMED} more" if len(watched.running) > NAMED else ""
        notes.append(f"still running, and not ended by us: process {pids}{more}")
    why_empty = next(filter(None, (_why_empty(file) for file in found)), "") if not files else ""
    return SealedRun(tuple(files), tuple(notes), unreachable, why_empty)


def _children(parent: int, seen: list[Proc], recorded: dict[int, str]) -> list[Process]:
    """Records of the children of a process that were seen while it ran; short-lived ones may not have been."""
    return [
        Process(
            q=0,
            t=0,
            child=proc.pid,
            how=recorded.get(proc.pid, "exec"),
            followed=proc.pid in recorded,
            why="" if proc.pid in recorded else "not a Python that the recorder could enter",
            argv=proc.argv,
        )
        for proc in seen
        if proc.ppid == parent
    ]


def _how(file: TraceFile) -> str:
    """How a recorded process was started."""
    return "fork" if _head(file)[0].get("how") == "fork" else "subprocess"


def _head(file: TraceFile) -> list[dict[str, object]]:
    records = []
    with contextlib.suppress(OSError), open(file.path, "rb") as trace:
        for line in trace.read(HEAD).split(b"\n"):
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                if isinstance(record, dict):
                    records.append(record)
    return records


def _begins(file: TraceFile) -> bool:
    """Whether there is a header: an empty file (a full disk) is no trace."""
    return any(record.get("k") == "header" for record in _head(file)[:1])


def _why_empty(file: TraceFile) -> str:
    """What the process itself could not say in its trace, from the shared memory beside it."""
    lost = fold_slots(Path(file.beside(SLOTS_SUFFIX)), after=0, t=0)
    return next((record.why for record in lost if isinstance(record, Lost)), "")


def _no_simulation(file: TraceFile) -> str:
    with contextlib.suppress(OSError), open(file.path, "rb") as trace:
        for line in trace:
            if b'"unavailable"' in line and b'"name":"sim"' in line:
                return str(json.loads(line).get("why", "unknown"))
    return ""
