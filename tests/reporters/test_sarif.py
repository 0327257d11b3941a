from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import hostile_reports as hostile
import jsonschema
import pytest
import report_recordings as recorded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from cudagraph_doctor.findings import Suppression
from cudagraph_doctor.report import Gate, Roots, Violation
from cudagraph_doctor.reporters import sarif

SCHEMA = json.loads((Path(__file__).parent / "schemas" / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
VALID = jsonschema.validators.validator_for(SCHEMA)(SCHEMA)


def written(report) -> dict:
    stream = io.StringIO()
    sarif.write(report, stream)
    assert stream.getvalue().isascii()
    log = json.loads(stream.getvalue())
    errors = [f"{error.json_path}: {error.message[:200]}" for error in VALID.iter_errors(log)]
    assert errors == []
    (run,) = log["runs"]
    return run


@pytest.mark.parametrize("name", recorded.NAMES)
def test_recorded_traces_validate_and_name_their_lines(name):
    report = recorded.recorded(name)
    run = written(report)
    assert [result["ruleId"] for result in run["results"]] == [finding.rule.id for finding in report.findings]
    for result, finding in zip(run["results"], report.findings, strict=True):
        rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
        assert rule["id"] == finding.rule.id
        assert rule["help"]["markdown"] == finding.rule.text
        region = result["locations"][0]["physicalLocation"]["region"]
        assert region["startLine"] == finding.location.line


def test_the_column_is_that_of_the_call():
    (result,) = written(recorded.recorded("python/item_eos_check"))["results"]
    physical = result["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "item_eos_check.py", "uriBaseId": "%SRCROOT%"}
    region = physical["region"]
    assert (region["startColumn"], region["endColumn"]) == (8, 18)
    assert region["snippet"]["text"][3:13] == "nxt.item()"


def test_a_finding_with_everything(broken):
    first, second = written(broken)["results"]
    (flow,) = first["codeFlows"]
    told = [step["location"]["message"]["text"] for step in flow["threadFlows"][0]["locations"]]
    assert told[0].startswith("`nxt.item()` waits")
    assert told[1:3] == ["calls Tensor.item", "calls aten::_local_scalar_dense"]
    assert [text.startswith("then:") for text in told[3:]] == [True, True, True]
    assert first["partialFingerprints"] == {"cudagraphDoctor/v1": "0123456789abcdef"}
    replacement = first["fixes"][0]["artifactChanges"][0]["replacements"][0]
    assert replacement["deletedRegion"] == {"startLine": 9, "startColumn": 1, "endLine": 10, "endColumn": 24}
    assert first["relatedLocations"][0]["message"]["text"] == "the capture began here"
    assert second["occurrenceCount"] == 12
    assert second["rank"] < first["rank"]


def test_what_was_not_checked_is_a_notification(broken):
    (invocation,) = written(broken)["invocations"]
    assert invocation["executionSuccessful"] is False
    told = [(n["descriptor"]["id"], n["message"]["text"]) for n in invocation["toolExecutionNotifications"]]
    assert ("incomplete", "house_rules: failed: KeyError: 'x' in house_rules 1.2 of acme-checks") in told
    told = [n["message"]["text"] for n in invocation["toolConfigurationNotifications"]]
    assert "CGD104 CGD105: not checked: needs driver evidence" in told
    assert "compiled: skipped: torch.compile was not used" in told


def test_known_and_suppressed_findings_are_suppressed_results(report_with, finding):
    report = report_with(
        (
            finding(),
            finding(state="known"),
            finding(state="suppressed", suppression=Suppression("inline", "by design")),
        ),
        gate=Gate(baseline="base.json"),
    )
    new, known, suppressed = written(report)["results"]
    assert (new["baselineState"], new["suppressions"]) == ("new", [])
    assert (known["baselineState"], known["suppressions"][0]["kind"]) == ("unchanged", "external")
    assert suppressed["suppressions"] == [{"kind": "inSource", "status": "accepted", "justification": "by design"}]


def test_the_gate_stands_in_the_invocation(report_with):
    report = report_with(gate=Gate(violations=(Violation("a capture is gone"),), exit_code=1, meaning="Findings."))
    (invocation,) = written(report)["invocations"]
    assert (invocation["exitCode"], invocation["exitCodeDescription"]) == (1, "Findings.")
    (told,) = invocation["toolExecutionNotifications"]
    assert (told["level"], told["message"]["text"]) == ("error", "a capture is gone")


@pytest.mark.parametrize(
    ("file", "artifact"),
    [
        ("a b/ü.py", {"uri": "sub/a%20b/%C3%BC.py", "uriBaseId": "%SRCROOT%"}),
        ("site:torch/_tensor.py", {"uri": "torch/_tensor.py", "uriBaseId": "PACKAGES"}),
        ("/opt/x.py", {"uri": "file:///opt/x.py"}),
        ("C:\\x\\y.py", {"uri": "file:///C:/x/y.py"}),
        ("b\udcff.py", {"uri": "sub/b%FF.py", "uriBaseId": "%SRCROOT%"}),
    ],
)
def test_where_files_are(report_with, finding, file, artifact):
    place = structs.replace(report_with(), roots=Roots("/repo/sub", "/repo"))
    location = dataclasses.replace(finding().location, file=file)
    (result,) = written(structs.replace(place, findings=(finding(location=location),)))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == artifact


def test_brackets_are_no_links(report_with, finding):
    (result,) = written(report_with((finding(message="`f[0](x)` waits"),)))["results"]
    assert r"f\[0](x)" in result["message"]["text"]


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_hostile_text_validates(report_with, finding, data):
    written(data.draw(hostile.reports(report_with, finding)))


def test_ten_thousand_findings(report_with, finding):
    many = tuple(finding(message=f"`x{n}` waits.") for n in range(10_000))
    stream = io.StringIO()
    sarif.write(report_with(many), stream)
    assert len(json.loads(stream.getvalue())["runs"][0]["results"]) == 10_000
