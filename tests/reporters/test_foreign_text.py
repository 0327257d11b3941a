"""Other people's text is shown as it is, and never obeyed."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from cudagraph_doctor.findings import Consequence, Fix, Location
from cudagraph_doctor.report import Exit, Limit
from cudagraph_doctor.reporters import table
from cudagraph_doctor.reporters.table.foreign import visible
from cudagraph_doctor.reporters.table.wording import ended

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def render(report, **options) -> str:
    stream = io.StringIO()
    table.write(report, stream, **options)
    return stream.getvalue()


def one_line_report(report_with, finding, line: str, **location):
    return report_with((finding(location=Location("a.py", 1, source=1, **location)),), source=line)


@pytest.mark.parametrize(
    "line",
    [
        "x = t[:, [0, 3]]  # [bold red]not markup[/bold red] [/] [link=file:///etc]",
        "print(':warning: no emoji')",
        "上下文 = 模型(输入)  # 中文",
        "שלום = tensor.item()  # مرحبا",
        "x = '\N{ZERO WIDTH JOINER}👩‍💻 e\N{COMBINING ACUTE ACCENT}'",
        "rich = f'{x!r:>10}' # `ticks` and ``` fences",
    ],
)
def test_a_source_line_is_shown_as_it_is(report_with, finding, line):
    assert line in render(one_line_report(report_with, finding, line), width=100)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("a\x1b[31mred\x1b[0m", r"a\x1b[31mred\x1b[0m"),
        ("bell\x07 and \x9b1m", r"bell\x07 and \x9b1m"),
        ("if access \u202e }\u2066 # \u2069", "if access \\u202e }\\u2066 # \\u2069"),
        ("one\u2028two", r"one\u2028two"),
        ("broken \udce4 byte", r"broken \udce4 byte"),
        ("\titem = x\ty", "        item = x        y"),
    ],
)
def test_control_characters_are_made_visible(report_with, finding, line, shown):
    assert visible(line) == shown
    assert shown in render(one_line_report(report_with, finding, line))


@pytest.mark.parametrize("color", [False, True])
def test_a_line_of_500_columns_is_whole_and_folded(report_with, finding, color):
    line = "x = [" + ", ".join(f"name_{n}" for n in range(55)) + "]"
    text = render(one_line_report(report_with, finding, line), color=color, width=80)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert "".join(re.sub(r"[│▸\s]|^1", "", row) for row in plain.splitlines()).count(line.replace(" ", "")) == 1
    assert max(cell_len(row) for row in plain.splitlines()) <= 80


def test_a_line_of_a_megabyte_is_cut_and_says_so(report_with, finding):
    text = render(one_line_report(report_with, finding, "x" * 1_000_000))
    assert "998,800morecharacters" in re.sub(r"[│\s]", "", text)
    assert len(text) < 10_000


def test_columns_are_counted_in_utf8_and_drawn_in_cells(report_with, finding):
    line = "张量 = 甲.item()"
    start = len("张量 = ".encode())
    end = len(line.encode())
    text = render(one_line_report(report_with, finding, line, column=start, end_column=end))
    rows = text.splitlines()
    code = next(row for row in rows if line in row)
    under = rows[rows.index(code) + 1]
    assert cell_len(under[: under.index("▔")]) == cell_len(code[: code.index("甲")])
    assert under.count("▔") == cell_len("甲.item()")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.characters(codec=None, exclude_categories=()), min_size=1, max_size=200),
    line=st.integers(-(2**70), 2**70),
    column=st.integers(-10, 2**40),
    width=st.integers(1, 200),
    color=st.booleans(),
)
def test_no_text_breaks_the_report(report_with, finding, text, line, column, width, color):
    place = Location(text, line, line + 3, column, column + 5, text, text, text, 1)
    report = report_with(
        (
            finding(
                message=text,
                remedy=text,
                location=place,
                chain=(place, place),
                related=(place,),
                consequences=(Consequence(text, text, place),),
                fix=Fix(text, line, line + 2, text, 1),
                aftermath=(text,),
            ),
            finding(location=Location(text, 1, 1, column, column + 2, source=1)),
        ),
        source=text,
        argv=(text,),
        exit=Exit(exception=text),
        limits=(Limit(text, text, place),),
    )
    shown = render(report, width=width, color=color)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown) if color else shown
    assert not CONTROL.search(plain)
    shown.encode("utf-8")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "gbk", "utf-8"])
def test_any_encoding_of_the_stream_is_enough(broken, finding, report_with, encoding):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="strict", newline="\n")
    table.write(report_with((finding(message="输出 é → `x`"),)), stream)
    stream.flush()
    text = raw.getvalue().decode(encoding)
    assert "CGD101 host-sync-in-capture" in text
    if encoding == "ascii":
        assert r"\u8f93\u51fa \xe9 \u2192" in text
        assert "+- CGD101" in text


def test_a_hostile_signal_name_reaches_no_terminal():
    assert ended(Exit(signal="\x1b[31mRED\x00")).isprintable()
