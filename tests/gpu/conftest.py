"""GPU tests run only where a CUDA device and a torch that can use it are there; the reason is said once.

They compare runs of whole scripts with and without the recorder, in child processes on a time limit, and assert
behaviour, not message text.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@functools.cache
def missing() -> str | None:
    """Why GPU tests cannot run here, or None. Asks a child, so that this process never holds a context."""
    if importlib.util.find_spec("torch") is None:
        return "no torch in this interpreter"
    code = "import torch; print(torch.cuda.is_available() and torch.version.cuda is not None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    return None if done.stdout.strip() == "True" else "no CUDA device"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if Path(item.fspath).parent == Path(__file__).parent]
    if not ours or (reason := missing()) is None:
        return
    for item in ours:
        item.add_marker(pytest.mark.skip(reason=reason))


@dataclass(frozen=True)
class Outcome:
    """What a user sees of a run."""

    status: int
    out: str
    err: str


def _run(command: list[str], cwd: Path) -> Outcome:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CUDAGRAPH_DOCTOR")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=cwd, env=environment, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def plain(tmp_path: Path) -> Callable[..., Outcome]:
    """`python ARGUMENTS...`."""
    return lambda *arguments: _run([sys.executable, *map(str, arguments)], tmp_path)


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., Outcome]:
    """`cudagraph-doctor run ARGUMENTS...`; the report goes to a file, the output is the target's alone."""
    doctor = [sys.executable, "-m", "cudagraph_doctor", "run", "--format", "json", "--output", tmp_path / "report.json"]
    return lambda *arguments: _run(
        [*map(str, doctor), "--trace", str(tmp_path / "trace"), *map(str, arguments)], tmp_path
    )
