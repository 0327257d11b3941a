"""The program whose times overhead.py compares: 300 kernels, eager and captured. Prints JSON (microseconds)."""

import json
import resource
import statistics
import time
from collections.abc import Callable

import torch

KERNELS = 300
x = torch.randn(64, device="cuda")


def region() -> torch.Tensor:
    """The work: 300 small kernels."""
    y = x
    for _ in range(KERNELS):
        y = y + 1
    return y


def each(function: Callable[[], object], times: int) -> float:
    """Median of seven rounds, microseconds a call."""
    rounds = []
    for _ in range(7):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(times):
            function()
        rounds.append((time.perf_counter() - began) / times * 1e6)
        torch.cuda.synchronize()
    return statistics.median(rounds)


def capture() -> tuple[torch.cuda.CUDAGraph, float]:
    """A captured graph, and the milliseconds it took."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    began = time.perf_counter()
    with torch.cuda.graph(graph):
        region()
    return graph, (time.perf_counter() - began) * 1e3


for _ in range(3):
    region()
found = {"eager step before": each(region, 10)}
captures = [capture() for _ in range(9)]
found["first capture, ms"] = captures[0][1]
found["capture, ms"] = statistics.median(time for _graph, time in captures[1:])
found["replay"] = each(captures[-1][0].replay, 200)
found["eager step after"] = each(region, 10)
found["resident, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(found))
