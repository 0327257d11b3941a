"""Assertions on what the checkers find in a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.engine.entry_points import EntryPoint
from cudagraph_doctor.engine.registry import LoadedChecker, Plugin, load_all
from cudagraph_doctor.engine.run import read_sessions, report_on
from cudagraph_doctor.report import Report
from cudagraph_doctor.session.build import build_from
from cudagraph_doctor.testing.trace_builder import TraceBuilder

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import TypeAlias

    from cudagraph_doctor.api import Checker
    from cudagraph_doctor.findings import Finding

    Trace: TypeAlias = TraceBuilder | Report | str | os.PathLike[str]
    """What the assertions take: a hand-written trace, the path of a recorded one, or a report."""


def diagnose_trace(
    trace: Trace, *, checkers: Sequence[type[Checker]] | None = None, own: tuple[str, ...] = ()
) -> Report:
    """The report on a trace, by the given checkers or by all that are installed."""
    if isinstance(trace, Report):
        return trace
    loaded = load_all() if checkers is None else load_checkers(checkers)
    if isinstance(trace, TraceBuilder):
        return report_on([build_from(trace.records, own=own)], loaded)
    sessions, limits = read_sessions([trace], own)
    return report_on(sessions, loaded, extra_limits=limits)


def assert_finds(
    trace: Trace,
    rule: str,
    *,
    line: int | None = None,
    file: str | None = None,
    level: str | None = None,
    confidence: str | None = None,
    count: int | None = None,
    message: str | None = None,
    first: bool = True,
    checkers: Sequence[type[Checker]] | None = None,
) -> Finding:
    """Fails unless the trace has a finding of `rule` that fits; returns it.

    Args:
        trace: the trace, or a report on one.
        rule: id of the rule.
        line: line that it must name.
        file: path that it must name.
        level: `error`, `warning` or `note`.
        confidence: `proven`, `likely` or `possible`.
        count: how often it occurred.
        message: text that its message must hold.
        first: it must be the first finding of the report.
        checkers: run these instead of all installed ones.
    """
    report = diagnose_trace(trace, checkers=checkers)
    _assert_all_ran(report)
    candidates = report.findings[:1] if first else report.findings
    for finding in candidates:
        place = finding.location
        if (
            finding.rule.id == rule
            and (line is None or (place is not None and place.line == line))
            and (file is None or (place is not None and place.file == file))
            and level in (None, finding.level.value)
            and confidence in (None, finding.confidence.value)
            and count in (None, finding.count)
            and (message is None or message in finding.message)
        ):
            return finding
    asked = {"line": line, "file": file, "level": level, "confidence": confidence, "count": count, "message": message}
    wanted = ", ".join([rule, *(f"{name}={value!r}" for name, value in asked.items() if value is not None)])
    raise AssertionError(f"expected {'first ' if first else ''}{wanted}; found {_listing(report)}")


def assert_clean(trace: Trace, *, notes: bool = False, checkers: Sequence[type[Checker]] | None = None) -> Report:
    """Fails if the trace has a finding, or a checker did not run; `notes=True` lets notes pass. Returns the report."""
    report = diagnose_trace(trace, checkers=checkers)
    _assert_all_ran(report)
    disturbing = [f for f in report.findings if not (notes and f.level.value == "note")]
    if disturbing:
        raise AssertionError(f"expected no finding; found {_listing(report)}")
    return report


def _assert_all_ran(report: Report) -> None:
    failed = [f"{c.name}: {c.reason}" for c in report.checkers if c.state == "failed"]
    if failed:
        raise AssertionError("a checker failed: " + "; ".join(failed))


def _listing(report: Report) -> str:
    if not report.findings:
        return "nothing"
    return "\n".join(
        [
            "",
            *(
                f"  {f.rule.id} {f.level.value} {f.confidence.value} "
                f"{f'{f.location.file}:{f.location.line}' if f.location else 'no line'} ×{f.count}: {f.message}"
                for f in report.findings
            ),
        ]
    )


def load_checkers(checkers: Sequence[type[Checker]]) -> list[LoadedChecker]:
    """Checkers that are in no entry-point group, ready to run."""
    return [_unregistered(checker) for checker in checkers]


def _unregistered(checker: type[Checker]) -> LoadedChecker:
    entry_point = EntryPoint(checker.name, f"{checker.__module__}:{checker.__qualname__}")
    return LoadedChecker(checker(), Plugin(entry_point, checker.__module__.partition(".")[0], "test"))
