"""A user's own TorchDispatchMode and TorchFunctionMode inside the window see what they see without us."""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Counting(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


torch.manual_seed(0)
w = torch.randn(64, 64, device="cuda")
x = torch.randn(4, 64, device="cuda")
torch.relu(x @ w)
torch.cuda.synchronize()
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g), Counting() as dispatched, Functions() as called:
    y = torch.relu(x @ w).t().contiguous()
g.replay()
torch.cuda.synchronize()
print(dispatched.names, called.names, y.sum().item())
