"""What `run` hands to the launcher, and what it makes of the trace. The launcher itself is tested in tests/launch."""

from __future__ import annotations

import json

import pytest

from cudagraph_doctor import launch
from cudagraph_doctor.cli.main import main
from cudagraph_doctor.errors import TargetError


@pytest.fixture
def launched(monkeypatch, traces):
    """Replaces the launcher: remembers its options and answers with a hand-written trace."""
    seen = []

    def run(options):
        seen.append(options)
        return launch.LaunchResult(trace=traces["broken"], end=None, interpreter="", first_line="")

    monkeypatch.setattr(launch, "run", run)
    return seen


def test_everything_reaches_the_launcher(launched):
    arguments = ["--trace", "t", "--timeout", "5", "--device", "sim", "--sim-devices", "2", "--evidence", "python"]
    arguments += ["--deep", "--keep-going", "--python", "py", "--own", "vllm", "x.py", "--format", "json"]
    main(["run", *arguments])
    assert launched == [
        launch.LaunchOptions(
            kind="script",
            target="x.py",
            arguments=("--format", "json"),
            trace="t",
            timeout=5.0,
            device="sim",
            sim_devices=2,
            evidence="python",
            deep=True,
            keep_going=True,
            python="py",
            own=("vllm",),
        )
    ]


def test_the_report_and_the_exit_code(launched, capsys):
    assert main(["run", "--format", "json", "x.py"]) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["findings"][0]["rule"] == "CGD101"
    assert "trace in" in shown.err


@pytest.mark.parametrize(
    "options",
    [
        ["--select", "CGD999"],
        ["--output", "/no/such/folder/x"],
        ["--device", "tpu"],
        ["--sim-devices", "0"],
        ["--timeout", "-1"],
        ["--evidence", "simulated"],
    ],
)
def test_a_mistake_is_found_before_anything_runs(launched, options):
    assert main(["run", *options, "x.py"]) == 2
    assert launched == []


def test_a_target_that_cannot_start(monkeypatch, capsys):
    def run(options):
        raise TargetError("no NVIDIA GPU here", "use --device sim")

    monkeypatch.setattr(launch, "run", run)
    assert main(["run", "x.py"]) == 3
    assert capsys.readouterr().err == "cudagraph-doctor: no NVIDIA GPU here. Use --device sim\n"


@pytest.mark.parametrize(
    ("options", "code"),
    [([], 1), (["--require-evidence"], 3), (["--require-evidence", "--evidence", "python"], 1)],
)
def test_required_evidence(launched, options, code):
    assert main(["run", *options, "x.py"]) == code
