"""The folder of a run: never mixed with another run's."""

from __future__ import annotations

import os

import pytest

from cudagraph_doctor.errors import UsageError
from cudagraph_doctor.launch import environment_variables, folder


def test_folder_that_was_named_is_made(tmp_path) -> None:
    assert folder.make(str(tmp_path / "a" / "b"), "x.py") == (str(tmp_path / "a" / "b"), "")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_folder_with_another_runs_trace_is_refused(tmp_path) -> None:
    (tmp_path / "host-1-2-abc.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match="another run"):
        folder.make(str(tmp_path), "x.py")


def test_file_in_the_way_is_refused(tmp_path) -> None:
    (tmp_path / "trace").write_text("")
    with pytest.raises(UsageError, match="a file stands there"):
        folder.make(str(tmp_path / "trace"), "x.py")


def test_folder_that_cannot_be_written_says_why() -> None:
    path, why = folder.make("/proc/no/such", "x.py")
    assert path == "/proc/no/such"
    assert why


def test_default_is_a_fresh_folder_below_the_current_one(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    path, why = folder.make(None, "deep/my script.py")
    assert path.startswith(str(tmp_path / "cudagraph-doctor-trace"))
    assert "my_script.py" in path
    assert not why


def test_what_we_make_is_kept_out_of_git(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    folder.make(None, "x.py")
    ignored = tmp_path / folder.DEFAULT / ".gitignore"
    assert ignored.read_text() == "*\n"
    ignored.unlink()
    folder.make(None, "x.py")
    assert not ignored.exists(), "the user removed it"


def test_a_folder_that_was_asked_for_gets_no_file_of_ours(tmp_path) -> None:
    folder.make(str(tmp_path / "mine"), "x.py")
    assert list((tmp_path / "mine").iterdir()) == []


def test_default_goes_elsewhere_where_nothing_can_be_written(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("os.getcwd", lambda: "/proc")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    path, why = folder.make(None, "x.py")
    assert path.startswith(str(tmp_path))
    assert not why


def test_environment_of_a_recorder_is_cleaned() -> None:
    door = environment_variables.DOOR
    dirty = {"CUDAGRAPH_DOCTOR_CONFIG": "{}", "CUDAGRAPH_DOCTOR_TRACE": "x", "PYTHONPATH": f"{door}:/mine", "A": "b"}
    assert environment_variables.clean(dirty) == {"PYTHONPATH": "/mine", "A": "b"}
    assert environment_variables.clean({"PYTHONPATH": door}) == {}


def test_door_shows_the_target_nothing_else() -> None:
    assert sorted(name for name in os.listdir(environment_variables.DOOR) if name.endswith((".py", ".pth", ".so"))) == [
        "__init__.py",  # so that it is packaged; no import statement reaches it from there
        "sitecustomize.py",
    ]
