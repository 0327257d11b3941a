from __future__ import annotations

import json
import os

import pytest
from gate_programs import SYNC, trace_of


def traced(argument: str, path: str) -> None:
    """A run of SYNC whose script was named so."""
    trace_of(SYNC).write(path)
    with open(path, encoding="utf-8") as stream:
        lines = stream.readlines()
    header = json.loads(lines[0])
    header["argv"] = [argument, "--steps", "4"]
    with open(path, "w", encoding="utf-8") as stream:
        stream.writelines([json.dumps(header) + "\n", *(line.replace('"cwd:', '"target:') for line in lines[1:])])


@pytest.mark.parametrize(
    ("folder", "argument", "file"),
    [
        (".", "{root}/script.py", "script.py"),
        (".", "{root}/sub/script.py", "sub/script.py"),
        ("sub", "{root}/script.py", "../script.py"),
        (".", "/elsewhere/script.py", "script.py"),
        (".", "{root}x/script.py", "script.py"),
    ],
)
def test_where_the_script_is(project, run, monkeypatch, folder, argument, file):
    (project / "sub").mkdir()
    monkeypatch.chdir(project / folder)
    traced(argument.format(root=os.path.realpath(project)), "t.jsonl")
    _code, said = run("check", "t.jsonl", "--format", "json")
    assert json.loads(said)["findings"][0]["location"]["file"] == file
