"""Profiles in a row, the first started inside an open capture window; prints how many kernels each one saw.

Torch 2.11 synchronises while it starts a profile, so that capture is refused: with the tool as without it.
"""

import torch
from torch.profiler import ProfilerActivity, profile

x = torch.randn(64, 64, device="cuda")
for _ in range(2):
    y = (x @ x).relu()
torch.cuda.synchronize()


def kernels(profile):
    return sum(1 for event in profile.events() if str(event.device_type).endswith("CUDA"))


def capture(started=None):
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="relaxed")
        y = x + 1
        if started is not None:
            started.__enter__()
        for _ in range(10):
            y = y + 1
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph


def work():
    for _ in range(5):
        graph.replay()
    for _ in range(7):
        x.relu()
    torch.cuda.synchronize()


inside = profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU])
try:
    graph = capture(inside)
except RuntimeError as error:
    print("started inside:", type(error).__name__, getattr(error, "error_code", ""))
    torch.cuda.synchronize()
    graph = capture()
work()
try:
    inside.__exit__(None, None, None)
    print("inside", kernels(inside))
except Exception as error:
    print("inside:", type(error).__name__)
for name in ("first", "second"):
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        work()
    print(name, kernels(found))
