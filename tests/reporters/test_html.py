from __future__ import annotations

import io
import re
from html.parser import HTMLParser

import hostile_reports as hostile
import pytest
import report_recordings as recorded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudagraph_doctor.findings import Location
from cudagraph_doctor.report import Gate, Violation
from cudagraph_doctor.reporters import html

TAGS = frozenset(
    [
        "html",
        "head",
        "meta",
        "link",
        "title",
        "style",
        "body",
        "a",
        "header",
        "p",
        "h1",
        "h2",
        "code",
        "strong",
        "ul",
        "ol",
        "li",
        "button",
        "main",
        "section",
        "div",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "details",
        "summary",
        "span",
        "b",
        "dl",
        "dt",
        "dd",
        "pre",
        "mark",
        "del",
        "ins",
        "fieldset",
        "legend",
        "label",
        "input",
        "figure",
        "figcaption",
        "script",
    ]
)
ATTRIBUTES = frozenset(
    [
        "lang",
        "charset",
        "name",
        "content",
        "http-equiv",
        "rel",
        "href",
        "class",
        "id",
        "type",
        "aria-pressed",
        "aria-label",
        "tabindex",
        "role",
        "open",
        "scope",
        "colspan",
        "data-level",
        "checked",
        "disabled",
    ]
)


class Page(HTMLParser):
    """Refuses every tag and attribute that is not ours."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self.open: list[str] = []
        self.scripts = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS, tag
        assert {name for name, _value in attrs} <= ATTRIBUTES, attrs
        assert dict(attrs).get("href") in (None, "data:,", "#findings")
        self.scripts += tag == "script"
        if tag not in ("meta", "link", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)


def written(report) -> str:
    stream = io.StringIO()
    html.write(report, stream)
    page = Page(stream.getvalue())
    assert page.open == []
    assert page.scripts == 1
    style = stream.getvalue().partition("<style>")[2].partition("</style>")[0]
    assert not re.search(r"(?i)https?://|url\(|@import", style)
    return "".join(page.text)


@pytest.mark.parametrize("name", recorded.NAMES)
def test_recorded_traces(name):
    report = recorded.recorded(name)
    text = written(report)
    for finding in report.findings:
        assert finding.rule.id in text
        assert f"{finding.location.file}:{finding.location.line}" in text
    for info in report.captures:
        assert f"{info.location.file}:{info.location.line}" in text
    assert "Not checked" in text


def test_a_whole_one(broken):
    text = written(broken)
    for said in ("CGD101 host-sync-in-capture", "if nxt.item() == eos:", "done.copy_(nxt == eos)", "torch/_tensor.py:1012",
                 "operation failed due to a previous error", "house_rules", "needs driver evidence"):  # fmt: skip
        assert said in text


def test_the_gate(report_with, finding):
    report = report_with(
        (finding(state="known"),),
        gate=Gate(exit_code=1, meaning="A gate.", violations=(Violation("a capture is gone"),)),
    )
    text = written(report)
    assert "Red: " in text
    assert "a capture is gone" in text
    assert "Green: " in written(report_with(gate=Gate(exit_code=0, meaning="Clean.")))


def test_heat_counts_roles(report_with, finding):
    from cudagraph_doctor.reporters.html.heat import heat_of

    place = Location("lib.py", 7)
    report = report_with((finding(count=3, chain=(place,)), finding(location=place), finding(location=None)))
    assert heat_of(report) == {("decode.py", 9): {"cause": 3}, ("lib.py", 7): {"through": 3, "cause": 1}}


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_hostile_text_is_no_markup(report_with, finding, data):
    written(data.draw(hostile.reports(report_with, finding)))


def test_ten_thousand_findings_stay_a_page(report_with, finding):
    stream = io.StringIO()
    html.write(report_with(tuple(finding(message=f"`x{n}` waits.") for n in range(10_000))), stream)
    assert len(stream.getvalue()) < 12_000_000
    assert "x9999" in stream.getvalue()
