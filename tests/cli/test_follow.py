"""`check --follow`: each finding once, until the end."""

from __future__ import annotations

import pytest

from cudagraph_doctor.cli import follow
from cudagraph_doctor.engine.run import diagnose
from cudagraph_doctor.errors import TraceError
from cudagraph_doctor.testing import TraceBuilder
from cudagraph_doctor.trace import events


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr(follow, "INTERVAL", 0.0)


def readings(*given):
    """A reader that answers with each of these in turn: a path to diagnose, or an error to raise."""
    left = list(given)

    def read():
        step = left.pop(0)
        if isinstance(step, BaseException):
            raise step
        return diagnose([step])

    return read, left


def test_each_finding_is_said_once(traces, capsys):
    read, left = readings(traces["growing"], traces["growing"], traces["broken"])
    report = follow.follow_findings(read)
    assert not left
    assert not report.exit.running
    said = capsys.readouterr().err.splitlines()
    assert len(said) == len(set(said)) == len(report.findings)
    assert "CGD101 error" in said[0]


def test_the_seal_behind_an_exception_is_waited_for_once(tmp_path):
    trace = TraceBuilder()
    trace.exception(events.Link(type="ValueError", message="x"))
    trace.write(tmp_path / "raised.jsonl")
    trace.seal(1)
    trace.write(tmp_path / "sealed.jsonl")
    raised, sealed = tmp_path / "raised.jsonl", tmp_path / "sealed.jsonl"
    assert follow.follow_findings(readings(raised, sealed)[0]).exit.returncode == 1
    assert follow.follow_findings(readings(raised, raised)[0]).exit.returncode is None


def test_an_empty_folder_is_waited_for(traces):
    read, left = readings(TraceError("no trace in x"), traces["clean"])
    assert follow.follow_findings(read).findings == ()
    assert not left


def test_a_bad_trace_ends_it():
    read, _ = readings(TraceError("not a trace"))
    with pytest.raises(TraceError):
        follow.follow_findings(read)


def test_an_interrupt_ends_it_with_what_there_is(traces):
    read, _ = readings(traces["growing"], KeyboardInterrupt())
    assert follow.follow_findings(read).exit.running


def test_an_interrupt_before_anything_is_an_error():
    read, _ = readings(KeyboardInterrupt())
    with pytest.raises(TraceError, match="interrupted"):
        follow.follow_findings(read)
