"""PyTorch's whole operator database on the simulated device: see `operator_sweep`.

In parts, so that pytest-xdist's workers share the work; each part is one process.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.sim.conftest import ENVIRONMENT, ROOT
from tests.sim.operator_sweep import MODES, REQUIRED, fine, known_gaps, share_equal

PARTS = 4
OPERATORS_AT_LEAST = 600


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_operators_compute_what_the_cpu_computes(part, tmp_path):
    pytest.importorskip("expecttest")  # PyTorch's own test helpers import it
    file = tmp_path / "results.json"
    command = [sys.executable, str(ROOT / "tests/sim/operator_sweep.py"), "--json", str(file)]
    done = subprocess.run(
        [*command, "--part", f"{part}/{PARTS}"],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert file.exists(), done.stderr
    results = json.loads(file.read_text())
    assert len(results) >= OPERATORS_AT_LEAST // PARTS
    gaps = known_gaps()
    for mode in MODES:
        assert share_equal(results, mode) >= REQUIRED
        assert {name: of[mode] for name, of in results.items() if not fine(of[mode]) and name not in gaps} == {}
    assert all(results[name]["forward"] != "equal" for name in gaps if name in results), "a gap that is none any more"
