from __future__ import annotations

import pytest
from msgspec import structs

from cudagraph_doctor.gate.repeat import combine, wilson
from cudagraph_doctor.report import Exit, Gate, Notice, Violation
from cudagraph_doctor.testing import diagnose_trace


@pytest.fixture
def broken(project):
    return diagnose_trace("broken.jsonl")


@pytest.fixture
def clean(project):
    return diagnose_trace("clean.jsonl")


def test_a_finding_of_some_runs_is_flaky(broken, clean):
    report = combine([clean, broken, clean, clean])
    (sync,) = [finding for finding in report.findings if finding.rule.id == "CGD101"]
    assert (sync.runs.seen, sync.runs.of, sync.runs.flaky) == (1, 4, True)
    assert (round(sync.runs.low, 3), round(sync.runs.high, 3)) == (0.046, 0.699)
    assert report.processes[sync.process].id == sync.process == 1
    assert len(report.captures) == 4
    assert [capture.process for capture in report.captures] == [0, 1, 2, 3]


def test_a_finding_of_every_run_is_not(broken):
    report = combine([broken, broken])
    assert [f.runs.flaky for f in report.findings] == [False] * len(report.findings)
    assert len([f for f in report.findings if f.rule.id == "CGD101"]) == 1
    assert not combine([broken]).findings[0].runs.flaky


def test_the_worst_of_the_runs_stands(clean):
    crashed = structs.replace(clean, exit=Exit(signal="SIGSEGV"))
    assert combine([clean, crashed]).exit.signal == "SIGSEGV"
    failed = structs.replace(clean.checkers[0], state="failed", reason="x")
    worse = structs.replace(clean, checkers=(failed, *clean.checkers[1:]))
    assert combine([clean, worse, clean]).checkers[0].state == "failed"
    gone = structs.replace(clean, gate=Gate(violations=(Violation("gone"),), notices=(Notice("here"),)))
    combined = combine([clean, gone])
    assert [v.what for v in combined.gate.violations] == ["gone"]
    assert combined.gate.notices == ()


@pytest.mark.parametrize(
    ("seen", "of", "low", "high"),
    [(0, 10, 0.0, 0.278), (10, 10, 0.722, 1.0), (5, 10, 0.237, 0.763), (1, 1, 0.207, 1.0)],
)
def test_the_interval_is_wilsons(seen, of, low, high):
    """Reference values: Wilson's score interval without continuity correction, as in Newcombe (1998)."""
    assert [round(end, 3) for end in wilson(seen, of)] == [low, high]
