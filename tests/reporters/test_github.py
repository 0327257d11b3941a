from __future__ import annotations

import io
import re

import hostile_reports as hostile
import pytest
import report_recordings as recorded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudagraph_doctor.findings import Confidence, Location
from cudagraph_doctor.report import Gate, Roots, Violation
from cudagraph_doctor.reporters import github

COMMAND = re.compile(r"::(error|warning|notice)(?: ((?:\w+=[^,:]*)(?:,\w+=[^,:]*)*))?::(.*)")


def written(report) -> list[tuple[str, dict[str, str], str]]:
    """The commands; every other line starts no command."""
    stream = io.StringIO()
    github.write(report, stream)
    commands = []
    for line in stream.getvalue().split("\n"):
        match = COMMAND.fullmatch(line)
        if match is None:
            assert not line.lstrip().startswith(("::", "##[")), line
        else:
            commands.append(
                (match[1], dict(part.split("=", 1) for part in (match[2] or "").split(",") if part), match[3])
            )
    return commands


@pytest.mark.parametrize("name", recorded.NAMES)
def test_recorded_traces_are_annotated_at_their_lines(name):
    report = recorded.recorded(name)
    told = [properties for _name, properties, _text in written(report) if "file" in properties]
    found = [(f.location.file, str(f.location.line)) for f in report.findings if f.location][: github.MOST_ANNOTATIONS]
    assert [(properties["file"], properties["line"]) for properties in told[: len(found)]] == found


def test_an_annotation():
    name, properties, text = written(recorded.recorded("python/item_eos_check"))[0]
    assert name == "error"
    assert properties == {
        "file": "item_eos_check.py",
        "line": "24",
        "endLine": "24",
        "col": "8",
        "endColumn": "18",
        "title": "CGD101 host-sync-in-capture (proven)",
    }
    assert text.startswith("`nxt.item()` waits")
    assert "%0A" in text


def test_the_first_ten_are_annotations_and_the_rest_lines(report_with, finding):
    many = tuple(finding(message=f"`x{n}` waits.") for n in range(25))
    stream = io.StringIO()
    github.write(report_with(many), stream)
    assert stream.getvalue().count("::error") == 10
    assert "`x24` waits." in stream.getvalue()
    summary = io.StringIO()
    github.step_summary(report_with(many), summary)
    assert "`x24` waits." in summary.getvalue()


def test_what_was_not_checked_is_a_notice(broken):
    commands = written(broken)
    (notice,) = [
        text for name, properties, text in commands if name == "notice" and "not checked" in properties["title"]
    ]
    assert "CGD104 CGD105: not checked: needs driver evidence" in notice
    warned = [text for name, properties, text in commands if "not seen" in properties.get("title", "")]
    assert any("house_rules: failed" in text for text in warned)


def test_known_findings_are_not_annotated(report_with, finding):
    assert written(report_with((finding(state="known"), finding(state="suppressed")))) == []


def test_a_file_outside_the_repository_is_named_in_the_text(report_with, finding):
    place = Location("/opt/lib/x.py", 4)
    report = report_with((finding(location=place),), roots=Roots("/repo", "/repo"))
    ((_name, properties, text),) = written(report)
    assert "file" not in properties
    assert text.startswith("/opt/lib/x.py:4: ")


def test_the_gate(report_with):
    report = report_with(gate=Gate(violations=(Violation("a capture is gone", Location("a.py", 3)),), exit_code=1))
    ((name, properties, text),) = written(report)
    assert (name, properties["file"], text) == ("error", "a.py", "a capture is gone")
    ((name, _properties, text),) = written(report_with(gate=Gate(exit_code=5, meaning="No capture was begun.")))
    assert (name, text) == ("error", "No capture was begun.")


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_hostile_text_makes_no_command(report_with, finding, data):
    report = data.draw(hostile.reports(report_with, finding))
    for _name, properties, _text in written(report):
        assert set(properties) <= {"file", "line", "endLine", "col", "endColumn", "title"}


def test_possible_findings_come_last(report_with, finding):
    sure, unsure = finding(message="sure"), finding(message="unsure", confidence=Confidence.POSSIBLE)
    assert [text.partition("%")[0] for _n, _p, text in written(report_with((sure, unsure)))] == ["sure", "unsure"]
