"""A compiled flex_attention, captured after warm-up."""

import torch
from torch.nn.attention.flex_attention import flex_attention

torch.manual_seed(0)
q, k, v = (torch.randn(1, 4, 128, 64, device="cuda", dtype=torch.float16) for _ in range(3))
attend = torch.compile(flex_attention)


def causal(score, b, h, i, j):
    return torch.where(i >= j, score, -float("inf"))


attend(q, k, v, score_mod=causal)
torch.cuda.synchronize()
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = attend(q, k, v, score_mod=causal)
q.mul_(0.5)
g.replay()
torch.cuda.synchronize()
print("digest", y.float().abs().sum().item())
print("unique graphs", torch._dynamo.utils.counters["stats"]["unique_graphs"])
