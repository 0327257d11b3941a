from __future__ import annotations

import json
import re

import pytest

from cudagraph_doctor.cli.main import main


def numbers(text: str) -> list[int]:
    return [int(match) for match in re.findall(r"^[ >]\s*(\d+) ", text, re.MULTILINE)]


def test_dump_shows_every_record_in_order(traces, capsys):
    assert main(["dump", traces["broken"]]) == 0
    shown = capsys.readouterr().out
    with open(traces["broken"], "rb") as stream:
        written = [json.loads(line)["q"] for line in stream]
    assert numbers(shown) == written
    assert re.search(r"op .*aten::_local_scalar_dense.*script.py:6", shown)


def test_dump_around_shows_the_neighbours(traces, capsys):
    assert main(["dump", traces["broken"], "--around", "10", "--context", "2"]) == 0
    shown = capsys.readouterr().out
    assert numbers(shown) == [8, 9, 10, 11, 12]
    assert re.search(r"^> *10 ", shown, re.MULTILINE)


def test_dump_of_a_number_that_is_not_there_says_so(traces, capsys):
    assert main(["dump", traces["broken"], "--around", "99999"]) == 0
    assert "no record 99999" in capsys.readouterr().out


def test_dump_makes_control_characters_visible(tmp_path, traces, capsys):
    with open(traces["clean"], encoding="utf-8") as stream:
        text = stream.read()
    path = tmp_path / "rude.jsonl"
    path.write_text(text.replace("aten::mm", "\\u001b[31maten::mm\\u202e"), encoding="utf-8")
    assert main(["dump", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "aten::mm" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


@pytest.mark.parametrize("options", [[], ["--no-source"], ["--redact"]])
def test_a_pack_can_be_checked(traces, tmp_path, options, capsys):
    out = str(tmp_path / "packed.jsonl.gz")
    assert main(["pack", traces["broken"], "-o", out, *options]) == 0
    capsys.readouterr()
    assert main(["check", "--format", "json", out]) == 1
    finding = json.loads(capsys.readouterr().out)["findings"][0]
    assert finding["rule"] == "CGD101"
    assert finding["location"]["line"] == 6
