"""A part of the operator sweep on every run; the whole is `tests/sim/operator_sweep.py`, forward and backward."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.sim.conftest import ENVIRONMENT, ROOT
from tests.sim.operator_sweep import known_gaps

EVERY = 12
"""One operator in so many: half a minute instead of six."""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["forward", "backward"])
def test_operators_compute_what_the_cpu_computes(mode, tmp_path):
    pytest.importorskip("expecttest")  # PyTorch's own test helpers import it
    results = tmp_path / "results.json"
    command = [sys.executable, str(ROOT / "tests/sim/operator_sweep.py"), mode, "--json", str(results)]
    offset = {"forward": "3", "backward": "8"}[mode]
    done = subprocess.run(
        [*command, "--every", str(EVERY), "--offset", offset],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert results.exists(), done.stderr
    outcomes = json.loads(results.read_text())
    assert len(outcomes) > 40
    different = {name: outcome for name, outcome in outcomes.items() if outcome != "equal" and name not in known_gaps()}
    assert not different
