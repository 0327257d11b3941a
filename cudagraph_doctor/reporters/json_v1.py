"""The JSON report, version 1: a shape of its own, frozen in report.schema.json beside this file.

It is built field by field on purpose: renaming a field of our dataclasses must not change what users parse.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from cudagraph_doctor.findings import CheckerState, Consequence, Finding, Location, Runs
    from cudagraph_doctor.report import CaptureInfo, Exit, Gate, Limit, ProcessInfo, Report, StatusStep, Timeline

FORMAT = "cudagraph-doctor-report"
VERSION = 1


def write(report: Report, stream: TextIO) -> None:
    """Write one JSON object and a newline. ASCII only, so that no stream's encoding can refuse it."""
    json.dump(to_dict(report), stream, indent=2, allow_nan=False)
    stream.write("\n")


def to_dict(report: Report) -> dict[str, Any]:
    """The report as plain dictionaries and lists that satisfy report.schema.json."""
    levels = [finding.level.value for finding in report.findings if finding.state != "suppressed"]
    return {
        "format": FORMAT,
        "version": VERSION,
        "tool": {"name": "cudagraph-doctor", "version": report.tool_version},
        "target": {"argv": list(report.argv), "exit": _exit(report.exit)},
        "processes": [_process(process) for process in report.processes],
        "device": {
            "backend": report.device.backend,
            "name": report.device.name,
            "driver": report.device.driver,
            "torch": report.device.torch,
            "evidence": report.device.evidence,
        },
        "captures": [_capture(capture) for capture in report.captures],
        "checkers": [_checker(checker) for checker in report.checkers],
        "findings": [_finding(finding) for finding in report.findings],
        "limits": [_limit(limit) for limit in report.limits],
        "summary": {level: levels.count(level) for level in ("error", "warning", "note")},
        "timelines": [_timeline(timeline) for timeline in report.timelines],
        "gate": _gate(report.gate),
    }


def _exit(ended: Exit) -> dict[str, Any]:
    return {
        "returncode": ended.returncode,
        "signal": ended.signal,
        "exception": ended.exception,
        "timed_out": ended.timed_out,
        "running": ended.running,
    }


def _location(place: Location | None) -> dict[str, Any] | None:
    if place is None:
        return None
    return {
        "file": place.file,
        "line": place.line,
        "end_line": place.end_line,
        "column": place.column,
        "function": place.function,
        "code": place.code,
        "note": place.note,
    }


def _process(process: ProcessInfo) -> dict[str, Any]:
    return {
        "id": process.id,
        "host": process.host,
        "pid": process.pid,
        "parent": process.parent,
        "rank": process.rank,
        "argv": list(process.argv),
        "exit": _exit(process.exit),
        "evidence": [
            {"level": span.level, "from": span.start, "to": span.end, "why": span.why} for span in process.evidence
        ],
    }


def _capture(capture: CaptureInfo) -> dict[str, Any]:
    return {
        "id": capture.id,
        "process": capture.process,
        "key": capture.key,
        "status": capture.status,
        "nodes": capture.nodes,
        "replays": capture.replays,
        "location": _location(capture.location),
    }


def _checker(checker: CheckerState) -> dict[str, Any]:
    return {
        "name": checker.name,
        "state": checker.state,
        "reason": checker.reason,
        "rules": [
            {"rule": rule.rule, "state": "ran" if rule.checked else "not_checked", "reason": rule.reason}
            for rule in checker.rules
        ],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    fix = finding.fix
    return {
        "rule": finding.rule.id,
        "slug": finding.rule.slug,
        "level": finding.level.value,
        "confidence": finding.confidence.value,
        "message": finding.message,
        "location": _location(finding.location),
        "chain": [_location(place) for place in finding.chain],
        "related": [{**(_location(place) or {}), "note": place.note or ""} for place in finding.related],
        "consequences": [_consequence(consequence) for consequence in finding.consequences],
        "remedy": finding.remedy,
        "fix": None
        if fix is None
        else {"file": fix.file, "start": fix.start, "end": fix.end, "replacement": fix.replacement},
        "aftermath": list(finding.aftermath),
        "evidence": [{"process": finding.process, "seq": seq} for seq in finding.evidence],
        "evidence_level": finding.evidence_level.value,
        "capture": finding.capture,
        "process": finding.process,
        "state": finding.state,
        "occurrences": {"count": finding.count, "first": None, "last": None},
        "suppression": None
        if finding.suppression is None
        else {"kind": finding.suppression.kind, "reason": finding.suppression.reason},
        "runs": _runs(finding.runs),
        "fingerprint": finding.fingerprint,
    }


def _runs(runs: Runs | None) -> dict[str, Any] | None:
    if runs is None:
        return None
    return {"seen": runs.seen, "of": runs.of, "low": runs.low, "high": runs.high, "flaky": runs.flaky}


def _gate(gate: Gate) -> dict[str, Any]:
    return {
        "fail_on": gate.fail_on.value if gate.fail_on is not None else None,
        "strict": gate.strict,
        "baseline": gate.baseline,
        "exit_code": gate.exit_code,
        "violations": [{"what": one.what, "location": _location(one.location)} for one in gate.violations],
        "notices": [{"what": one.what, "location": _location(one.location)} for one in gate.notices],
    }


def _consequence(consequence: Consequence) -> dict[str, Any]:
    return {
        "message": consequence.message,
        "code": consequence.code,
        "location": _location(consequence.location),
    }


def _timeline(timeline: Timeline) -> dict[str, Any]:
    return {
        "capture": timeline.capture,
        "process": timeline.process,
        "status": timeline.status,
        "thread": timeline.thread,
        "steps": [_step(step) for step in timeline.steps],
    }


def _step(step: StatusStep) -> dict[str, Any]:
    return {
        "what": step.what,
        "seq": step.seq,
        "time": step.time,
        "stream": step.stream,
        "before": step.before,
        "after": step.after,
        "call": step.call,
        "code": step.code,
        "thread": step.thread,
        "location": _location(step.location),
    }


def _limit(limit: Limit) -> dict[str, Any]:
    return {
        "what": limit.what,
        "reason": limit.reason,
        "location": _location(limit.location),
        "incomplete": limit.incomplete,
    }
