"""`check cudagraph-doctor-trace`: a folder that holds no trace but the folders of runs stands for its newest run."""

from __future__ import annotations

import os

import click


def newest_runs(paths: tuple[str, ...]) -> list[str]:
    """The paths, with each folder of runs replaced by its newest run; which one is said on standard error."""
    return [_newest(path) or path for path in paths]


def _newest(path: str) -> str | None:
    """The run whose trace was written last; None where the path is no folder of runs."""
    if not os.path.isdir(path) or _written(path) is not None:
        return None
    try:
        inside = [entry.path for entry in os.scandir(path) if entry.is_dir()]
    except OSError:
        return None  # the reader of traces says why
    # Runs of the same instant, as a copy may leave them, are told apart by the time in their names.
    runs = [(written, name) for name in inside if (written := _written(name)) is not None]
    if not runs:
        return None
    chosen = max(runs)[1]
    if len(runs) > 1:
        click.echo(f"cudagraph-doctor: {path} holds {len(runs):,} runs; this is the newest: {chosen}", err=True)
    else:
        click.echo(f"cudagraph-doctor: the run in {chosen}", err=True)
    return chosen


def _written(folder: str) -> int | None:
    """When a trace of this folder was last written, in ns since the epoch; None where it holds none."""
    from cudagraph_doctor._wire import PACK_SUFFIX, TRACE_SUFFIX

    try:
        with os.scandir(folder) as entries:
            traces = [e for e in entries if e.is_file() and e.name.endswith((TRACE_SUFFIX, PACK_SUFFIX))]
            return max((entry.stat().st_mtime_ns for entry in traces), default=None)
    except OSError:
        return None
