"""Activation checkpointing with its RNG state left alone, forward and backward in the captured window."""

import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32)).cuda()
x = torch.randn(4, 32, device="cuda", requires_grad=True)


def step():
    y = checkpoint(model, x, use_reentrant=False, preserve_rng_state=False)
    grads = torch.autograd.grad(y.square().mean(), [x, *model.parameters()])
    return y.detach(), grads[0]


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y, dx = step()
with torch.no_grad():
    x.mul_(0.5)
g.replay()
torch.cuda.synchronize()
print("digest", y.sum().item(), dx.abs().sum().item())
