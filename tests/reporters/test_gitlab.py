"""GitLab publishes no schema: these are the fields of its documentation ("Code Quality report format")."""

from __future__ import annotations

import io
import json

import hostile_reports as hostile
import jsonschema
import pytest
import report_recordings as recorded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudagraph_doctor.report import Gate, Roots, Violation
from cudagraph_doctor.reporters import gitlab

DOCUMENTED = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "additionalProperties": False,
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "minLength": 1, "pattern": "^(?!\\./|/)"},
                    "lines": {"required": ["begin"], "properties": {"begin": {"type": "integer", "minimum": 1}}},
                },
            },
        },
    },
}


def written(report) -> list[dict]:
    stream = io.StringIO()
    gitlab.write(report, stream)
    issues = json.loads(stream.getvalue())
    jsonschema.validate(issues, DOCUMENTED)
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    return issues


@pytest.mark.parametrize("name", recorded.NAMES)
def test_recorded_traces_name_their_lines(name):
    report = recorded.recorded(name)
    told = [(i["check_name"], i["location"]["path"], i["location"]["lines"]["begin"]) for i in written(report)]
    found = [(f.rule.id, f.location.file, f.location.line) for f in report.findings if f.location]
    assert told[: len(found)] == found


def test_levels_and_states(report_with, finding):
    report = report_with((finding(), finding(), finding(state="known"), finding(state="suppressed")))
    assert [issue["severity"] for issue in written(report)] == ["critical", "critical"]
    report = report_with((finding(),), gate=Gate(fail_on=None))
    assert [issue["severity"] for issue in written(report)] == ["info"]


def test_without_a_line_the_script_is_named(report_with, finding):
    report = report_with((finding(location=None),), argv=("sub/decode.py",), roots=Roots("/repo", "/repo"))
    assert written(report)[0]["location"] == {"path": "sub/decode.py", "lines": {"begin": 1}}


def test_what_was_not_checked_and_the_gate_are_issues(broken, report_with):
    told = {issue["description"]: issue["severity"] for issue in written(broken)}
    assert told["CGD104 CGD105: not checked: needs driver evidence"] == "info"
    assert told["house_rules: failed: KeyError: 'x' in house_rules 1.2 of acme-checks"] == "major"
    report = report_with(gate=Gate(violations=(Violation("a capture is gone"),), exit_code=4, meaning="Incomplete."))
    assert [(i["description"], i["severity"]) for i in written(report)] == [
        ("a capture is gone", "critical"),
        ("Incomplete.", "critical"),
    ]


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_hostile_text(report_with, finding, data):
    written(data.draw(hostile.reports(report_with, finding)))
