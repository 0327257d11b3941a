"""`--report`: several at once, whole or not at all, wherever they go."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from cudagraph_doctor.cli.main import main
from cudagraph_doctor.cli.report_options import FORMATS
from cudagraph_doctor.reporters.formats import Format


def test_every_format_is_an_option():
    assert tuple(form.value for form in Format) == FORMATS


def test_all_at_once(traces, tmp_path, capsys):
    words = [word for form in FORMATS for word in ("--report", f"{form}={tmp_path / form}")]
    assert main(["check", traces["broken"], *words]) == 1
    assert "CGD101" in capsys.readouterr().out
    for form in FORMATS:
        assert "CGD101" in (tmp_path / form).read_text(encoding="utf-8"), form
    assert {path.name for path in tmp_path.iterdir() if path.name.startswith(".")} == set()


def test_output_and_reports_together(traces, tmp_path, capsys):
    out, more = tmp_path / "out.json", tmp_path / "more.sarif"
    words = ["--format", "json", "--output", str(out), "--report", f"sarif={more}"]
    assert main(["check", traces["broken"], *words]) == 1
    assert capsys.readouterr().out == ""
    assert json.loads(out.read_text())["gate"]["exit_code"] == 1
    assert json.loads(more.read_text())["version"] == "2.1.0"


def test_if_one_cannot_be_written_none_changes(traces, tmp_path, monkeypatch, capsys):
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("old")
    second.write_text("old")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cudagraph_doctor.reporters.junit.write", full)
    assert main(["check", traces["broken"], "--report", f"sarif={first}", "--report", f"junit={second}"]) == 2
    said = capsys.readouterr()
    assert len(said.err.splitlines()) == 1
    assert f"cannot write the report to {second}: No space left on device" in said.err
    assert (first.read_text(), second.read_text()) == ("old", "old")
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("where", ["--output", "--report"])
def test_a_full_device(traces, form, where, capsys):
    words = ["--output", "/dev/full", "--format", form] if where == "--output" else ["--report", f"{form}=/dev/full"]
    assert main(["check", traces["broken"], *words]) == 2
    assert "No space left on device" in capsys.readouterr().err


def alone(*words: str, **changes) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cudagraph_doctor", *words]
    return subprocess.run(command, text=True, check=False, stderr=subprocess.PIPE, **changes)


@pytest.mark.parametrize("form", ["sarif", "junit", "html", "github"])
def test_a_full_standard_output(traces, form):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = alone("check", traces["broken"], "--format", form, stdout=full)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "No space left on device" in done.stderr


def test_a_file_that_may_not_grow(traces, tmp_path):
    path = tmp_path / "out.html"
    path.write_text("old")

    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = alone("check", traces["broken"], "--report", f"html={path}", stdout=subprocess.DEVNULL, preexec_fn=small)
    assert done.returncode == 2
    assert "File too large" in done.stderr
    assert path.read_text() == "old"
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_an_interrupt_leaves_the_old_file_and_nothing_else(traces, tmp_path):
    path = tmp_path / "out.sarif"
    path.write_text("old")
    code = (
        "import signal, sys, time\n"
        # A shell that starts the tests in the background has them ignore SIGINT, and children inherit that.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from cudagraph_doctor.reporters import sarif\n"
        "whole = sarif.write\n"
        "def slow(report, stream):\n"
        "    whole(report, stream)\n"
        "    print('writing', flush=True)\n"
        "    time.sleep(60)\n"
        "sarif.write = slow\n"
        "from cudagraph_doctor.cli.main import main\n"
        f"sys.exit(main(['check', {traces['broken']!r}, '--report', 'sarif={path}']))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _out, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert path.read_text() == "old"
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_the_job_summary_is_appended(traces, tmp_path, monkeypatch, capsys):
    summary = tmp_path / "summary.md"
    summary.write_text("# before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    main(["check", traces["broken"]])
    assert summary.read_text() == "# before\n"
    main(["check", traces["broken"], "--format", "github"])
    text = summary.read_text()
    assert text.startswith("# before\n## ")
    assert "CGD101" in text
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    assert main(["check", traces["broken"], "--format", "github"]) == 2
    assert "Is a directory" in capsys.readouterr().err


def test_timelines_stand_where_they_belong(traces, tmp_path, capsys):
    main(
        [
            "check",
            traces["broken"],
            "--report",
            f"html={tmp_path / 'x.html'}",
            "--report",
            f"json={tmp_path / 'x.json'}",
        ]
    )
    assert "active → invalidated" not in capsys.readouterr().out
    assert "active → invalidated" in (tmp_path / "x.html").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "x.json").read_text())["timelines"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_any_encoding_of_standard_output(traces, encoding):
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    for form in FORMATS:
        done = alone("check", traces["broken"], "--format", form, stdout=subprocess.DEVNULL, env=environment)
        assert done.returncode == 1, (form, done.stderr)
