"""FlopCounterMode around a capture, and inside one."""

import torch
from torch.utils.flop_counter import FlopCounterMode

torch.manual_seed(0)
w = torch.randn(64, 64, device="cuda")
x = torch.randn(4, 64, device="cuda")
torch.relu(x @ w)
torch.cuda.synchronize()
g, h = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
with FlopCounterMode(display=False) as around, torch.cuda.graph(g):
    y = torch.relu(x @ w)
with torch.cuda.graph(h), FlopCounterMode(display=False) as inside:
    z = torch.relu(x @ w) @ w
for graph in (g, h):
    graph.replay()
torch.cuda.synchronize()
print("flops", around.get_total_flops(), inside.get_total_flops())
print("digest", y.sum().item(), z.sum().item())
