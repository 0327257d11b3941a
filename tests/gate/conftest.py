"""Traces of one small program, as written by hand, and commands run in a project of their own."""

from __future__ import annotations

import os
import sys

import pytest

from cudagraph_doctor.cli.main import main

sys.path.insert(0, os.path.dirname(__file__))  # for gate_programs: importlib mode has no package here

from gate_programs import SCRIPT, SYNC, trace_of


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty project, which is the working directory, with traces in it."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    trace_of(SCRIPT).write(str(tmp_path / "clean.jsonl"))
    trace_of(SYNC).write(str(tmp_path / "broken.jsonl"))
    trace_of(SYNC, shift=7).write(str(tmp_path / "moved.jsonl"))
    trace_of(SCRIPT, captures=3).write(str(tmp_path / "three.jsonl"))
    return tmp_path


@pytest.fixture
def run(project, capsys):
    """Runs a command; returns its exit status and what it said."""

    def command(*arguments: str) -> tuple[int, str]:
        code = main(list(arguments))
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    return command
