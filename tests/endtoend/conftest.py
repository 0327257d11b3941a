"""Runs of whole scripts on the simulated device."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

COLLECT = runpy.run_path(str(Path(__file__).parents[2] / "fixtures" / "collect.py"))
SECONDS = 120


@pytest.fixture
def diagnose(tmp_path):
    """Function: run a script on the simulated device; (exit status, report)."""

    def run(script: Path, *options: str) -> tuple[int, dict]:
        out = tmp_path / "report.json"
        command = [sys.executable, "-m", "cudagraph_doctor", "run", "--device", "sim", "--format", "json"]
        command += ["--output", str(out), "--trace", str(tmp_path / f"trace{len(options)}"), *options, str(script)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert out.exists(), done.stderr
        return done.returncode, json.loads(out.read_text())

    return run


@pytest.fixture
def blanked(tmp_path):
    """Function: a copy of a case without its header, and what the header says must be found."""

    def copy(script: Path) -> tuple[Path, dict]:
        folder = tmp_path / "case"
        folder.mkdir()
        for file in script.parent.glob("*.py") if script.name == "main.py" else [script]:
            text = COLLECT["read_case"](file)[1] if file == script else file.read_text()
            (folder / file.name).write_text(text)
        header = COLLECT["read_case"](script)[0]
        return folder / script.name, COLLECT["expectation"]({**header, "script": script.name})

    return copy
