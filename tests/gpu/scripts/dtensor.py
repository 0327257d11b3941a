"""DTensor operators on a mesh of one device inside the window."""

import os

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, init_device_mesh

os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29611")
torch.cuda.set_device(0)
dist.init_process_group("gloo", rank=0, world_size=1)
mesh = init_device_mesh("cuda", (1,))
torch.manual_seed(0)
w = DTensor.from_local(torch.randn(32, 32, device="cuda"), mesh, [Replicate()])
x = DTensor.from_local(torch.randn(4, 32, device="cuda"), mesh, [Replicate()])
(x @ w).relu()
torch.cuda.synchronize()
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = (x @ w).relu()
x.to_local().mul_(2.0)
g.replay()
torch.cuda.synchronize()
print("digest", y.to_local().sum().item(), type(y).__name__)
dist.destroy_process_group()
