"""Where a hanging target hangs: its processes write all their Python stacks when the recorder's signal reaches them."""

from __future__ import annotations

import contextlib
import json
import os

from cudagraph_doctor.launch.seal import TraceFile, trace_files

HEAD = 1 << 16
"""Bytes at the start of a trace in which the recorder says which signal it listens to."""


def ask_for_stacks(folder: str) -> bool:
    """Raises that signal in every recorded process that still runs; True if there was one.

    A process that did not register the signal is never sent it: it would die of it.
    """
    asked = False
    for file in trace_files(folder):
        number = _signal(file)
        if number and file.alive:
            with contextlib.suppress(OSError):
                os.kill(file.pid, number)
                asked = True
    return asked


def _signal(file: TraceFile) -> int:
    number = 0
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError), open(file.path, "rb") as trace:
        for line in trace.read(HEAD).split(b"\n"):
            if b'"name":"faults"' in line:
                record = json.loads(line)
                number = int(record["versions"]["signal"]) if record["state"] == "on" else 0
    return number
