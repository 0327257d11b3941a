"""Two profiles in a row, the first started inside an open capture window; prints how many kernels each one saw."""

import torch
from torch.profiler import ProfilerActivity, profile

x = torch.randn(64, 64, device="cuda")
for _ in range(2):
    y = (x @ x).relu()
torch.cuda.synchronize()


def kernels(profile):
    return sum(1 for event in profile.events() if str(event.device_type).endswith("CUDA"))


def work():
    for _ in range(5):
        graph.replay()
    for _ in range(7):
        x.relu()
    torch.cuda.synchronize()


graph = torch.cuda.CUDAGraph()
first = profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU])
with torch.cuda.graph(graph):
    y = x + 1
    first.__enter__()
    for _ in range(10):
        y = y + 1
work()
first.__exit__(None, None, None)
print("first", kernels(first))
with profile(activities=[ProfilerActivity.CUDA]) as second:
    work()
print("second", kernels(second))
