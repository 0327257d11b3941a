"""A project over five commits: clean, broken, known, moved, a capture lost. On the simulated device, in every format."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from cudagraph_doctor.environment.devices import find_driver

pytestmark = pytest.mark.slow
DEVICES = [
    pytest.param("sim", marks=pytest.mark.sim),
    pytest.param(
        "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not find_driver().gpus, reason="there is no GPU here")]
    ),
]
FORMATS = ("table", "json", "sarif", "junit", "github", "gitlab", "markdown", "html")
MAIN = """\
from engine import Engine

Engine([1, 2]).run()
"""
ENGINE = """\
import torch


class Engine:
    def __init__(self, buckets):
        self.weight = torch.randn(8, 8, device="cuda")
        self.graphs = {}
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            (torch.randn(8, 8, device="cuda") @ self.weight).argmax(-1)
        torch.cuda.synchronize()
        for size in buckets:
            self.graphs[size] = self.capture(size)

    def capture(self, size):
        x = torch.randn(size, 8, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = x @ self.weight
            best = logits.argmax(-1)
        return graph, x, best

    def run(self):
        for graph, _x, _best in self.graphs.values():
            graph.replay()
"""
BROKEN = ENGINE.replace(
    "            best = logits.argmax(-1)\n",
    "            best = logits.argmax(-1)\n            first = best[0].item()\n",
)
LINE = BROKEN.split("\n").index("            first = best[0].item()") + 1
MOVED = "# A comment\n# that moves\n# everything.\n" + BROKEN.replace("first =", "the_first_one =").replace(
    "    def run(self)", "    def idle(self):\n        pass\n\n    def run(self)"
)
CONFIGURATION = '[tool.cudagraph-doctor]\nexpected-captures = { "src/engine.py" = 2 }\n'


def git(project: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *words],
        cwd=project,
        check=True,
        capture_output=True,
    )


def commit(project: Path, **files: str) -> None:
    for name, text in files.items():
        (project / "src" / f"{name}.py").write_text(text)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "x")


@pytest.fixture
def project(tmp_path):
    folder = tmp_path
    (folder / "src").mkdir()
    git(folder, "init", "-q")
    (folder / "pyproject.toml").write_text(CONFIGURATION)
    (folder / ".gitignore").write_text("reports/\n*.json\ntraces/\n")
    return folder


def doctor(project: Path, *words: str) -> tuple[int, str]:
    """Runs the tool in the project's src folder, not in its root."""
    environment = {name: value for name, value in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
    done = subprocess.run(
        [sys.executable, "-m", "cudagraph_doctor", *words],
        cwd=project / "src", env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "cudagraph_doctor/" not in done.stderr, done.stderr  # no frame of ours in a traceback
    return done.returncode, done.stdout + done.stderr


def gate(project: Path, device: str, *options: str) -> tuple[int, Path]:
    """Runs the gate with a report in every format."""
    reports = project / "reports"
    reports.mkdir(exist_ok=True)
    words = [word for form in FORMATS for word in ("--report", f"{form}={reports / form}")]
    code, said = doctor(project, "run", "--device", device, *options, *words, "main.py")
    assert code in (0, 1), said
    return code, reports


def lines_told(reports: Path) -> dict[str, set[tuple[str, int]]]:
    """File and line of what each format shows in red."""
    red = json.loads((reports / "json").read_text())
    sarif = json.loads((reports / "sarif").read_text())["runs"][0]["results"]
    physical = [r["locations"][0]["physicalLocation"] for r in sarif if not r["suppressions"] and r["level"] == "error"]
    issues = [
        i
        for i in json.loads((reports / "gitlab").read_text())
        if i["severity"] == "critical" and i["check_name"].startswith("CGD")
    ]
    failures = [
        case[0].get("message")
        for case in ET.parse(reports / "junit").getroot().iter("testcase")
        if len(case) and case[0].tag == "failure"
    ]
    annotations = re.findall(r"^::error file=([^,]*),line=(\d+)", (reports / "github").read_text(), re.MULTILINE)
    return {
        "json": {(f["location"]["file"], f["location"]["line"]) for f in red["findings"] if f["state"] == "new" and f["level"] == "error"},
        "sarif": {(p["artifactLocation"]["uri"], p["region"]["startLine"]) for p in physical},
        "gitlab": {(i["location"]["path"], i["location"]["lines"]["begin"]) for i in issues},
        "junit": {(m[1], int(m[2])) for f in failures if (m := re.match(r"(\S+):(\d+) ", f))},
        "github": {(file, int(line)) for file, line in annotations},
        "table": {(m[1], int(m[2])) for m in re.finditer(r"CGD101\s+error.*?(\S+\.py):(\d+)", (reports / "table").read_text())},
        "markdown": {(m[1], int(m[2])) for m in re.finditer(r"CGD101 .*?`(\S+):(\d+) in", (reports / "markdown").read_text())},
        "html": {(m[1], int(m[2])) for m in re.finditer(r'<details class="finding error new"[^>]*><summary>.*?class="place">(\S+):(\d+) in', (reports / "html").read_text())},
    }  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
def test_a_project_over_five_commits(project, device):
    baseline = str(project / "baseline.json")
    commit(project, main=MAIN, engine=ENGINE)
    code, reports = gate(project, device)
    assert code == 0
    assert not any(lines_told(reports).values())
    captures = json.loads((reports / "json").read_text())["captures"]
    assert [capture["status"] for capture in captures] == ["completed", "completed"]
    assert doctor(project, "baseline", "write", baseline, "--device", device, "main.py")[0] == 0
    assert gate(project, device, "--baseline", baseline)[0] == 0

    # A commit that reads a value inside the region: red in every format, at the line.
    commit(project, engine=BROKEN)
    code, reports = gate(project, device)
    assert code == 1
    from_root, from_here = {("src/engine.py", LINE)}, {("engine.py", LINE)}
    assert lines_told(reports) == {
        **dict.fromkeys(("sarif", "gitlab", "github"), from_root),
        **dict.fromkeys(("json", "junit", "table", "markdown", "html"), from_here),
    }
    assert gate(project, device, "--baseline", baseline)[0] == 1

    # What is known is green, also after a refactoring that moves lines and renames a temporary.
    (project / "pyproject.toml").write_text("[tool.cudagraph-doctor]\n")
    code, said = doctor(project, "baseline", "write", baseline, "--device", device, "main.py")
    assert code == 0, said
    code, reports = gate(project, device, "--baseline", baseline)
    assert code == 0
    assert not any(lines_told(reports).values())
    commit(project, engine=MOVED)
    assert gate(project, device, "--baseline", baseline)[0] == 0

    # A capture that disappears: red, against the baseline and against what the configuration expects.
    commit(project, engine=ENGINE)
    assert doctor(project, "baseline", "write", baseline, "--device", device, "main.py")[0] == 0
    commit(project, main=MAIN.replace("[1, 2]", "[1]"))
    code, reports = gate(project, device, "--baseline", baseline)
    assert code == 1
    for form in FORMATS:
        assert "a capture of the baseline is gone" in " ".join((reports / form).read_text().split()), form
    (project / "pyproject.toml").write_text(CONFIGURATION)
    code, reports = gate(project, device)
    assert code == 1
    assert "1 captures of src/engine.py completed, 2 expected" in (reports / "json").read_text()
