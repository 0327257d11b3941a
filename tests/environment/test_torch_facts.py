"""Asking an interpreter, with interpreters that answer badly."""

from __future__ import annotations

import sys

import pytest

from cudagraph_doctor.environment.torch_facts import ask_interpreter


@pytest.fixture
def interpreter(tmp_path):
    """Makes an executable that runs the given shell lines in the place of Python."""

    def make(*lines: str) -> str:
        path = tmp_path / "python"
        path.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
        path.chmod(0o755)
        return str(path)

    return make


def test_our_own_interpreter_answers_and_torch_stays_out_of_this_process():
    before = "torch" in sys.modules
    facts = ask_interpreter()
    assert facts.python == ".".join(map(str, sys.version_info[:3]))
    assert ("torch" in sys.modules) == before


def test_noise_before_the_answer_does_not_matter(interpreter):
    program = interpreter("echo warning: something", """printf '\\n{"python": "3.12.0", "torch": "2.9.0"}'""")
    assert ask_interpreter(program).torch == "2.9.0"


def test_a_missing_interpreter_is_an_answer():
    assert "No such file" in (ask_interpreter("/no/such/python").why or "")


def test_a_crash_is_an_answer(interpreter):
    assert ask_interpreter(interpreter("echo boom >&2", "exit 3")).why == "boom"


def test_silence_is_an_answer(interpreter):
    assert ask_interpreter(interpreter("exec sleep 20"), timeout=0.2).why == "no answer within 0 s"


@pytest.fixture
def torch_folder(tmp_path, monkeypatch):
    """Makes a torch that cannot be imported, with this text in its version.py."""

    def make(version: str) -> None:
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('imported')")
        (tmp_path / "torch" / "version.py").write_text(version)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.chdir(tmp_path)

    return make


def test_torch_is_read_and_not_imported(torch_folder):
    torch_folder(
        "from typing import Optional\n__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\nhip: str = None\n"
    )
    facts = ask_interpreter()
    assert (facts.torch, facts.cuda, facts.hip, facts.why) == ("2.11.0+cu130", "13.0", None, None)


def test_a_torch_that_does_not_tell_its_version_is_imported(torch_folder):
    torch_folder("from somewhere import __version__\n")
    assert ask_interpreter().why == "ImportError: imported"


def test_the_question_is_not_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDAGRAPH_DOCTOR_TRACE", "x")
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\necho >&2 "trace=$CUDAGRAPH_DOCTOR_TRACE"; exit 1\n')
    program.chmod(0o755)
    assert ask_interpreter(str(program)).why == "trace="
