from __future__ import annotations

import io
import re

import hostile_reports as hostile
import pytest
import report_recordings as recorded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from cudagraph_doctor.report import Gate, Violation
from cudagraph_doctor.reporters import markdown

OURS = re.compile(r"</?(?:details|summary|code)>|&#\d+;")


def written(report) -> str:
    stream = io.StringIO()
    markdown.write(report, stream)
    return stream.getvalue()


def tokens(text: str):
    """What a Markdown parser makes of it, inline tokens too."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        yield token
        yield from token.children or ()


@pytest.mark.parametrize("name", recorded.NAMES)
def test_recorded_traces_have_a_row_a_finding(name):
    report = recorded.recorded(name)
    text = written(report)
    for finding in report.findings:
        assert f"| {finding.level.value}, {finding.confidence.value} | {finding.rule.id} " in text
        assert f"`{finding.location.file}:{finding.location.line}" in text


def test_a_whole_one(broken):
    text = written(broken)
    assert "```diff\n-        if nxt.item() == eos:\n" in text
    assert "+        done.copy_(nxt == eos)\n```" in text
    assert "- **incomplete** house_rules: failed".replace("_", r"\_") in text
    assert "then: operation failed due to a previous error during capture" in text


def test_the_verdict_follows_the_exit_status(report_with, finding):
    assert "✅" in written(report_with((finding(state="known"),), gate=Gate(exit_code=0)))
    report = report_with(gate=Gate(exit_code=1, violations=(Violation("a capture is gone"),), meaning="Findings."))
    assert "❌" in written(report)
    assert "- a capture is gone" in written(report)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_hostile_text_is_no_markup(report_with, finding, data):
    text = written(data.draw(hostile.reports(report_with, finding)))
    in_code = False
    for token in tokens(text):
        assert token.type not in ("link_open", "image", "em_open", "strong_open", "hr") or token.markup == "**"
        if token.type in ("html_inline", "html_block"):
            in_code = token.content == "<code>"
            assert not re.search("<", OURS.sub("", token.content).replace("&#60;", "")), token.content
        if token.type == "text" and not in_code:
            assert not re.search(r"@\w", token.content)


def test_a_cell_keeps_its_bars(report_with, finding):
    text = written(report_with((finding(message="`a | b` or | c"),)))
    cells = [token for token in tokens(text) if token.type == "td_open"]
    assert len(cells) == 4


def test_it_stays_below_what_a_summary_may_hold(report_with, finding):
    text = written(report_with(tuple(finding(message="x" * 50_000) for _ in range(100))))
    assert len(text.encode()) < 1024 * 1024
    assert "left out" in text
