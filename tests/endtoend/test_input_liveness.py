"""docs/check-input-liveness.md: what torch's own check says of a program, and what we say of it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

BEFORE = """\
import torch
g, h = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
x = torch.ones(256, 256, device="cuda")
x @ x
torch.cuda.synchronize()
def capture(g, **more):
    return torch.cuda.graph(g, check_input_liveness=True, **more)
"""
AFTER = """
torch.cuda.synchronize()
print("ran through")
"""
DEAD = """
def build():
    b = torch.full((256, 256), 2.0, device="cuda")
    with capture(g):
        return x * b
y = build()
g.replay()
"""
MOVED = """
w = torch.nn.Parameter(torch.ones(256, 256, device="cuda"))
with capture(g), torch.no_grad():
    y = x * w
w.data = torch.zeros(256, 256, device="cuda")
g.replay()
"""
REBOUND = """
keep = b = torch.ones(256, 256, device="cuda")
with capture(g):
    y = x * b
b = torch.zeros(256, 256, device="cuda")
g.replay()
"""
UNFILLED = """
with capture(g):
    t = torch.arange(256, device="cuda").float()
    y = x * t
print(t.sum().item())
"""
TOGETHER = """
pool = torch.cuda.graph_pool_handle()
for graph in (g, h):
    with capture(graph, pool=pool):
        t = x * 2
        y = t + 1
        del t
torch.cuda.synchronize()
with torch.cuda.stream(torch.cuda.Stream()):
    g.replay()
with torch.cuda.stream(torch.cuda.Stream()):
    h.replay()
"""
VIEW = """
def build():
    b = torch.full((256, 256), 2.0, device="cuda")
    with capture(g):
        y = x * b
    return y, b[0]
y, row = build()
g.replay()
"""
TABLE = {
    "dead": (DEAD, True, ["CGD401"]),
    "moved": (MOVED, True, ["CGD403"]),
    "rebound": (REBOUND, False, ["CGD402"]),
    "unfilled": (UNFILLED, False, ["CGD407"]),
    "together": (TOGETHER, False, ["CGD407"]),
    "view": (VIEW, False, []),
}
pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(sys.platform != "linux", reason="the simulated device needs Linux"),
]


@pytest.mark.parametrize("name", TABLE)
def test_what_both_say(name, tmp_path):
    torch = pytest.importorskip("torch")
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 13):
        pytest.skip("this torch has no check_input_liveness")
    text, raises, rules = TABLE[name]
    script, out = tmp_path / "script.py", tmp_path / "report.json"
    script.write_text(BEFORE + text + AFTER)
    command = [sys.executable, "-m", "cudagraph_doctor", "run", "--device", "sim", "--format", "json"]
    command += ["--output", str(out), "--trace", str(tmp_path / "trace"), str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert ("dead tensor(s)" in done.stderr) == raises, done.stderr
    assert ("ran through" in done.stdout) != raises
    assert [finding["rule"] for finding in json.loads(out.read_text())["findings"]] == rules
