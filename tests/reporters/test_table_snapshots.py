"""The table, whole, as text. After a wanted change: UPDATE_SNAPSHOTS=1 pytest tests/reporters, and read the diff."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from msgspec import structs

from cudagraph_doctor.findings import CheckerState, Location, RuleState, Severity
from cudagraph_doctor.report import (
    CaptureInfo,
    DeviceInfo,
    EvidenceSpan,
    Exit,
    Limit,
    ProcessInfo,
    StatusStep,
    Timeline,
    refused,
)
from cudagraph_doctor.reporters import table

SNAPSHOTS = Path(__file__).parent / "snapshots"


def render(report, **options) -> str:
    stream = io.StringIO()
    table.write(report, stream, **options)
    return stream.getvalue()


def assert_snapshot(name: str, text: str) -> None:
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_clean(clean):
    assert_snapshot("clean", render(clean))


def test_broken(broken):
    assert_snapshot("broken", render(broken))


def test_broken_in_colour(broken):
    assert_snapshot("broken_colour", render(broken, color=True, width=100))


def test_nothing_captured(report_with):
    report = report_with(
        captures=(),
        exit=Exit(running=True),
        device=DeviceInfo("sim", "simulated", None, None, "2.13.0+cpu"),
        checkers=(CheckerState("capture_status", "ran", None, (RuleState("CGD101", checked=True),)),),
    )
    assert_snapshot("nothing_captured", render(report))


def test_no_python_line(report_with, finding):
    report = report_with(
        (finding(location=None, state="new"), finding(state="suppressed")),
        exit=Exit(signal="SIGSEGV", returncode=-11),
        captures=(CaptureInfo(1, 0, "abandoned", 0, None),),
    )
    assert_snapshot("no_python_line", render(report))


def test_an_end_that_nothing_explains_is_not_shown_as_clean(report_with):
    text = render(report_with(exit=Exit(1, exception="ValueError: x")))
    assert "! No finding explains how the target ended: 1 rule checked" in text
    assert "✓" not in text
    assert "No findings" not in text


def test_an_incomplete_diagnosis_is_not_shown_as_clean(report_with):
    limit = Limit("torch.compile at serve.py:7", "it was recorded uncompiled", incomplete=True)
    text = render(report_with(limits=(limit,)))
    assert "! No findings, but the diagnosis is incomplete: 1 rule checked" in text
    assert "✓" not in text


def test_a_warning_beside_an_end_that_nothing_explains(report_with, finding):
    text = render(report_with((finding(level=Severity.WARNING),), exit=Exit(exception="OSError: x")), width=120)
    assert "its end was not seen; it raised OSError" in text
    assert "1 warning · no finding explains how the target ended" in text


def test_what_was_required_and_lacks_stands_in_red_and_once(report_with):
    why = "driver evidence was required; the run had simulated evidence"
    refusing = refused(report_with(), why)
    assert render(refusing).count(why) == 1
    assert f"\x1b[1;31m✗ {why}" in render(refusing, color=True)


def step(what, at, before, after, call, line, **fields):
    fields.setdefault("thread", "MainThread")
    place = Location("serving/decode.py", line)
    return StatusStep(what, int(at * 1000), at, "0x2ef0", before, after, call, location=place, **fields)


@pytest.fixture
def lost():
    """A capture with a fork, which another thread's call invalidates."""
    steps = (
        step("begin", 0.5, "none", "active", "torch.cuda.CUDAGraph.capture_begin", 6),
        step("fork", 0.51, "none", "active", "cuStreamWaitEvent", 7),
        step("join", 0.52, "active", "active", "cuStreamWaitEvent", 9),
        step("invalidated", 0.53, "active", "invalidated", "cuMemHostAlloc", 21, thread="loader", code=900),
        step("end", 0.54, "invalidated", "none", "torch.cuda.CUDAGraph.capture_end", 6, code=901),
    )
    return Timeline(1, 0, "failed", "MainThread", steps)


@pytest.mark.parametrize("width", [80, 120])
def test_timeline(report_with, lost, width):
    assert_snapshot(f"timeline_{width}", render(report_with(timelines=(lost,)), width=width))


def test_a_flood_of_timelines_stays_readable(report_with, lost):
    long = structs.replace(lost, steps=lost.steps[:1] * 100 + lost.steps[-1:])
    text = render(report_with(timelines=(long, *[lost] * 29)))
    assert text.count("begun by MainThread") == 20
    assert "61 more, in the JSON report" in text
    assert "10 more captures; --format json has their timelines" in text


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(broken, width):
    lines = render(broken, width=width).splitlines()
    assert max(map(len, lines)) <= width
    if width >= 80:
        assert all("decode.py" not in line or "│ │" not in line for line in lines)


def test_a_flood_of_findings_stays_readable(report_with, finding):
    text = render(report_with(tuple(finding(message=f"`x{n}` waits.") for n in range(50))))
    assert text.count("╭─ CGD101") == 20
    assert "30 more findings in the table above" in text
    assert "`x49` waits." in text


def test_processes_are_named_where_there_are_several(report_with, finding):
    processes = tuple(
        ProcessInfo(n, 100 + n, ("x.py",), Exit(0), (EvidenceSpan("python"),), host="gpu1", rank=n) for n in range(2)
    )
    text = render(report_with((finding(process=1),), processes=processes))
    assert "2 processes" in text
    assert "rank 1, pid 101, gpu1" in text
