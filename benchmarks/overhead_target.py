"""The program whose times overhead.py compares: a decode step of 300 kernels, eager and captured. Prints JSON.

Each kernel reads an external tensor of its own, and a Python number of the step: 300 storages and 200 slots that a
recorder may watch. `quick` as an argument: fewer repetitions, for tools that make everything a hundred times slower.
`cupti`: subscribe to CUPTI first and enable nothing, to see what that alone costs.
"""

import time

BEGAN = time.monotonic()

import ctypes  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402

import torch  # noqa: E402

IMPORTED = time.monotonic()
KERNELS, SLOTS = 300, 200
QUICK = "quick" in sys.argv


class Step:
    """One decode step: small kernels, bound by their launches."""

    def __init__(self) -> None:
        self.x = torch.randn(64, device="cuda")
        self.weights = [torch.randn(64, device="cuda") for _ in range(KERNELS)]
        self.scales = [1.0 + number / 1000 for number in range(SLOTS)]

    def run(self) -> torch.Tensor:
        """The work."""
        y = self.x
        for number in range(KERNELS):
            y = torch.add(y, self.weights[number], alpha=self.scales[number % SLOTS])
        return y


def each(function: Callable[[], object], times: int, rounds: int = 9) -> float:
    """Median of some rounds, microseconds a call; the GPU's work is waited for outside of the clock."""
    found = []
    for _ in range(1 if QUICK else rounds):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(max(1, times // 20) if QUICK else times):
            function()
        found.append((time.perf_counter() - began) / (max(1, times // 20) if QUICK else times) * 1e6)
        torch.cuda.synchronize()
    return statistics.median(found)


def capture() -> tuple[torch.cuda.CUDAGraph, float]:
    """A captured graph, and the milliseconds it took."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    began = time.perf_counter()
    with torch.cuda.graph(graph):
        step()
    return graph, (time.perf_counter() - began) * 1e3


def subscribe() -> None:
    """A CUPTI subscriber that enables no callback at all, so that its function is never called."""
    mapped = (line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libcupti" in line)
    cupti, subscriber = ctypes.CDLL(next(mapped)), ctypes.c_void_p()
    never_called = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p)
    assert cupti.cuptiSubscribe(ctypes.byref(subscriber), never_called, None) == 0


step = Step().run
for _ in range(3):
    step()
found = {"eager step before": each(step, 10)}
if "cupti" in sys.argv:
    subscribe()
captures = [capture() for _ in range(2 if QUICK else 9)]
graph = captures[-1][0]
found["first capture"] = captures[0][1]
found["capture"] = statistics.median(took for _graph, took in captures[1:])
found["replay"] = each(graph.replay, 100)
found["replay and wait"] = each(lambda: (graph.replay(), torch.cuda.synchronize()), 20)
found["eager step after"] = each(step, 10)
found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({**found, "began": BEGAN, "imported": IMPORTED, "ended": time.monotonic()}))
