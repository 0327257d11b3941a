from __future__ import annotations

import gzip
import json
import os

import pytest

from cudagraph_doctor.cli.main import main


def test_a_clean_trace(traces, capsys):
    assert main(["check", traces["clean"]]) == 0
    assert "No findings" in capsys.readouterr().out


def test_a_broken_capture(traces, capsys):
    assert main(["check", traces["broken"]]) == 1
    shown = capsys.readouterr().out
    assert "CGD101" in shown
    assert "script.py:6" in shown
    assert "if y.sum().item() > 0:" in shown


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--fail-on", "never"], 7),
        (["--ignore", "capture_status"], 7),
        (["--select", "CGD101"], 1),
        (["--select", "CGD113,host-sync-in-capture"], 1),
        (["--ignore", "CGD101", "--fail-on", "never"], 7),
        (["--require-evidence"], 3),
        (["--require-evidence", "--evidence", "python"], 1),
        (["--require-checked", "CGD101"], 1),
    ],
)
def test_options_and_their_exit_codes(traces, options, code):
    assert main(["check", traces["broken"], *options]) in ({code, 0} if code == 7 else {code})


LACKING = "driver evidence was required; the run had python evidence"


def test_evidence_that_was_required_and_lacks_is_said(traces, capsys):
    assert main(["check", "--require-evidence", traces["clean"]]) == 3
    assert f"✗ {LACKING}\n" in capsys.readouterr().out
    assert main(["check", "--require-evidence", "--format", "json", traces["clean"]]) == 3
    assert LACKING in [limit["what"] for limit in json.loads(capsys.readouterr().out)["limits"]]


def test_evidence_that_suffices_is_not_mentioned(traces, capsys):
    assert main(["check", "--require-evidence", "--evidence", "python", traces["clean"]]) == 0
    assert "was required" not in capsys.readouterr().out


def test_json_on_standard_output(traces, capsys):
    assert main(["check", "--format", "json", traces["broken"]]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["findings"][0]["rule"] == "CGD101"
    assert report["findings"][0]["location"]["line"] == 6


def test_output_goes_to_the_file_alone(traces, tmp_path, capsys):
    out = tmp_path / "report.json"
    assert main(["check", "--format", "json", "--output", str(out), traces["broken"]]) == 1
    assert json.loads(out.read_text())["summary"]["error"] == 1
    assert not capsys.readouterr().out


def test_a_growing_trace_is_still_running(traces, capsys):
    main(["check", traces["growing"]])
    assert "still running" in capsys.readouterr().out


def test_a_folder_is_one_run(traces, tmp_path, capsys):
    main(["check", "--format", "json", str(tmp_path)])
    assert len(json.loads(capsys.readouterr().out)["processes"]) == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--select", "CGD1O1"], "CGD101"),
        (["--ignore", "host-sync-in-captur"], "host-sync-in-capture"),
        (["--require-checked", "capture_staus"], "capture_status"),
        (["--output", "/no/such/folder/report.json"], "the folder does not exist"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_nearest(traces, options, said, capsys):
    assert main(["check", traces["clean"], *options]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert not shown.out


def test_a_missing_trace(capsys):
    assert main(["check", "no-such-trace"]) == 2
    assert "no-such-trace" in capsys.readouterr().err


def damaged(kind: str, good: bytes) -> bytes:
    header, rest = good.split(b"\n", 1)
    fields = json.loads(header)
    return {
        "empty": b"",
        "binary": os.urandom(5000),
        "text": b"hello\nworld\n",
        "json": b'{"a": 1}\n',
        "major": json.dumps(fields | {"version": [2, 0]}).encode() + b"\n" + rest,
        "deep": b"[" * 100_000,
        "half gzip": gzip.compress(good)[:40],
    }[kind]


@pytest.mark.parametrize("kind", ["empty", "binary", "text", "json", "major", "deep", "half gzip"])
def test_what_is_no_trace_gets_one_line_and_code_3(kind, traces, tmp_path, capsys):
    with open(traces["clean"], "rb") as stream:
        content = damaged(kind, stream.read())
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    assert main(["check", str(path)]) == 3
    shown = capsys.readouterr()
    assert len(shown.err.splitlines()) == 1
    assert "\x1b" not in shown.err
    assert not shown.out


def test_a_damaged_line_makes_the_diagnosis_incomplete(traces, tmp_path, capsys):
    with open(traces["clean"], "rb") as stream:
        lines = stream.read().splitlines(keepends=True)
    lines[len(lines) // 2] = b'{"k": "op", "q": \x00\xff\n'
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(b"".join(lines))
    assert main(["check", str(path)]) == 4
    assert "damaged line" in capsys.readouterr().out


def test_timeline_stands_in_the_table_only_where_it_was_asked_for(traces, capsys):
    main(["check", traces["broken"]])
    assert "active → invalidated" not in capsys.readouterr().out
    assert main(["check", traces["broken"], "--timeline"]) == 1
    shown = capsys.readouterr().out
    assert "Capture 1  failed" in shown
    assert "active → invalidated" in shown


def test_timeline_stands_in_the_json_report(traces, capsys):
    main(["check", "--format", "json", traces["broken"]])
    (timeline,) = json.loads(capsys.readouterr().out)["timelines"]
    assert [step["what"] for step in timeline["steps"]] == ["begin", "invalidated", "end"]
    assert timeline["steps"][1]["location"]["line"] == 6
