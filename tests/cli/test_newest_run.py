from __future__ import annotations

import json
import os

import pytest

from cudagraph_doctor.cli.main import main
from cudagraph_doctor.cli.newest_run import newest_runs


@pytest.fixture
def runs(traces, tmp_path):
    """A folder of two runs, of which the one with the smaller name was recorded last."""
    above = tmp_path / "cudagraph-doctor-trace"
    for name, kind, when in (("a", "broken", 2_000_000_000), ("b", "clean", 1_000_000_000)):
        (above / name).mkdir(parents=True)
        os.link(traces[kind], above / name / "1.jsonl")
        os.utime(above / name / "1.jsonl", (when, when))
    (above / "notes").mkdir()
    return above


def test_a_folder_of_runs_is_its_newest_run(runs, capsys):
    assert main(["check", "--format", "json", str(runs)]) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["summary"]["error"] == 1
    assert "2 runs" in shown.err
    assert str(runs / "a") in shown.err


def test_a_run_beside_others_is_taken_as_it_was_named(runs, capsys):
    assert main(["check", str(runs / "b")]) == 0
    assert not capsys.readouterr().err


def test_dump_and_pack_take_the_newest_too(runs, tmp_path, capsys):
    assert main(["dump", str(runs)]) == 0
    assert "_local_scalar_dense" in capsys.readouterr().out
    assert main(["pack", str(runs), "-o", str(tmp_path / "one.jsonl.gz")]) == 0


def test_what_is_no_folder_of_runs_is_left_alone(tmp_path, traces, capsys):
    empty = tmp_path / "empty"
    empty.mkdir()
    given = (str(empty), traces["clean"], str(tmp_path), "no-such")
    assert newest_runs(given) == list(given)
    assert not capsys.readouterr().err
