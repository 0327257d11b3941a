from __future__ import annotations

import io
import json
from importlib.resources import files

import jsonschema
import pytest

from cudagraph_doctor.report import Exit
from cudagraph_doctor.reporters import json_v1


@pytest.fixture(scope="module")
def schema():
    text = files("cudagraph_doctor.reporters").joinpath("report.schema.json").read_text(encoding="utf-8")
    return json.loads(text)


def written(report) -> dict:
    stream = io.StringIO()
    json_v1.write(report, stream)
    assert stream.getvalue().isascii()
    return json.loads(stream.getvalue())


def test_a_clean_report_satisfies_the_schema(clean, schema):
    jsonschema.validate(written(clean), schema)


def test_a_full_report_satisfies_the_schema(broken, schema):
    jsonschema.validate(written(broken), schema)


def test_a_running_target_satisfies_the_schema(report_with, finding, schema):
    report = report_with((finding(location=None),), exit=Exit(running=True), captures=())
    jsonschema.validate(written(report), schema)
    assert written(report)["target"]["exit"]["returncode"] is None


def test_everything_a_finding_says_is_there(broken):
    first, second = written(broken)["findings"]
    assert first["rule"] == "CGD101"
    assert first["location"] == {
        "file": "decode.py",
        "line": 9,
        "end_line": 9,
        "column": 11,
        "function": "generate",
        "code": "if nxt.item() == eos:",
        "note": None,
    }
    assert first["fix"] == {
        "file": "decode.py",
        "start": 9,
        "end": 10,
        "replacement": "        done.copy_(nxt == eos)\n",
    }
    assert first["consequences"][0]["code"] == 901
    assert first["evidence"] == [{"process": 0, "seq": 410}, {"process": 0, "seq": 412}]
    assert first["related"][0]["note"] == "the capture began here"
    assert second["occurrences"]["count"] == 12
    assert second["confidence"] == "likely"


def test_not_checked_is_not_clean(broken):
    checkers = {checker["name"]: checker for checker in written(broken)["checkers"]}
    assert checkers["house_rules"]["state"] == "failed"
    assert checkers["capture_status"]["rules"][1] == {
        "rule": "CGD105",
        "state": "not_checked",
        "reason": "needs driver evidence",
    }


def test_suppressed_findings_are_listed_but_not_counted(report_with, finding):
    data = written(report_with((finding(), finding(state="suppressed"))))
    assert len(data["findings"]) == 2
    assert data["summary"] == {"error": 1, "warning": 0, "note": 0}


def test_text_that_no_encoding_can_write_is_escaped(report_with, finding):
    assert written(report_with((finding(message="bad \udcff byte"),)))["findings"][0]["message"] == "bad \udcff byte"
