"""`check` needs neither torch nor CUDA nor numpy nor NVML, and says the same without them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cudagraph_doctor.engine.run import Options, diagnose
from cudagraph_doctor.reporters.json_v1 import to_dict

RECORDED = Path(__file__).parents[2] / "fixtures" / "traces"
BLOCKED = """
import json, sys
for name in ("torch", "cuda", "numpy", "pynvml", "rich"):
    sys.modules[name] = None
from cudagraph_doctor.cli.main import main
for path in sys.argv[1:]:
    main(["check", "--format", "json", path])
    print("\\0")
ours = ("cudagraph_doctor.probe", "cudagraph_doctor.sim", "cudagraph_doctor.launch")
loaded = [name for name in sys.modules if name.startswith(ours)]
assert not loaded, loaded
"""


def check_alone(*paths: str) -> list[dict]:
    """The reports on traces, by a process that can import nothing of the kind."""
    result = subprocess.run([sys.executable, "-c", BLOCKED, *paths], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return [findings_alone(json.loads(text)) for text in result.stdout.split("\0\n") if text]


def findings_alone(report: dict) -> dict:
    """Without what the gate adds, which depends on options and files of the user."""
    return {name: value for name, value in report.items() if name != "gate"}


def test_hand_written_traces(traces):
    assert check_alone(*traces.values()) == [
        findings_alone(to_dict(diagnose([path], Options(timelines=True)))) for path in traces.values()
    ]


def test_recorded_traces():
    paths = [str(path) for path in sorted(RECORDED.glob("*"))] if RECORDED.is_dir() else []
    if not paths:
        pytest.skip("no trace has been recorded yet")
    assert check_alone(*paths) == [findings_alone(to_dict(diagnose([path], Options(timelines=True)))) for path in paths]
