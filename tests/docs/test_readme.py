"""What the READMEs promise is there, in both languages."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cudagraph_doctor.cli.main import COMMANDS
from cudagraph_doctor.engine.exit_code import ExitCode

ROOT = Path(__file__).parents[2]
READMES = ["README.md", "README.zh.md"]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str) -> list[str]:
    return re.findall(r"^```\n(.*?)^```", text(name), re.MULTILINE | re.DOTALL)


def test_both_readmes_have_the_same_commands():
    without_comments = [[re.sub(r" +#.*", "", block) for block in blocks(name)] for name in READMES]
    assert without_comments[0] == without_comments[1]
    assert len(without_comments[0]) == 3


@pytest.mark.parametrize("name", READMES)
def test_every_link_leads_somewhere(name):
    for target in re.findall(r"\]\(([^)#]+)", text(name)):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target


@pytest.mark.parametrize("name", READMES)
def test_every_exit_code_is_listed(name):
    for code in ExitCode:
        assert re.search(rf"^\| {code.value} \| ", text(name), re.MULTILINE)


def test_every_command_used_exists():
    used = set(re.findall(r"cudagraph-doctor ([a-z]+)", "".join(blocks("README.md"))))
    assert used <= set(COMMANDS)


def test_the_first_command_runs_a_script_that_is_there():
    script = re.search(r"cudagraph-doctor run (fixtures/\S+)", text("README.md"))
    assert script
    assert (ROOT / script[1]).is_file()


def test_ci_runs_the_readmes_test_command():
    assert "README.md" in text(".ci/run")
    assert "pytest -n 2" in text("README.md")


@pytest.mark.sim
def test_the_first_command_does_what_it_says(tmp_path):
    script = re.search(r"cudagraph-doctor run (fixtures/\S+)", text("README.md"))
    assert script
    result = subprocess.run(
        [sys.executable, "-m", "cudagraph_doctor", "run", "--trace", str(tmp_path / "trace"), script[1]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1, result.stderr
    assert "CGD101 host-sync-in-capture" in result.stdout
    assert f"{script[1]}:25" in result.stdout


def test_the_development_page_has_the_same_test_command():
    assert blocks("README.md")[2] in text("docs/development.md")
