"""Whether a test's trace lets it pass, and how that is said in its reports."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cudagraph_doctor.pytest_plugin.isolation import failed

if TYPE_CHECKING:
    import pytest

    from cudagraph_doctor.pytest_plugin.isolation import Marked
    from cudagraph_doctor.report import Exit

TITLE = "cudagraph-doctor"
_MOST_OUTPUT = 4000
_STRICT = "[XPASS(strict)]"
"""How pytest says that a test passed which was expected, strictly, to fail."""


@dataclass(frozen=True)
class Judgement:
    """What the trace of one test says."""

    code: int
    """The exit status that the run would have had (docs/exit-codes.md), its own end left aside."""
    headline: str
    """What is wrong, in a line: pytest shows it in its summary."""
    text: str
    """The report, as at a terminal."""
    exit: Exit


def judge(trace: str, marked: Marked) -> Judgement:
    """Diagnoses a trace under the project's configuration and the test's marker.

    Raises:
        UsageError: a code or a configuration that is not understood.
        TraceError: there is nothing to read.
    """
    from msgspec.structs import replace

    from cudagraph_doctor.engine.exit_code import decide
    from cudagraph_doctor.engine.exit_facts import ExitPolicy, exit_facts
    from cudagraph_doctor.engine.registry import load_all
    from cudagraph_doctor.engine.run import read_sessions, report_on
    from cudagraph_doctor.engine.selection import resolve, rules_named
    from cudagraph_doctor.findings import Severity
    from cudagraph_doctor.gate import baseline
    from cudagraph_doctor.gate.apply import Request, apply
    from cudagraph_doctor.gate.config_file import check_codes, find_configuration
    from cudagraph_doctor.gate.roots import find_roots
    from cudagraph_doctor.report import Gate
    from cudagraph_doctor.reporters import table
    from cudagraph_doctor.reporters.places import where

    roots = find_roots()
    configuration = find_configuration(roots.cwd)
    loaded = load_all()
    known = partial(rules_named, loaded)
    check_codes(configuration, known)
    config = configuration.config
    selection = resolve(loaded, marked.select or config.select, (*marked.ignore, *config.ignore))
    sessions, unreadable = read_sessions([trace], marked.own or config.own)
    gate = Gate(fail_on=None if marked.fail_on == "never" else Severity(marked.fail_on))
    # A test shows a part of the program: what must be captured is for the whole.
    part = replace(configuration, config=replace(config, expected_captures=0))
    known_findings = None
    if config.baseline is not None:
        path = os.path.join(configuration.root, config.baseline)
        known_findings = replace(baseline.read(path), graphs=None)
    request = Request(part, roots, gate, known_findings, config.baseline or "")
    report, _graphs = apply(report_on(sessions, loaded, selection, extra_limits=unreadable), sessions, request, known)
    facts = exit_facts(report, ExitPolicy(allow_no_capture=marked.allow_no_capture))
    code = decide(replace(facts, unexplained_end=False))  # pytest tells how the test ended
    shown = io.StringIO()
    table.write(report, shown, color=False, width=100)
    counted = [f"{where(f.location)}: {f.rule.id} {f.message}" for f in report.findings if gate.counts(f)]
    headline = next(iter([*counted, *(violation.what for violation in report.gate.violations)]), code.meaning)
    return Judgement(int(code), headline, shown.getvalue(), report.exit)


def judged(
    item: pytest.Item, reports: list[pytest.TestReport], judgement: Judgement | None, said: str
) -> list[pytest.TestReport]:
    """The child's reports; the one of the test itself fails where the trace says so, and carries the report."""
    call = next((report for report in reports if report.when == "call"), None)
    for report in reports:
        report.nodeid = item.nodeid
    if call is not None:
        if judgement is not None and judgement.code:
            _add(call, judgement)
        if not any(report.when == "teardown" for report in reports):
            reports.append(failed(item, "teardown", _end(judgement, said)))
        return reports
    setup = next((report for report in reports if report.when == "setup"), None)
    if setup is not None and setup.outcome != "passed":
        return reports
    died = failed(item, "call", _end(judgement, said))
    if judgement is not None:
        died.sections.append((TITLE, judgement.text))
    return [*reports, died]


def _add(call: pytest.TestReport, judgement: Judgement) -> None:
    call.sections.append((TITLE, judgement.text))
    strict = isinstance(call.longrepr, str) and call.longrepr.startswith(_STRICT)
    if call.outcome == "passed" and not hasattr(call, "wasxfail"):
        call.outcome = "failed"
        call.longrepr = f"{judgement.headline}\n\n{judgement.text}"
        call.sections.pop()
    elif call.outcome == "passed" or strict:
        # It was expected to fail, and by what it captured it did.
        call.outcome = "skipped"
        if strict:
            call.wasxfail = str(call.longrepr).removeprefix(_STRICT).strip()
            call.longrepr = judgement.headline


def _end(judgement: Judgement | None, said: str) -> str:
    ended = judgement.exit if judgement is not None else None
    how = "ended early"
    if ended is not None and ended.timed_out:
        how = "was stopped at the time limit"
    elif ended is not None and ended.signal:
        how = f"was killed by {ended.signal}"
    elif ended is not None and ended.returncode is not None:
        how = f"ended early with status {ended.returncode}"
    return f"cudagraph-doctor: the test's process {how}\n{said[-_MOST_OUTPUT:]}".rstrip()
