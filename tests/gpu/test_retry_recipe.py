"""The recipe that a finding gives for trying again after a failed capture is run, word for word."""

from __future__ import annotations

import json
import re

import pytest

pytestmark = pytest.mark.gpu

FAILS = """
import torch
w = torch.randn(64, 64, device="cuda")
x = torch.randn(4, 64, device="cuda")
x @ w
torch.cuda.synchronize()
g = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(g):
        y = x @ w
        y.sum().item()
except RuntimeError as error:
    print("failed", type(error).__name__)
"""

AGAIN = """
with torch.cuda.graph(g):
    y = x @ w
x.fill_(0.5)
g.replay()
torch.cuda.synchronize()
print("OK" if torch.allclose(y, x @ w, rtol=1e-3, atol=1e-2) else "WRONG")
"""


def test_the_recipe_works(plain, recorded, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(FAILS)
    recorded(script)
    [finding] = json.loads((tmp_path / "report.json").read_text())["findings"]
    [recipe] = [re.search(r"to try again: `(.*)`", fact)[1] for fact in finding["aftermath"] if "to try again" in fact]
    script.write_text(FAILS + recipe + AGAIN)
    done = plain(script)
    assert done.out.splitlines()[-1] == "OK", done.err[-2000:]
