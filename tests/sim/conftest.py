"""Fixtures of the simulated device's tests: every script runs in a process of its own."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures" / "sim"
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
}


def pytest_collection_modifyitems(items):
    missing = [name for name in ("torch", "numpy") if importlib.util.find_spec(name) is None]
    for item in items:
        if Path(item.path).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.sim)
            if missing:
                item.add_marker(pytest.mark.skip(reason=f"the simulated device needs {' and '.join(missing)}"))


@pytest.fixture(scope="session")
def forked_runs(tmp_path_factory):
    """Function: run scripts in forks of one prepared process; results by file name. One of xdist's workers runs them."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def run(scripts: list[Path]) -> dict[str, dict]:
        out = shared / f"runs-{zlib.crc32(repr(scripts).encode())}.json"
        with open(out.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return run_once(scripts, out)

    def run_once(scripts: list[Path], out: Path) -> dict[str, dict]:
        if out.exists():
            return json.loads(out.read_text())
        command = [sys.executable, str(ROOT / "tests/sim/forked_runs.py"), str(out), *map(str, scripts)]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(out.read_text())

    return run


@pytest.fixture
def on_device(tmp_path):
    """Function: run source text on the simulated device; (status, stdout, stderr, records)."""

    def run(source: str, *options: str) -> tuple[int, str, str, list[dict]]:
        script, records = tmp_path / "script.py", tmp_path / "records.jsonl"
        script.write_text(source)
        command = [
            sys.executable,
            "-m",
            "cudagraph_doctor.sim.runner",
            "--records",
            str(records),
            *options,
            str(script),
        ]
        done = subprocess.run(
            command, env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        lines = records.read_text().splitlines() if records.exists() else []
        return done.returncode, done.stdout, done.stderr, [json.loads(line) for line in lines]

    return run
