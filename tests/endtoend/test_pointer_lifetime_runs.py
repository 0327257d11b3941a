"""Memory that graphs use and that was freed, rewritten or shared under them: whole runs on the simulated device."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(sys.platform != "linux", reason="the simulated device needs Linux"),
]

SCRIPTS = Path(__file__).parents[2] / "fixtures" / "scripts" / "pointer_lifetime"
FAMILIES = ("freed", "pinned", "pool", "autocast")
CASES = sorted(path for family in FAMILIES for prefix in ("", "w_") for path in SCRIPTS.glob(f"{prefix}{family}_*.py"))
NOT_FOLLOWED = {"w_freed_raw_buffer_bindings_bad": "memory of cudaMalloc is not followed: the rule says so"}


@pytest.fixture(autouse=True)
def needs_torch():
    pytest.importorskip("torch")


@pytest.mark.parametrize("script", [path for path in CASES if path.stem.endswith("_bad")], ids=lambda path: path.stem)
def test_a_fault_is_named_at_its_line(script, blanked, diagnose):
    if script.stem in NOT_FOLLOWED:
        pytest.skip(NOT_FOLLOWED[script.stem])
    copy, expected = blanked(script)
    _, report = diagnose(copy)
    assert report["findings"], "nothing was found"
    first = report["findings"][0]
    place = first["location"]
    assert first["rule"] in expected["rules"]
    assert [Path(place["file"]).name, place["line"]] in expected["places"]


@pytest.mark.parametrize("script", [path for path in CASES if path.stem.endswith("_good")], ids=lambda path: path.stem)
def test_its_healed_twin_is_clean(script, blanked, diagnose):
    copy, _ = blanked(script)
    status, report = diagnose(copy)
    assert not [f for f in report["findings"] if f["level"] != "note"]
    assert status == 0
