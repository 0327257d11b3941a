"""A whole training step, backward included, in the window."""

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16, 32, device="cuda")


def step():
    opt.zero_grad(set_to_none=False)
    loss = model(x).square().mean()
    loss.backward()
    opt.step()
    return loss


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    loss = step()
for _ in range(3):
    g.replay()
torch.cuda.synchronize()
print("digest", loss.item(), sum(p.abs().sum().item() for p in model.parameters()))
