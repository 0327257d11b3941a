"""Code that only a GPU can run is named; what can go on without it goes on."""

from __future__ import annotations

CAPTURE = """
x = torch.ones(4, device="cuda")
launch(x)
for _ in range(2):
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        x.add_(1)
        launch(x)
        launch(x)
g.replay()
print(x.tolist(), len(g._held.executable.nodes))
"""
# Stands in for Triton where none is installed: the class and the method that compile and launch.
TRITON = """
import os, torch
os.makedirs("triton/runtime")
for name in ("triton/__init__.py", "triton/runtime/__init__.py"):
    open(name, "w").close()
with open("triton/runtime/jit.py", "w") as file:
    file.write('''
class JITFunction:
    def __init__(self, function): self.__name__ = function.__name__
    def run(self, *args, grid, warmup, **options): raise RuntimeError("0 active drivers")
''')
from triton.runtime.jit import JITFunction
def scale(x): pass
kernel = JITFunction(scale)
def launch(x): kernel.run(x, grid=(1,), warmup=False)
"""
COMPILED_AT_RUN_TIME = """
import torch
kernel = torch.cuda._compile_kernel("__global__ void scale(float *x) {}", "scale")
def launch(x): kernel((1, 1, 1), (4, 1, 1), (x,))
"""


def limits(records):
    return [(record["what"], record["fatal"]) for record in records if record["k"] == "limit"]


def test_triton_kernel_is_a_node_without_effect(on_device):
    status, out, err, records = on_device(TRITON + CAPTURE)
    assert (status, out) == (0, "[2.0, 2.0, 2.0, 2.0] 3\n"), err
    name = "Triton kernel scale"
    assert limits(records) == [(name, False), (name, True), (name, True)]  # once outside, once in each capture


def test_kernel_compiled_at_run_time_is_a_node_without_effect(on_device):
    status, out, err, records = on_device(COMPILED_AT_RUN_TIME + CAPTURE)
    assert (status, out) == (0, "[2.0, 2.0, 2.0, 2.0] 3\n"), err
    assert limits(records) == [("kernel scale", False), ("kernel scale", True), ("kernel scale", True)]


def test_nccl_is_named_where_a_group_is_made(on_device):
    status, _, err, records = on_device(
        "import os, torch\n"
        "os.environ |= {'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': '0', 'RANK': '0', 'WORLD_SIZE': '1'}\n"
        "torch.distributed.init_process_group('nccl')\n"
    )
    assert status == 1
    assert err.strip().splitlines()[-1].startswith("NotImplementedError: cudagraph-doctor: NCCL is not simulated")
    assert limits(records) == [("NCCL", True)]
