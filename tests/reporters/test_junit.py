from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree as ET

import hostile_reports as hostile
import pytest
import report_recordings as recorded
import xmlschema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudagraph_doctor.report import CaptureInfo, Exit, Gate, Violation
from cudagraph_doctor.reporters import junit

SCHEMA = xmlschema.XMLSchema(Path(__file__).parent / "schemas" / "junit.xsd")


def written(report) -> dict[str, ET.Element]:
    """The test cases by name, of a document that the schema accepts."""
    stream = io.StringIO()
    junit.write(report, stream)
    assert [str(error.reason) for error in SCHEMA.iter_errors(stream.getvalue())] == []
    root = ET.fromstring(stream.getvalue())
    for suite in root:
        cases = suite.findall("testcase")
        for name in ("failure", "error", "skipped"):
            plural = {"failure": "failures", "error": "errors"}.get(name, name)
            assert int(suite.get(plural)) == sum(case.find(name) is not None for case in cases)
        assert int(suite.get("tests")) == len(cases)
    return {case.get("name"): case for case in root.iter("testcase")}


def states(cases) -> dict[str, str]:
    return {name: case[0].tag if len(case) else "passed" for name, case in cases.items()}


@pytest.mark.parametrize("name", recorded.NAMES)
def test_recorded_traces_have_a_case_per_checker_and_per_capture(name):
    report = recorded.recorded(name)
    cases = written(report)
    assert {checker.name for checker in report.checkers} <= set(cases)
    assert sum(name.startswith("capture ") for name in cases) == len(report.captures)
    red = any(report.gate.counts(finding) for finding in report.findings)
    assert ("failure" in states(cases).values()) == red


def test_a_failing_checker_names_line_and_rule():
    case = written(recorded.recorded("python/item_eos_check"))["capture_status"]
    assert case[0].tag == "failure"
    assert case[0].get("message").startswith("item_eos_check.py:24 in decode_step: CGD101 `nxt.item()` waits")


def test_states(broken):
    told = states(written(broken))
    assert (told["capture_status"], told["house_rules"], told["compiled"]) == ("failure", "error", "skipped")
    assert told["capture 1 at decode.py:6"] == "failure"
    assert told["capture 2 [batch=4] at decode.py:6"] == "passed"


def test_what_fails_no_run_fails_no_case(report_with, finding):
    report = report_with(
        (finding(state="known", capture=1), finding(state="suppressed", capture=1)),
        captures=(CaptureInfo(1, 0, "completed", 1, None), CaptureInfo(2, 0, "failed", 0, None)),
    )
    told = states(written(report))
    assert "failure" not in told.values()
    assert told["capture 2 at no Python line"] == "skipped"


def test_a_red_status_without_a_finding_is_an_error(report_with):
    report = report_with(exit=Exit(1), gate=Gate(exit_code=7, meaning="The target crashed."))
    case = written(report)["diagnosis"]
    assert (case[0].tag, case[0].get("message")) == ("error", "exit status 7: The target crashed.")


def test_a_condition_of_the_gate_is_a_failure(report_with):
    report = report_with(gate=Gate(violations=(Violation("a capture is gone"),), exit_code=1))
    assert states(written(report))["condition 1"] == "failure"


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_hostile_text_is_well_formed(report_with, finding, data):
    written(data.draw(hostile.reports(report_with, finding)))


def test_ten_thousand_findings(report_with, finding):
    many = tuple(finding(message=f"`x{n}` waits.") for n in range(10_000))
    assert written(report_with(many))["capture_status"][0].text.count("CGD101") == 10_000
