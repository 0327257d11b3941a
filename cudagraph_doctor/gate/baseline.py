"""The baseline: what is known, counted, in a file that people read in a diff."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from cudagraph_doctor.errors import OutputError, UsageError
from cudagraph_doctor.findings import fingerprint
from cudagraph_doctor.gate.fingerprints import identity
from cudagraph_doctor.gate.graph_facts import GraphFacts, RunGraphs
from cudagraph_doctor.report import Notice

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_doctor.findings import Finding
    from cudagraph_doctor.report import Report

FORMAT = "cudagraph-doctor-baseline"
VERSION = (1, 0)
"""Readers ignore unknown fields, and refuse another major version."""
_LONGEST_CODE = 160


class Known(Struct, frozen=True):
    """Findings that are known, as many as `count` of one fingerprint."""

    rule: str
    path: str
    function: str
    trigger: str
    count: Annotated[int, Meta(ge=1)]
    fingerprint: str
    """Follows from the four fields above it; a file in which it does not was damaged."""
    code: tuple[str, ...] = ()
    """Their source lines: tell which of several is the known one, and let people read the file."""


class Baseline(Struct, frozen=True):
    """A whole baseline."""

    findings: tuple[Known, ...] = ()
    graphs: RunGraphs | None = None
    tool: str = ""


def baseline_of(report: Report, graphs: RunGraphs, root: str) -> Baseline:
    """Everything that is found now, but for what is suppressed otherwise."""
    grouped: dict[tuple[str, str, str, str], list[Finding]] = {}
    for finding in report.findings:
        if finding.state != "suppressed":
            grouped.setdefault(identity(finding, root, report.roots), []).append(finding)
    known = (
        Known(*key, count=len(found), fingerprint=fingerprint(*key), code=tuple(filter(None, map(_code, found))))
        for key, found in sorted(grouped.items())
    )
    return Baseline(tuple(known), graphs, report.tool_version)


def apply(report: Report, baseline: Baseline, path: str) -> Report:
    """Marks what is known. Of findings with one fingerprint, as many as the baseline counts; the rest is new.

    Those whose source line the baseline holds are taken first, so that the new one of two is the one that is told.
    The findings must carry fingerprints from the configuration's folder (`fingerprints.fingerprinted`).
    """
    budget = {known.fingerprint: known.count for known in baseline.findings}
    code = {known.fingerprint: set(known.code) for known in baseline.findings}
    candidates = [n for n, finding in enumerate(report.findings) if finding.state == "new"]
    candidates.sort(key=lambda n: (_code(report.findings[n]) not in code.get(report.findings[n].fingerprint, ()), n))
    findings = list(report.findings)
    for number in candidates:
        finding = findings[number]
        if budget.get(finding.fingerprint, 0) > 0:
            budget[finding.fingerprint] -= 1
            findings[number] = replace(finding, state="known")
    checked = {rule.rule for checker in report.checkers for rule in checker.rules if rule.checked}
    stale = sum(budget[known.fingerprint] for known in baseline.findings if known.rule in checked)
    notices = report.gate.notices
    if stale:
        what = f"{stale} known {'finding was' if stale == 1 else 'findings were'} not seen again"
        notices = (*notices, Notice(f"{what}: cudagraph-doctor baseline prune {path} --from TRACE"))
    gate = replace(report.gate, baseline=path, notices=notices)
    return replace(report, findings=tuple(findings), gate=gate)


def prune(baseline: Baseline, keep: Callable[[Known], int]) -> tuple[Baseline, int]:
    """The baseline with at most `keep(known)` of each entry, and how many findings fewer that is."""
    pruned = []
    dropped = 0
    for known in baseline.findings:
        count = min(known.count, max(keep(known), 0))
        dropped += known.count - count
        if count:
            pruned.append(replace(known, count=count, code=known.code[:count]))
    return replace(baseline, findings=tuple(pruned)), dropped


def write(baseline: Baseline, path: str) -> None:
    """Write the file in one step, an entry a line, so that a merge conflict is small.

    Raises:
        OutputError: it cannot be written.
    """
    told: dict[str, Any] = {"format": FORMAT, "version": list(VERSION), "tool": baseline.tool}
    findings = [msgspec.to_builtins(known) for known in baseline.findings]
    graphs = msgspec.to_builtins(baseline.graphs) if baseline.graphs is not None else None
    lines = [f'  "{key}": {json.dumps(value)},' for key, value in told.items()]
    lines.append(f'  "findings": {_rows(findings, 4)}' + ("," if graphs is not None else ""))
    if graphs is not None:
        captures = [_capture(facts) for facts in graphs["captures"]]
        listed = "[\n" + ",\n".join(captures) + "\n    ]" if captures else "[]"
        lines.append(f'  "graphs": {{\n    "skips": {graphs["skips"]},\n    "captures": {listed}\n  }}')
    text = "\n".join(["{", *lines, "}", ""])
    scratch = f"{os.path.realpath(path)}.{os.getpid()}.new"
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise OutputError(f"cannot write the baseline to {path}: it is no file", "choose another name")
        with open(scratch, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(scratch, os.path.realpath(path))
    except OSError as error:
        if os.path.exists(scratch):
            os.unlink(scratch)
        raise OutputError(
            f"cannot write the baseline to {path}: {error.strerror or error}", "choose another"
        ) from error


def read(path: str) -> Baseline:
    """The baseline in a file.

    Raises:
        UsageError: it cannot be read, or is no baseline that this version understands, whole and undamaged.
    """
    hint = f"write it anew: cudagraph-doctor baseline write {path} SCRIPT"
    try:
        with open(path, "rb") as stream:
            content = stream.read()
    except OSError as error:
        raise UsageError(f"cannot read the baseline {path}: {error.strerror or error}", hint) from error
    try:
        data = msgspec.json.decode(content)
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise UsageError(f"{path} is no baseline of cudagraph-doctor", hint)
        version = data.get("version")
        if not (isinstance(version, list) and len(version) == 2 and all(type(n) is int and n >= 0 for n in version)):
            raise UsageError(f"the baseline {path} names no version", hint)
        if version[0] != VERSION[0]:
            raise UsageError(f"the baseline {path} has version {version[0]}; this is version {VERSION[0]}", hint)
        if "findings" not in data:
            raise UsageError(f"the baseline {path} is cut off: it lists no findings", hint)
        baseline = msgspec.convert(data, Baseline)
    except RecursionError as error:
        raise UsageError(f"the baseline {path} is damaged: nested too deeply", hint) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"the baseline {path} is damaged: {error}", hint) from error
    _refuse_damage(baseline, path, hint)
    return baseline


def _refuse_damage(baseline: Baseline, path: str, hint: str) -> None:
    seen: set[str] = set()
    for known in baseline.findings:
        what = f"{known.rule[:20]} in {known.path[:80] or 'no file'}"
        if known.fingerprint != fingerprint(known.rule, known.path, known.function, known.trigger):
            raise UsageError(f"the baseline {path} is damaged: the fingerprint of {what} does not fit", hint)
        if known.fingerprint in seen:
            raise UsageError(f"the baseline {path} lists {what} twice, as after a merge", hint)
        seen.add(known.fingerprint)


def _capture(facts: dict[str, Any]) -> str:
    groups = facts.pop("groups")
    head = json.dumps(facts)[:-1]
    return f'      {head}, "groups": {_rows(groups, 8)}}}'


def _rows(rows: list[Any], indent: int) -> str:
    if not rows:
        return "[]"
    blank = " " * indent
    return "[\n" + ",\n".join(blank + json.dumps(row) for row in rows) + f"\n{' ' * (indent - 2)}]"


def _code(finding: Finding) -> str:
    code = finding.location.code if finding.location is not None else None
    return (code or "")[:_LONGEST_CODE].encode("utf-8", "replace").decode()


__all__ = ["Baseline", "GraphFacts", "Known", "apply", "baseline_of", "prune", "read", "write"]
