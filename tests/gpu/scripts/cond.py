"""torch.cond, a higher-order operator, eagerly before and after a capture of plain operators, and inside a compiled one."""

import torch

torch.manual_seed(0)
x = torch.randn(8, 8, device="cuda")


def branchy(t):
    return torch.cond(t.sum() > 0, lambda u: u * 2, lambda u: u - 1, (t,))


compiled = torch.compile(branchy)
print("before", compiled(x).sum().item(), branchy(x).sum().item())
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = x * 3
g.replay()
print("after", branchy(y).sum().item(), compiled(y).sum().item())
print("graph breaks", dict(torch._dynamo.utils.counters["graph_break"]))
