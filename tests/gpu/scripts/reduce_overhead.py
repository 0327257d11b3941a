"""mode='reduce-overhead': torch.compile's own graph trees."""

import torch
from torch._dynamo.utils import counters

torch.manual_seed(0)
w = torch.randn(64, 64, device="cuda")


@torch.compile(mode="reduce-overhead")
def block(t):
    return torch.nn.functional.gelu(t @ w) @ w


outs = []
for i in range(5):
    torch.compiler.cudagraph_mark_step_begin()
    outs.append(block(torch.full((4, 64), 0.1 * (i + 1), device="cuda")).sum().item())
print("digest", outs)
print("skips", counters["inductor"]["cudagraph_skips"], "breaks", dict(counters["graph_break"]))
