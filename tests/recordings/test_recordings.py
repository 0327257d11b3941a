"""Every trace that was recorded on a GPU gives the finding that its script's header demands, on any machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cudagraph_doctor.engine.run import diagnose
from cudagraph_doctor.findings import Confidence, Severity

TRACES = Path(__file__).parents[2] / "fixtures" / "traces"


def recordings():
    for index in sorted(TRACES.glob("*/expected.json")):
        for name, truth in json.loads(index.read_text(encoding="utf-8")).items():
            yield pytest.param(index.parent / f"{name}.jsonl.gz", truth, id=f"{index.parent.name}-{name}")


@pytest.mark.parametrize(("trace", "truth"), list(recordings()))
def test_recorded_trace_gives_its_finding(trace, truth):
    report = diagnose([trace])
    assert [checker for checker in report.checkers if checker.state == "failed"] == []
    loud = [f for f in report.findings if f.level is not Severity.NOTE or truth["level"] == "note"]
    if not truth["rules"]:
        assert [(f.rule.id, f.message) for f in loud] == []
        return
    assert loud, truth["expect"]
    first = loud[0]
    assert first.rule.id in truth["rules"], first.message
    if truth["places"]:
        assert first.location is not None
        assert [Path(first.location.file).name, first.location.line] in truth["places"]
    others = [f for f in loud[1:] if f.level is Severity.ERROR and f.rule.id not in truth["rules"]]
    assert [(f.rule.id, f.message) for f in others] == []


UNRECORDED = {
    "CGD406": "no recorder tells yet who holds a graph's outputs",
    "CGD408": "no recorder on a GPU tells yet who works on a graph's memory between replays",
    "CGD503": "torch lets the launch pass and the driver refuses the instantiation, which no checker ties to it yet",
    "CGD504": "no script with a cooperative launch has run on a GPU yet",
}
"""Rules that no recording fires, and why. A line goes when its recording comes."""


def test_every_rule_has_a_recording_that_fires_it():
    report = diagnose(sorted(TRACES.glob("*/*.jsonl.gz")))
    fired = {finding.rule.id for finding in report.findings}
    rules = {rule.rule for checker in report.checkers for rule in checker.rules}
    assert rules - fired == set(UNRECORDED)


def test_recordings_name_no_machine():
    import gzip

    for trace in TRACES.glob("*/*.jsonl.gz"):
        with gzip.open(trace, "rt", encoding="utf-8") as file:
            header = json.loads(file.readline())
        assert not header.get("host")
        assert "config" not in header or header["config"] == {}


def test_driver_evidence_proves_the_cause():
    reports = [diagnose([trace]) for trace in sorted(TRACES.glob("driver/*.jsonl.gz"))]
    seen = [report for report in reports if report.device.evidence == "driver"]
    assert len(seen) >= len(reports) - 2  # two cases do without torch, and so without CUPTI
    assert [f.message for report in seen for f in report.findings if f.confidence is not Confidence.PROVEN] == []
