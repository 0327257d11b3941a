"""The example plugin, installed as a user would install one: found, explained, run, tested."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cudagraph_doctor.testing import TraceBuilder

EXAMPLE = Path(__file__).parents[2] / "fixtures" / "example_plugin"


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Variables under which the plugin is installed, in a folder of its own."""
    source = tmp_path_factory.mktemp("source") / "example_plugin"
    target = tmp_path_factory.mktemp("installed")
    subprocess.run(["cp", "-r", str(EXAMPLE), str(source)], check=True)  # the build writes into its folder
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*install, "--target", str(target), str(source)], check=True)
    return {**os.environ, "PYTHONPATH": str(target)}


def doctor(environment, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "cudagraph_doctor", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_its_rule_is_listed_and_explained(environment):
    assert "HOUSE101  captured-never-replayed" in doctor(environment, "rules").stdout
    assert "A capture runs nothing" in doctor(environment, "explain", "HOUSE101").stdout


def test_it_runs_beside_our_own_checkers(environment, tmp_path):
    trace = TraceBuilder(source="with torch.cuda.graph(g):\n    y = x @ w\n")
    with trace.capture(line=1) as capture:
        capture.op("aten::mm", line=2)
    capture.end(line=1)
    trace.seal(returncode=0)
    trace.write(tmp_path / "x.jsonl")
    result = doctor(environment, "check", "--fail-on", "warning", str(tmp_path / "x.jsonl"))
    assert result.returncode == 1, result.stderr
    assert "HOUSE101 captured-never-replayed" in result.stdout


def test_its_own_tests_pass(environment):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(EXAMPLE / "tests")]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert "3 passed" in result.stdout
