"""One small program, and what a run of it records."""

from __future__ import annotations

from cudagraph_doctor.testing import TraceBuilder, cuda_error

SCRIPT = """\
import torch


def decode(x, w):
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = x @ w
        n = y.sum()
    g.replay()
    return n


decode(x, w)
"""
SYNC = SCRIPT.replace("        n = y.sum()\n", "        n = y.sum().item()\n")


def trace_of(source: str, *, captures: int = 1, shift: int = 0) -> TraceBuilder:
    """What a run of SCRIPT records; an `.item()` in it breaks every capture."""
    made = TraceBuilder(source="#\n" * shift + source)
    broken = ".item()" in source
    for _ in range(captures):
        with made.capture(line=6 + shift) as capture:
            capture.op("aten::mm", line=7 + shift)
            if broken:
                capture.op("aten::_local_scalar_dense", line=8 + shift, raises=cuda_error(900))
            else:
                capture.op("aten::sum", line=8 + shift)
        if not broken:
            capture.end(line=6 + shift)
    made.seal(returncode=0)
    return made
