"""JUnit XML as CI servers read it: a case per checker and per capture, and one for the run as a whole.

It satisfies the schema of Apache Ant's report, whose order of elements and required attributes are the strictest of
those in use. A case fails where the gate counts a finding, so that JUnit and the exit status never disagree.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO
from xml.etree import ElementTree as ET

from msgspec import Struct

from cudagraph_doctor.reporters.places import where
from cudagraph_doctor.reporters.unseen import unseen
from cudagraph_doctor.reporters.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_doctor.findings import CheckerState, Finding
    from cudagraph_doctor.report import CaptureInfo, Report

_NOT_XML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even as a reference (§2.2), and the C1 controls."""


class Case(Struct, frozen=True):
    """One test case: passed, failed, in error or skipped."""

    name: str
    classname: str
    state: str = "passed"
    """`passed`, `failure`, `error`, `skipped`."""
    message: str = ""
    text: str = ""


def write(report: Report, stream: TextIO) -> None:
    """Write one document."""
    root = ET.Element("testsuites")
    suites = {
        "checkers": [_checker(report, checker) for checker in report.checkers],
        "captures": [_capture(report, info) for info in report.captures],
        "gate": _gate(report),
    }
    for number, (name, cases) in enumerate(suites.items()):
        _suite(root, report, number, name, cases)
    ET.indent(root)
    stream.write('<?xml version="1.0" encoding="UTF-8"?>\n')
    stream.write(ET.tostring(root, encoding="us-ascii").decode("ascii"))
    stream.write("\n")


def _suite(root: ET.Element, report: Report, number: int, name: str, cases: Sequence[Case]) -> None:
    states = [case.state for case in cases]
    first = report.processes[0] if report.processes else None
    started = datetime.fromtimestamp((first.started if first else 0) / 1e9, tz=UTC)
    suite = ET.SubElement(
        root,
        "testsuite",
        {
            "name": f"cudagraph-doctor {name}",
            "package": "cudagraph-doctor",
            "id": str(number),
            "timestamp": started.strftime("%Y-%m-%dT%H:%M:%S"),
            "hostname": _token(first.host if first else "") or "localhost",
            "tests": str(len(cases)),
            "failures": str(states.count("failure")),
            "errors": str(states.count("error")),
            "skipped": str(states.count("skipped")),
            "time": "0",
        },
    )
    properties = ET.SubElement(suite, "properties")
    facts = {
        "target": " ".join(report.argv),
        "device": report.device.name or report.device.backend,
        "evidence": report.device.evidence,
        "verdict": verdict(report),
    }
    for key, value in facts.items():
        ET.SubElement(properties, "property", {"name": key, "value": _clean(value)})
    for case in cases:
        element = ET.SubElement(
            suite, "testcase", {"name": _token(case.name), "classname": _token(case.classname), "time": "0"}
        )
        if case.state == "passed":
            continue
        attributes = {"message": _clean(case.message)}
        if case.state != "skipped":
            attributes["type"] = case.state
        ET.SubElement(element, case.state, attributes).text = _clean(case.text)
    told = "\n".join(case.text for case in cases if case.state == "passed" and case.text)
    ET.SubElement(suite, "system-out").text = _clean(told)
    ET.SubElement(suite, "system-err").text = ""


def _checker(report: Report, checker: CheckerState) -> Case:
    classname = "cudagraph-doctor.checkers"
    if checker.state == "failed":
        why = checker.reason or "no reason given"
        return Case(checker.name, classname, "error", f"the checker failed: {why}", why)
    rules = {rule.rule for rule in checker.rules}
    found = [finding for finding in report.findings if finding.rule.id in rules]
    counting = [finding for finding in found if report.gate.counts(finding)]
    if counting:
        return Case(checker.name, classname, "failure", _headline(counting), _text(counting))
    if checker.state == "skipped":
        return Case(checker.name, classname, "skipped", checker.reason or "no reason given")
    unchecked = [rule for rule in checker.rules if not rule.checked]
    if checker.rules and len(unchecked) == len(checker.rules):
        return Case(checker.name, classname, "skipped", f"no rule could be checked: {unchecked[0].reason or '?'}")
    not_checked = [f"{rule.rule} not checked: {rule.reason or 'no reason given'}" for rule in unchecked]
    return Case(checker.name, classname, text="\n".join([_text(found), *not_checked]).strip())


def _capture(report: Report, info: CaptureInfo) -> Case:
    key = f" [{info.key}]" if info.key else ""
    several = f" in process {info.process}" if len(report.processes) > 1 else ""
    name = f"capture {info.id}{key} at {where(info.location)}{several}"
    classname = "cudagraph-doctor.captures"
    about = [f for f in report.findings if f.capture == info.id and f.process == info.process]
    counting = [finding for finding in about if report.gate.counts(finding)]
    if counting:
        return Case(name, classname, "failure", f"{info.status}: {_headline(counting)}", _text(counting))
    if info.status != "completed":
        return Case(name, classname, "skipped", f"{info.status}; no finding that fails the run concerns it")
    return Case(name, classname)


def _gate(report: Report) -> list[Case]:
    """Conditions that do not hold, findings of no checker, and a run whose status is red for another reason."""
    classname = "cudagraph-doctor.gate"
    cases = [
        Case(
            f"condition {number}",
            classname,
            "failure",
            violation.what,
            f"{where(violation.location)}: {violation.what}",
        )
        for number, violation in enumerate(report.gate.violations, 1)
    ]
    declared = {rule.rule for checker in report.checkers for rule in checker.rules}
    stray = [f for f in report.findings if f.rule.id not in declared and report.gate.counts(f)]
    if stray:
        cases.append(Case("findings", classname, "failure", _headline(stray), _text(stray)))
    code = report.gate.exit_code
    told = "\n".join([*(row.sentence for row in unseen(report)), *(notice.what for notice in report.gate.notices)])
    if code not in (None, 0, 1):
        cases.append(Case("diagnosis", classname, "error", f"exit status {code}: {report.gate.meaning}", told))
    else:
        cases.append(Case("diagnosis", classname, text=told))
    return cases


def _headline(findings: Sequence[Finding]) -> str:
    first = findings[0]
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return f"{where(first.location)}: {first.rule.id} {first.message}{more}"


def _text(findings: Sequence[Finding]) -> str:
    return "\n\n".join(
        f"{where(f.location)}: {f.rule.id} {f.rule.slug} {f.level.value} ({f.confidence.value}"
        f"{'' if f.state == 'new' else f', {f.state}'})\n{f.message}\n{f.remedy}"
        for f in findings
    )


def _clean(text: str) -> str:
    return _NOT_XML.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def _token(text: str) -> str:
    """Without line breaks and runs of blanks, as the schema's names are."""
    return " ".join(_clean(text).split())
