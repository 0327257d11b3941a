"""Each exit code once more, from the outside: what a CI job sees."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cudagraph_doctor.environment.devices import find_driver

CAPTURE = """\
import torch

x = torch.ones(8, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    y = x * 2
torch.cuda.synchronize()
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = x * 2
    {line}
g.replay()
torch.cuda.synchronize()
"""


@pytest.fixture
def doctor(tmp_path):
    """Runs the command line in a folder of its own; a script's text stands for a file that holds it."""

    def run(*arguments: str, script: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cudagraph_doctor", *arguments]
        if script is not None:
            (tmp_path / "script.py").write_text(script)
            command.append("script.py")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CUDAGRAPH_DOCTOR")}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return run


@pytest.mark.sim
def test_0_clean(doctor):
    result = doctor("run", "--device", "sim", script=CAPTURE.format(line="y = y + 1"))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "No findings" in result.stdout


@pytest.mark.sim
def test_1_findings(doctor):
    result = doctor("run", "--device", "sim", script=CAPTURE.format(line="y.sum().item()"))
    assert result.returncode == 1, result.stdout + result.stderr
    assert "script.py:11" in result.stdout


def test_2_usage(doctor):
    result = doctor("run", "no-such-script.py")
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert "no-such-script.py" in result.stderr


@pytest.mark.skipif(bool(find_driver().gpus), reason="there is a GPU here")
def test_3_no_device(doctor):
    result = doctor("run", "--device", "cuda", script="print('ran')")
    assert result.returncode == 3
    assert "ran" not in result.stdout
    assert len(result.stderr.splitlines()) == 1


def test_3_a_trace_that_is_none(doctor, tmp_path):
    (tmp_path / "x.jsonl").write_text("nonsense\n")
    assert doctor("check", "x.jsonl").returncode == 3


def test_4_incomplete(doctor, traces, tmp_path):
    with open(traces["clean"], "rb") as stream:
        lines = stream.read().splitlines(keepends=True)
    lines.insert(5, b"damaged\n")
    (tmp_path / "x.jsonl").write_bytes(b"".join(lines))
    assert doctor("check", "x.jsonl").returncode == 4


@pytest.mark.sim
def test_5_nothing_captured(doctor):
    result = doctor("run", "--device", "sim", script="print('ran')")
    assert result.returncode == 5, result.stderr
    assert result.stdout.startswith("ran\n")
    assert "nothing was captured" in result.stdout
    assert doctor("run", "--device", "sim", "--allow-no-capture", script="print('ran')").returncode == 0


@pytest.mark.sim
def test_6_time_limit(doctor):
    result = doctor("run", "--device", "sim", "--timeout", "3", script="import time; time.sleep(60)")
    assert result.returncode == 6, result.stderr
    assert "stopped at the time limit" in result.stdout


@pytest.mark.sim
@pytest.mark.parametrize("ending", ["raise SystemExit(3)", "import os; os.abort()", "1 / 0"])
def test_7_an_end_that_nothing_explains(doctor, ending):
    result = doctor("run", "--device", "sim", script=ending)
    assert result.returncode == 7, result.stderr
