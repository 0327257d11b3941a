"""The documentation is complete and up to date."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cudagraph_doctor.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def test_generated_pages_are_up_to_date():
    result = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`\n]*`", "", prose)
    for target in re.findall(r"\]\(([^)#\s]+)", prose):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_mentioned(name):
    everything = "".join(page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *PAGES])
    assert re.search(rf"cudagraph-doctor {name}\b", everything) or f"`{name}`" in everything


def test_every_hook_is_described():
    described = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
    hooks = (ROOT / "cudagraph_doctor" / "probe" / "hooks").glob("[!_]*.py")
    assert [path.name for path in hooks if f"| `{path.name}` |" not in described] == []


def test_no_file_is_longer_than_400_lines():
    long = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for folder in ("cudagraph_doctor", "docs", "tests")
        for path in (ROOT / folder).rglob("*.py")
    }
    assert {path: lines for path, lines in long.items() if lines > 400} == {}
