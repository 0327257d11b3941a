"""Traces written by hand, for commands to read."""

from __future__ import annotations

import pytest

from cudagraph_doctor.testing import TraceBuilder, cuda_error

SCRIPT = """\
import torch

g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = x @ w
    if y.sum().item() > 0:
        y = -y
g.replay()
"""


def clean_trace() -> TraceBuilder:
    trace = TraceBuilder(source=SCRIPT)
    with trace.capture(line=4) as capture:
        capture.op("aten::mm", line=5)
    capture.end(line=4)
    trace.seal(returncode=0)
    return trace


def broken_trace(*, sealed: bool = True) -> TraceBuilder:
    trace = TraceBuilder(source=SCRIPT)
    with trace.capture(line=4) as capture:
        capture.op("aten::mm", line=5)
        capture.op("aten::_local_scalar_dense", line=6, raises=cuda_error(900))
    if sealed:
        trace.seal(returncode=1)
    return trace


@pytest.fixture
def traces(tmp_path):
    """Paths of the traces, by name."""
    written = {}
    for name, trace in {
        "clean": clean_trace(),
        "broken": broken_trace(),
        "growing": broken_trace(sealed=False),
    }.items():
        written[name] = str(tmp_path / f"{name}.jsonl")
        trace.write(written[name])
    return written
