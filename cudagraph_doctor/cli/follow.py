"""`check --follow`: read a growing trace again and again, say each new finding once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from cudagraph_doctor.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cudagraph_doctor.findings import Finding
    from cudagraph_doctor.report import Report

INTERVAL = 1.0
"""Seconds between two readings, at least; a reading that takes longer is followed by a pause as long as itself."""


def follow_findings(read: Callable[[], Report]) -> Report:
    """Print a line a new finding until every process has ended or Ctrl-C; return the last report.

    Args:
        read: Diagnoses the trace as it is now.

    Raises:
        TraceError: interrupted before there was anything to read.
    """
    seen: set[tuple[str, ...]] = set()
    report: Report | None = None
    waited = False
    try:
        for report in _readings(read):
            for finding in report.findings:
                if _key(finding) not in seen:
                    seen.add(_key(finding))
                    click.echo(_line(finding), err=True)
            if not still_running(report):
                if waited or not _end_unseen(report):
                    break
                waited = True  # the launcher's seal comes after the exception that ended the target
    except KeyboardInterrupt:
        if report is None:
            raise TraceError("interrupted before there was a trace to read", "check the folder") from None
    assert report is not None
    return report


def still_running(report: Report) -> bool:
    """Whether more may come: a process has neither a seal nor an uncaught exception yet."""
    return report.exit.running or any(process.exit.running for process in report.processes)


def _end_unseen(report: Report) -> bool:
    ended = report.exit
    return ended.exception is not None and ended.returncode is None and ended.signal is None


def _readings(read: Callable[[], Report]) -> Iterator[Report]:
    while True:
        began = time.monotonic()
        try:
            yield read()
        except TraceError as error:
            if "no trace" not in error.message and "empty" not in error.message:
                raise
        took = time.monotonic() - began
        time.sleep(max(INTERVAL, took))


def _key(finding: Finding) -> tuple[str, ...]:
    place = finding.location
    return (finding.rule.id, str(finding.process), str(finding.capture), f"{place.file}:{place.line}" if place else "")


def _line(finding: Finding) -> str:
    place = f"{finding.location.file}:{finding.location.line}" if finding.location else "no Python line"
    text = f"{finding.rule.id} {finding.level.value} ({finding.confidence.value}) {place}: {finding.message}"
    return "".join(c if c.isprintable() else " " for c in text)
