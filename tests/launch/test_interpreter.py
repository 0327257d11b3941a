"""The interpreter of the target: the first that has torch, found without importing it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from cudagraph_doctor.errors import TargetError, UsageError
from cudagraph_doctor.launch import interpreter

REAL = sys.executable


def python(
    folder: Path, name: str, *, torch: str | None = None, cuda: str | None = None, hip: str | None = None
) -> Path:
    """A program that answers as an interpreter with this torch would."""
    site = folder / f"{name}-site"
    site.mkdir(parents=True)
    if torch is not None:
        (site / "torch").mkdir()
        (site / "torch" / "__init__.py").write_text("raise RuntimeError('torch was imported')\n")
        (site / "torch" / "version.py").write_text(f"__version__ = {torch!r}\ncuda = {cuda!r}\nhip = {hip!r}\n")
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    # -S hides the torch of the environment that runs the tests.
    path.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec "{REAL}" -S "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def no_torch_here(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(python(tmp_path / "here", "python")))


def environment(path: str = "", **more: str) -> dict[str, str]:
    return {"PATH": os.pathsep.join(filter(None, [path, "/bin", "/usr/bin"]))} | more


def test_named_interpreter_is_asked(tmp_path) -> None:
    path = python(tmp_path, "python", torch="2.9.0+cu130", cuda="13.0")
    found = interpreter.choose(str(path), environment())
    assert (found.torch, found.cuda, found.hip) == ("2.9.0+cu130", "13.0", None)
    assert found.version == sys.version_info[:3]


def test_named_interpreter_without_torch_is_refused(tmp_path) -> None:
    path = python(tmp_path, "python")
    with pytest.raises(TargetError, match="no torch in") as caught:
        interpreter.choose(str(path), environment())
    assert "--python PATH" in (caught.value.hint or "")


def test_named_program_that_is_missing_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        interpreter.choose("/no/such/python", environment())


def test_named_program_that_is_no_python() -> None:
    with pytest.raises(TargetError):
        interpreter.choose(shutil.which("true"), environment())


@pytest.mark.usefixtures("no_torch_here")
def test_active_environment_comes_before_path(tmp_path) -> None:
    python(tmp_path / "venv", "python", torch="2.6.0", cuda="12.6")
    python(tmp_path / "path", "python", torch="2.7.0", cuda="12.6")
    where = environment(str(tmp_path / "path" / "bin"), VIRTUAL_ENV=str(tmp_path / "venv"))
    assert interpreter.choose(None, where).torch == "2.6.0"


@pytest.mark.usefixtures("no_torch_here")
def test_active_environment_without_torch_is_passed_over(tmp_path) -> None:
    python(tmp_path / "venv", "python")
    python(tmp_path / "path", "python", torch="2.7.0", cuda="12.6")
    where = environment(str(tmp_path / "path" / "bin"), VIRTUAL_ENV=str(tmp_path / "venv"))
    assert interpreter.choose(None, where).torch == "2.7.0"


@pytest.mark.usefixtures("no_torch_here")
def test_no_torch_anywhere_says_where_it_looked(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(interpreter, "_candidates", lambda environment: [sys.executable])
    with pytest.raises(TargetError, match="no torch in"):
        interpreter.choose(None, environment())


def test_current_interpreter_with_torch_comes_first(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(sys, "executable", str(python(tmp_path / "here", "python", torch="2.8.0")))
    python(tmp_path / "venv", "python", torch="2.6.0")
    assert interpreter.choose(None, environment(VIRTUAL_ENV=str(tmp_path / "venv"))).torch == "2.8.0"


def test_old_python_is_refused_with_its_version(monkeypatch) -> None:
    old = interpreter.Interpreter("/old/python", (3, 9, 1), torch="2.6.0")
    monkeypatch.setattr(interpreter, "ask", lambda path, environment: old)
    with pytest.raises(TargetError, match=r"3\.9\.1"):
        interpreter.choose("sh", environment())


def test_folder_named_torch_in_the_current_one_is_not_torch(tmp_path, monkeypatch) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("")
    monkeypatch.chdir(tmp_path)
    found = interpreter.ask(str(python(tmp_path, "python")), environment())
    assert found is not None
    assert found.torch is None


def test_files_of_the_working_directory_are_not_run(tmp_path, monkeypatch) -> None:
    """A `json.py` beside the script is the script's, and no reason to find no interpreter."""
    path = python(tmp_path, "python", torch="2.9.0")
    for name in ("json", "runpy", "torch"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('of the working directory')\n")
    monkeypatch.chdir(tmp_path)
    assert interpreter.choose(str(path), environment()).torch == "2.9.0"
