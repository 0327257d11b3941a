"""The first call of a fullgraph-compiled function happens inside a capture."""

import torch
from torch._dynamo.utils import counters

torch.manual_seed(0)
w = torch.randn(64, 64, device="cuda")
x = torch.randn(4, 64, device="cuda")


@torch.compile(fullgraph=True, backend="aot_eager")
def block(t):
    return torch.relu(t @ w) + 1


torch.relu(x @ w)
torch.cuda.synchronize()
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = block(x)
x.mul_(0.5)
g.replay()
torch.cuda.synchronize()
print("digest", y.sum().item())
print(
    "frames",
    dict(counters["frames"]),
    "breaks",
    dict(counters["graph_break"]),
    "graphs",
    counters["stats"]["unique_graphs"],
)
