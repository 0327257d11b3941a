"""The commands of the CI recipes, run as the CI systems run them, in a project of their own on the simulated device."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GOOD = """\
import sys
import torch


def decode():
    w = torch.randn(8, 8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = w @ w
    g.replay()


assert sys.argv[1:] == ["--name", "two words"], sys.argv
decode()
"""
BAD = GOOD.replace("y = w @ w", "y = (w @ w).sum().item()")
pytestmark = [pytest.mark.sim, pytest.mark.slow]


@pytest.fixture
def project(tmp_path):
    (tmp_path / ".git").mkdir()
    return tmp_path


def shell(project: Path, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """As a runner does: bash, which stops at the first failure, with our command on the path."""
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    environment = {**os.environ, "PATH": path, "GITHUB_STEP_SUMMARY": str(project / "summary.md"), **variables}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
        cwd=project, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("script", "code"), [(GOOD, 0), (BAD, 1)], ids=["good", "bad"])
def test_the_github_action(project, script, code):
    (project / "de code.py").write_text(script)
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    steps = {step["name"]: step for step in action["runs"]["steps"]}
    given = {
        **{name: spec.get("default", "") for name, spec in action["inputs"].items()},
        "target": "'de code.py' --name \"two words\"",
        "device": "sim",
        "options": "--timeout 300",
    }
    step = steps["Diagnose"]
    variables = {}
    for name, value in step["env"].items():
        input_name = value.removeprefix("${{ inputs.").removesuffix(" }}")
        assert input_name in given, value
        variables[name] = given[input_name]
    assert "${{" not in step["run"]
    done = shell(project, step["run"], **variables)
    assert done.returncode == code, done.stdout + done.stderr
    sarif = json.loads((project / "cudagraph-doctor-reports" / "findings.sarif").read_text())
    assert [r["ruleId"] for r in sarif["runs"][0]["results"]] == ["CGD101"] * code
    assert (project / "cudagraph-doctor-reports" / "report.html").exists()
    assert ("::error file=de code.py,line=9" in done.stdout) == bool(code)
    assert "CUDA graph captures" in (project / "summary.md").read_text()


def test_text_in_an_input_is_not_run(project):
    (project / "decode.py").write_text(GOOD)
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = next(step for step in action["runs"]["steps"] if step["name"] == "Diagnose")
    planted = "decode.py; touch planted $(touch planted) `touch planted`"
    variables = {"TARGET": planted, "OPTIONS": "", "DEVICE": "sim", "BASELINE": "", "REPORTS": "out"}
    shell(project, step["run"], **variables)
    assert not (project / "planted").exists()


@pytest.mark.parametrize(("script", "code"), [(GOOD, 0), (BAD, 1)], ids=["good", "bad"])
def test_the_gitlab_template(project, script, code):
    (project / "decode.py").write_text(script.replace(' == ["--name", "two words"]', ' == ["--name"]'))
    job = yaml.safe_load((ROOT / "docs" / "ci" / "gitlab.yml").read_text())[".cudagraph-doctor"]
    variables = {**job["variables"], "CUDAGRAPH_DOCTOR_INSTALL": "", "CUDAGRAPH_DOCTOR_TARGET": "decode.py --name"}
    done = shell(project, "\n".join([*job["before_script"], *job["script"]]), **variables)
    assert done.returncode == code, done.stdout + done.stderr
    issues = json.loads((project / job["artifacts"]["reports"]["codequality"]).read_text())
    told = [(i["check_name"], i["location"]["path"], i["location"]["lines"]["begin"]) for i in issues]
    assert (("CGD101", "decode.py", 9) in told) == bool(code)
    junit = ET.parse(project / job["artifacts"]["reports"]["junit"]).getroot()
    assert (junit.find(".//failure") is not None) == bool(code)
    for path in job["artifacts"]["paths"]:
        assert (project / path).exists()


@pytest.mark.parametrize(("script", "code"), [(GOOD, 0), (BAD, 1)], ids=["good", "bad"])
def test_the_pre_commit_hook(project, script, code):
    (project / "decode.py").write_text(script)
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {"id", "name", "entry", "language"} <= set(hook)
    words = [*shlex.split(hook["entry"]), "decode.py", "--name", "two words"]
    done = shell(project, shlex.join(words))
    assert done.returncode == code, done.stdout + done.stderr
