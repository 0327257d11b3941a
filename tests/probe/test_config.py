"""How the recorder gets to know what to do."""

from __future__ import annotations

import json
import os

import pytest

from cudagraph_doctor.probe import config


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in ("CUDAGRAPH_DOCTOR_CONFIG", "CUDAGRAPH_DOCTOR_TRACE", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)


def test_nothing_is_asked_for() -> None:
    assert config.from_environment() is None


def test_launcher_asks(monkeypatch) -> None:
    values = {"trace": "/t", "run": "r", "launcher": 7, "device": "sim", "sim_devices": 2, "own": ["mine"], "other": 1}
    monkeypatch.setenv("CUDAGRAPH_DOCTOR_CONFIG", json.dumps(values))
    monkeypatch.setenv("CUDAGRAPH_DOCTOR_TRACE", "/other")
    found = config.from_environment()
    assert (found.how, found.trace, found.run, found.launcher) == ("run", "/t", "r", 7)
    assert (found.device, found.sim_devices, found.own, found.get("other")) == ("sim", 2, ("mine",), 1)


@pytest.mark.parametrize("text", ["not json", "[]", "{}", '{"trace": 3}'])
def test_damaged_configuration_is_refused(monkeypatch, text: str) -> None:
    monkeypatch.setenv("CUDAGRAPH_DOCTOR_CONFIG", text)
    with pytest.raises(ValueError):
        config.from_environment()


def test_environment_alone_asks_and_children_find_the_same_folder(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDAGRAPH_DOCTOR_TRACE", "traces")
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    found = config.from_environment()
    assert (found.how, found.trace, found.run) == ("env", str(tmp_path / "traces"), "77")
    assert os.environ["CUDAGRAPH_DOCTOR_TRACE"] == str(tmp_path / "traces")


def test_automatic_has_a_default(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    assert config.automatic().trace == str(tmp_path / config.DEFAULT_FOLDER)
    assert config.automatic().how == "auto"


def test_what_a_trace_may_carry_names_no_folder() -> None:
    values = {"trace": "/t", "target": "/home/x", "cwd": "/home/x", "own": ["/home/y"], "launcher": 3, "device": "cuda"}
    assert config.Config(values, "run").told() == {"device": "cuda"}
