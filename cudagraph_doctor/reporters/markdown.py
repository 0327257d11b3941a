"""Markdown for a merge request's comment or a job's summary (GitHub's flavour; GitLab reads the same)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TextIO

from cudagraph_doctor.reporters.places import sources_of, where
from cudagraph_doctor.reporters.unseen import unseen
from cudagraph_doctor.reporters.verdict import captures, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding
    from cudagraph_doctor.report import Report

MOST_ROWS = 200
MOST_DETAILS = 20
MOST_CHARACTERS = 900_000
"""GitHub refuses a job summary of more than 1 MiB."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&$])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def write(report: Report, stream: TextIO) -> None:
    """Write a heading, the verdict, a table of findings, the first of them in full, and what was not checked."""
    written = 0
    for block in _blocks(report):
        if written + len(block.encode("utf-8", "replace")) > MOST_CHARACTERS:
            stream.write("\nThe rest is left out here: it would be more than a job's summary may hold.\n")
            return
        written += len(block.encode("utf-8", "replace")) + 1
        stream.write(block + "\n")


def _blocks(report: Report) -> Iterator[str]:
    good = report.gate.exit_code == 0 if report.gate.exit_code is not None else not report.findings
    yield f"## {'✅' if good else '❌'} CUDA graph captures\n"
    target = " ".join(report.argv)[:300]
    facts = f"{_code(target or '?')} · {_prose(_facts(report))} · {captures(report.captures)}"
    yield f"{_prose(verdict(report))}  \n{facts}\n"
    if report.gate.exit_code not in (None, 0) and report.gate.meaning:
        yield f"Exit status {report.gate.exit_code}: {_prose(report.gate.meaning)}\n"
    if report.gate.violations:
        yield "### Conditions not met\n"
        yield (
            "\n".join(
                f"- {_place(v.location) + ': ' if v.location else ''}{_prose(v.what)}" for v in report.gate.violations
            )
            + "\n"
        )
    new = [finding for finding in report.findings if finding.state == "new"]
    if new:
        yield "| | Rule | Where | What |\n| --- | --- | --- | --- |"
        for finding in new[:MOST_ROWS]:
            yield _row(finding)
        if len(new) > MOST_ROWS:
            yield f"\n{len(new) - MOST_ROWS:,} more findings stand in the other formats."
        yield ""
    for finding in new[:MOST_DETAILS]:
        yield from _detail(report, finding)
    rows = unseen(report)
    if rows:
        yield f"<details><summary>Not checked: {len(rows)}</summary>\n"
        for row in rows[:MOST_ROWS]:
            at = f" ({_place(row.location)})" if row.location else ""
            yield f"- {'**incomplete** ' if row.incomplete else ''}{_prose(row.sentence)}{at}"
        yield "\n</details>\n"
    if report.gate.notices:
        yield "<details><summary>To tidy up</summary>\n"
        for notice in report.gate.notices:
            yield f"- {_place(notice.location) + ': ' if notice.location else ''}{_prose(notice.what)}"
        yield "\n</details>\n"


def _facts(report: Report) -> str:
    device = report.device
    name = "simulated device" if device.backend == "sim" else device.name or "CUDA device, name unknown"
    return f"{name}, {device.evidence} evidence"


def _row(finding: Finding) -> str:
    flaky = ""
    if finding.runs is not None and finding.runs.flaky:
        flaky = f" (flaky: {finding.runs.seen} of {finding.runs.of} runs)"
    level = f"{finding.level.value}, {finding.confidence.value}"
    rule = f"{finding.rule.id} {_prose(finding.rule.slug)}"
    return f"| {level} | {rule} | {_place(finding.location)} | {_prose(finding.message)}{flaky} |"


def _detail(report: Report, finding: Finding) -> Iterator[str]:
    yield f"<details><summary>{finding.rule.id} <code>{_html(where(finding.location))}</code></summary>\n"
    code = finding.location.code if finding.location else None
    if code:
        yield _fenced(code, "python")
    yield f"{_prose(finding.message)}\n\n**Remedy:** {_prose(finding.remedy)}\n"
    if finding.fix is not None:
        yield _fenced(_change(report, finding), "diff")
    for consequence in finding.consequences:
        at = f" ({_place(consequence.location)})" if consequence.location else ""
        yield f"- then: {_prose(consequence.message)}{at}"
    yield "\n</details>\n"


def _change(report: Report, finding: Finding) -> str:
    fix = finding.fix
    assert fix is not None
    text = sources_of(report, finding.process).get(fix.source) if fix.source is not None else None
    old = text.split("\n")[max(fix.start, 1) - 1 : fix.end] if text is not None else []
    new = fix.replacement.removesuffix("\n").split("\n")
    return "\n".join([*(f"-{line}" for line in old), *(f"+{line}" for line in new)])


def _place(place: object) -> str:
    return _code(where(place))  # type: ignore[arg-type]


def _prose(text: str) -> str:
    """Foreign text as text: nothing in it is markup, a mention or a link; `backticks` stay code."""
    parts = re.split(r"(`[^`]+`)", " ".join(_CONTROL.sub(_escape, text).split()))
    return "".join(
        _code(part[1:-1]) if part.startswith("`") and part.endswith("`") and len(part) > 2 else _plain(part)
        for part in parts
    )


def _plain(text: str) -> str:
    """A backslash does not keep an `@name` from being a mention; a blank of no width does."""
    return re.sub(r"(?<=@)(?=\w)", "&#8203;", _SPECIAL.sub(r"\\\1", text))


def _code(text: str) -> str:
    """A code span that holds any text, also in a table's cell, where a bar ends the cell even in code."""
    text = " ".join(_CONTROL.sub(_escape, text).split())
    if "|" in text or "`" in text or not text:
        return f"<code>{_html(text)}</code>"
    return f"`{text}`"


def _html(text: str) -> str:
    """Text inside of HTML inside of Markdown: references, which neither of the two reads as markup."""
    text = _CONTROL.sub(_escape, text)
    return re.sub(r"[&<>\"'`*_|\\\[\]@#:~$]", lambda match: f"&#{ord(match[0])};", text)


def _fenced(text: str, language: str) -> str:
    lines = [_CONTROL.sub(_escape, line) for line in text.replace("\t", "    ").split("\n")]
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", *lines, fence, ""])


def _escape(match: re.Match[str]) -> str:
    return " " if match[0] in "\t\n\r" else match[0].encode("unicode_escape").decode()
