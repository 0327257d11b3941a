"""From traces to a report: builds the sessions, runs the checkers, arranges what they found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from cudagraph_doctor import __version__
from cudagraph_doctor.engine.limits import limits_of_run
from cudagraph_doctor.engine.merge import arrange
from cudagraph_doctor.engine.overview import captures_of, device_of, processes_of, root_of
from cudagraph_doctor.engine.registry import LoadedChecker, load_all
from cudagraph_doctor.engine.selection import Selection, resolve
from cudagraph_doctor.errors import TraceError
from cudagraph_doctor.findings import CheckerState, Finding, RuleState
from cudagraph_doctor.report import Limit, Report
from cudagraph_doctor.session.build import build
from cudagraph_doctor.session.timeline import timelines_of
from cudagraph_doctor.trace.reader import find_traces

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from cudagraph_doctor.findings import Rule
    from cudagraph_doctor.session.model import Session

NOT_SELECTED = "not selected"


class Options(Struct, frozen=True):
    """What the user asked for."""

    select: tuple[str, ...] = ()
    """Codes, slugs or names of checkers; empty: all."""
    ignore: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    """Distributions and paths whose frames count as the user's."""
    timelines: bool = False
    """With the timeline of every capture's status."""


def diagnose(paths: Iterable[str | os.PathLike[str]], options: Options | None = None) -> Report:
    """Diagnoses traces: files, packs, or folders of a run.

    Raises:
        UsageError: a missing file, an unknown rule, a broken plugin.
        TraceError: no trace could be read.
    """
    options = options or Options()
    loaded = load_all()
    selection = resolve(loaded, options.select, options.ignore)
    sessions, unreadable = read_sessions(paths, options.own)
    report = report_on(sessions, loaded, selection, extra_limits=unreadable)
    if not options.timelines:
        return report
    return replace(report, timelines=tuple(line for session in sessions for line in timelines_of(session)))


def read_sessions(
    paths: Iterable[str | os.PathLike[str]], own: tuple[str, ...] = ()
) -> tuple[list[Session], list[Limit]]:
    """The sessions of all traces, and a limit for each file beside them that could not be read.

    Raises:
        TraceError: none could be read.
    """
    sessions: list[Session] = []
    limits: list[Limit] = []
    first_error: TraceError | None = None
    for path in find_traces(paths):
        try:
            sessions += build(path, own=own, first_index=len(sessions))
        except TraceError as error:
            first_error = first_error or error
            limits.append(Limit(error.message, error.hint or "", incomplete=True))
    if not sessions:
        raise first_error or TraceError("no trace was given")
    return sessions, limits


def report_on(
    sessions: Sequence[Session],
    loaded: Sequence[LoadedChecker],
    selection: Selection | None = None,
    *,
    extra_limits: Sequence[Limit] = (),
) -> Report:
    """Runs the checkers on sessions that are at hand."""
    chosen = selection if selection is not None else resolve(loaded)
    findings: list[Finding] = []
    states: list[CheckerState] = []
    for one in loaded:
        found, state = _run_checker(one, sessions, chosen)
        findings += found
        states.append(state)
    root = root_of(sessions)
    arranged = arrange(findings)
    return Report(
        argv=root.header.argv,
        exit=root.exit,
        processes=processes_of(sessions, arranged),
        device=device_of(sessions, root),
        captures=captures_of(sessions),
        checkers=tuple(states),
        findings=arranged,
        limits=(*extra_limits, *limits_of_run(sessions)),
        tool_version=__version__,
    )


def _run_checker(
    one: LoadedChecker, sessions: Sequence[Session], selection: Selection
) -> tuple[list[Finding], CheckerState]:
    """Runs one checker on every process. It failed if it failed on one, and was skipped if it ran on none."""
    checker = one.checker
    wanted = [rule for rule in one.rules if rule.id in selection]
    if not wanted:
        rules = tuple(RuleState(rule.id, checked=False, reason=NOT_SELECTED) for rule in one.rules)
        return [], CheckerState(checker.name, "skipped", NOT_SELECTED, rules)
    findings: list[Finding] = []
    skipped: list[str] = []
    ran_on: list[Session] = []
    failure: str | None = None
    for session in sessions:
        try:
            reason = checker.skip(session)
            if reason is not None:
                skipped.append(reason)
                continue
            for finding in checker.check(session):
                _assert_declared(finding, one)
                if finding.rule.id in selection:
                    findings.append(finding)
            ran_on.append(session)
        except Exception as error:  # one failure hides neither what was found nor the other processes
            failure = failure or _told(error, one)
    if failure is None:
        try:
            rules = tuple(_rule_state(one, rule, ran_on, skipped, selection) for rule in one.rules)
        except Exception as error:
            failure = _told(error, one)
    if failure is not None:
        rules = tuple(RuleState(rule.id, checked=False, reason="its checker failed") for rule in one.rules)
        return findings, CheckerState(checker.name, "failed", failure, rules)
    if not ran_on:
        return [], CheckerState(checker.name, "skipped", skipped[0] if skipped else "there is no process", rules)
    return findings, CheckerState(checker.name, "ran", None, rules)


def _assert_declared(finding: Finding, one: LoadedChecker) -> None:
    if all(finding.rule.id != rule.id for rule in one.rules):
        raise ValueError(f"a finding of rule {finding.rule.id}, which the checker does not declare")


def _rule_state(
    one: LoadedChecker, rule: Rule, ran_on: Sequence[Session], skipped: Sequence[str], selection: Selection
) -> RuleState:
    """A rule was checked if it was on every process where its checker ran and something was captured."""
    if rule.id not in selection:
        return RuleState(rule.id, checked=False, reason=NOT_SELECTED)
    if not ran_on:
        return RuleState(rule.id, checked=False, reason=skipped[0] if skipped else "there is no process")
    # A child that captured nothing says nothing about what could be checked in the one that did.
    telling = [session for session in ran_on if session.captures] or ran_on
    for session in telling:
        reason = one.checker.not_checked(rule, session)
        if reason is not None:
            return RuleState(rule.id, checked=False, reason=reason)
    return RuleState(rule.id, checked=True)


def _told(error: Exception, one: LoadedChecker) -> str:
    """A checker's failure in one line, with its innermost place, so that a bug report names it."""
    said = f"{type(error).__name__}: {error}".partition("\n")[0]
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return said
    name = traceback.tb_frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
    return f"{said} ({name}:{traceback.tb_lineno}; {one.plugin.package} {one.plugin.version})"
