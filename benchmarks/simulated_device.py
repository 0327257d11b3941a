"""What the simulated device costs: a launch, a replay and a whole prefill, against the plain CPU.

    python benchmarks/simulated_device.py [--rounds N]

Medians of paired runs with one thread. Exit status 1 if a limit is passed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

LAUNCH_LIMIT = 25e-6
REPLAY_LIMIT = 1e-3
PREFILL_LIMIT = 1.3


def seconds(run: Callable[[], object], repeats: int) -> float:
    """Time of one call, averaged over `repeats`."""
    begin = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - begin) / repeats


def median(run: Callable[[], object], rounds: int, repeats: int) -> float:
    """Median over `rounds` of the time of one call."""
    run()
    return statistics.median(seconds(run, repeats) for _ in range(rounds))


def launch_cost(torch: Any, rounds: int) -> dict[str, float]:
    """Seconds of one small operator, by kind."""
    x, y = torch.randn(16, device="cuda"), torch.randn(16, device="cuda")
    w = torch.randn(16, 16, device="cuda")
    rows = torch.randn(4, 16, device="cuda")
    with torch.inference_mode():
        return {
            "add": median(lambda: x + y, rounds, 500),
            "add_ in place": median(lambda: x.add_(1.0), rounds, 500),
            "mul by scalar": median(lambda: x * 2.0, rounds, 500),
            "matmul": median(lambda: rows @ w, rounds, 500),
            "softmax": median(lambda: torch.softmax(rows, -1), rounds, 500),
            "view (no launch)": median(lambda: rows.view(16, 4), rounds, 500),
        }


def replay_cost(torch: Any, rounds: int) -> tuple[int, float]:
    """Number of nodes and seconds of one replay of a small decode step."""
    layers = [torch.nn.Linear(32, 32).cuda() for _ in range(44)]
    x = torch.randn(4, 32, device="cuda")

    def step() -> Any:
        h = x
        for layer in layers:
            h = torch.relu(layer(h)) * 0.5 + h
            h = h.mul(0.9)
        return h

    with torch.inference_mode():
        step()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return len(graph._held.executable.nodes), median(graph.replay, rounds, 20)


def prefill_ratio(torch: Any, rounds: int) -> tuple[float, float]:
    """Seconds of a prefill of 128 tokens by a decoder of 6 layers, 768 wide, on the CPU and on the device."""
    import copy

    class Block(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = torch.nn.LayerNorm(768), torch.nn.LayerNorm(768)
            self.qkv, self.out = torch.nn.Linear(768, 2304), torch.nn.Linear(768, 768)
            self.up, self.down = torch.nn.Linear(768, 3072), torch.nn.Linear(3072, 768)

        def forward(self, x: Any) -> Any:
            q, k, v = self.qkv(self.norm1(x)).view(1, -1, 3, 12, 64).permute(2, 0, 3, 1, 4)
            a = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(a.transpose(1, 2).reshape(1, -1, 768))
            return x + self.down(torch.nn.functional.silu(self.up(self.norm2(x))))

    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Block() for _ in range(6))).eval()
    on_device = copy.deepcopy(model).cuda()
    x = torch.randn(1, 128, 768)
    moved = x.cuda()
    with torch.inference_mode():
        on_device(moved), model(x)
        pairs = [(seconds(lambda: model(x), 1), seconds(lambda: on_device(moved), 1)) for _ in range(rounds)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def main() -> int:
    """Measure, print and judge; the exit status."""
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=15)
    rounds = options.parse_args().rounds
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import torch

    from cudagraph_doctor.sim import install

    torch.set_num_threads(1)
    begin = time.perf_counter()
    install()
    print(f"start-up over import torch      {(time.perf_counter() - begin) * 1e3:8.1f} ms")
    costs = launch_cost(torch, rounds)
    for name, cost in costs.items():
        print(f"{name:30}  {cost * 1e6:8.1f} us")
    nodes, replay = replay_cost(torch, rounds)
    per_220 = replay / nodes * 220
    print(f"replay of {nodes} nodes             {replay * 1e3:8.2f} ms, {per_220 * 1e3:.2f} ms for 220")
    plain, simulated = prefill_ratio(torch, rounds)
    ratio = simulated / plain
    print(f"prefill 6 x 768, 128 tokens     {simulated * 1e3:8.1f} ms, {ratio:.2f} x the CPU's {plain * 1e3:.1f} ms")
    launches = statistics.median(cost for name, cost in costs.items() if "view" not in name)
    passed = [
        name
        for name, value, limit in (
            ("launch", launches, LAUNCH_LIMIT),
            ("replay", per_220, REPLAY_LIMIT),
            ("prefill", ratio, PREFILL_LIMIT),
        )
        if value > limit
    ]
    print("over the limit: " + ", ".join(passed) if passed else "within the limits")
    return int(bool(passed))


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
