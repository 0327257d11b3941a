"""Installing us beside a user's torch resolves, and does not change that torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNREACHABLE = ("NewConnectionError", "Temporary failure in name resolution", "No route to host", "ReadTimeoutError")


def resolve(tmp_path, *wanted: str) -> dict[str, str]:
    """Versions that pip would install into an empty environment."""
    answer = tmp_path / "report.json"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    result = subprocess.run(
        [*command, "--report", str(answer), *wanted, str(ROOT)], capture_output=True, text=True, check=False
    )
    if any(reason in result.stderr for reason in UNREACHABLE):
        pytest.skip("the package index cannot be reached")
    assert result.returncode == 0, result.stderr
    installed = json.loads(answer.read_text(encoding="utf-8"))["install"]
    return {item["metadata"]["name"].lower(): item["metadata"]["version"] for item in installed}


@pytest.mark.network
@pytest.mark.parametrize("release", ["2.9", "2.11", "newest"])
def test_beside_a_torch(tmp_path, release):
    wanted = "torch" if release == "newest" else f"torch=={release}.*"
    versions = resolve(tmp_path, wanted)
    assert release == "newest" or versions["torch"].startswith(f"{release}.")
    assert (12, 6) <= tuple(int(part) for part in versions["cuda-bindings"].split(".")[:2]) < (14, 0)


@pytest.mark.network
def test_torch_is_never_forced_on_anybody(tmp_path):
    assert "torch" not in resolve(tmp_path)
