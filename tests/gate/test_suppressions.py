from __future__ import annotations

import json

import pytest
from gate_programs import SYNC, trace_of

from cudagraph_doctor.gate.comments import comments, covered_lines

LINE = "        n = y.sum().item()"


def commented(project, comment: str, *, source: str = SYNC) -> None:
    trace_of(source.replace(LINE, f"{LINE}  {comment}")).write(str(project / "t.jsonl"))


def report(run, *options: str) -> tuple[int, dict]:
    code, text = run("check", "t.jsonl", "--format", "json", *options)
    return code, json.loads(text)


@pytest.mark.parametrize(
    "comment",
    [
        "# cudagraph-doctor: ignore[CGD101] the debug build reads it",
        "#cudagraph-doctor:ignore[ CGD113 , cgd101 ]",
        "# cudagraph-doctor: ignore[host-sync-in-capture]",
        "# cudagraph-doctor: ignore[CGD1] until=2999-01-31 a ticket",
        "# noqa: E501  # cudagraph-doctor: ignore[CGD101]",
    ],
)
def test_a_comment_accepts_the_finding_of_its_line(project, run, comment):
    commented(project, comment)
    code, found = report(run)
    assert code == 0
    assert [f["state"] for f in found["findings"] if f["rule"] == "CGD101"] == ["suppressed"]
    assert found["gate"]["violations"] == []
    assert found["gate"]["notices"] == []


def test_the_reason_is_kept(project, run):
    commented(project, "# cudagraph-doctor: ignore[CGD101] the debug build reads it")
    _code, found = report(run)
    assert found["findings"][0]["suppression"] == {"kind": "inline", "reason": "the debug build reads it"}


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("# cudagraph-doctor: ignore[CGD1O1]", "did you mean CGD101"),
        ("# cudagraph-doctor: ignore[]", "it names no code"),
        ("# cudagraph-doctor: ignore", "not understood"),
        ("# cudagraph-doctor: ignroe[CGD101]", "not understood"),
        ("# cudagraph-doctor: ignore[CGD101] until=tomorrow", "is no date"),
    ],
)
def test_a_comment_that_does_nothing_fails_the_run_and_says_why(project, run, comment, said):
    commented(project, comment)
    code, found = report(run, "--fail-on", "never")
    assert code == 1
    (violation,) = found["gate"]["violations"]
    assert said in violation["what"]
    assert violation["location"]["line"] == 8


def test_an_expired_one_suppresses_nothing(project, run):
    commented(project, "# cudagraph-doctor: ignore[CGD101] until=2020-01-31 a ticket")
    code, found = report(run)
    assert code == 1
    assert [notice["what"] for notice in found["gate"]["notices"]] == [
        "the suppression of CGD101 expired on 2020-01-31"
    ]


def test_one_that_is_not_needed_is_told(project, run):
    commented(project, "# cudagraph-doctor: ignore[CGD101,CGD102]")
    assert report(run)[1]["gate"]["notices"] == []
    source = SYNC.replace(LINE, "        n = y.sum()  # cudagraph-doctor: ignore[CGD101]")
    trace_of(source).write(str(project / "t.jsonl"))
    (notice,) = report(run)[1]["gate"]["notices"]
    assert (notice["what"], notice["location"]["line"]) == ("the suppression of CGD101 is not needed", 8)
    assert report(run, "--ignore", "CGD101")[1]["gate"]["notices"] == []


def test_another_rule_is_not_accepted(project, run):
    commented(project, "# cudagraph-doctor: ignore[CGD102]")
    assert report(run)[0] == 1


def test_a_string_is_no_comment():
    assert comments('x = "# cudagraph-doctor: ignore[CGD101]"\n') == []
    assert [
        c.line for c in comments('x = 1\ny = 2  # cudagraph-doctor: ignore[CGD101]\n"""\n# cudagraph-doctor: z\n"""')
    ] == [2]


def test_text_that_is_cut_or_no_python_is_still_read():
    assert [c.codes for c in comments("def f(:\n  (  # cudagraph-doctor: ignore[CGD101]\n")] == [("CGD101",)]
    assert list(covered_lines("def f(:\n", 1)) == [1]


@pytest.mark.parametrize(
    ("line", "lines"), [(1, [1, 2, 3]), (3, [1, 2, 3]), (4, [4]), (5, [5, 6]), (7, [7]), (40, [40])]
)
def test_lines_of_a_statement(line, lines):
    source = "f(\n  a,\n  b)\nif x:\n  y = (1 +\n    2)\n  z = 3\n"
    assert list(covered_lines(source, line)) == lines
