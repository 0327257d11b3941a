"""Reports on recorded traces, and what every test of a machine-read format asks of them."""

from __future__ import annotations

import functools
from pathlib import Path

from cudagraph_doctor.engine.run import Options, diagnose
from cudagraph_doctor.report import Report

TRACES = Path(__file__).parents[2] / "fixtures" / "traces"
NAMES = (
    "python/item_eos_check",
    "python/fork_two_join_one_bad",
    "python/swallowed_capture_error",
    "python/ok_static_buffers",
    "driver/loader_thread_pin_memory",
    "driver/ok_bucketed_shared_pool",
    "driver/library_private_stream",
)


@functools.cache
def recorded(name: str) -> Report:
    return diagnose([TRACES / f"{name}.jsonl.gz"], Options(timelines=True))
