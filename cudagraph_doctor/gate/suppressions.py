"""Findings that somebody has accepted: by a comment at the line, or for a whole file in the configuration."""

from __future__ import annotations

from datetime import date
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from cudagraph_doctor._wire import ROLE_USER
from cudagraph_doctor.errors import UsageError
from cudagraph_doctor.findings import Location, Suppression
from cudagraph_doctor.gate.roots import path_from
from cudagraph_doctor.report import Notice, Violation
from cudagraph_doctor.session import frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cudagraph_doctor.findings import Finding
    from cudagraph_doctor.gate.comments import Comment
    from cudagraph_doctor.report import Report
    from cudagraph_doctor.session.model import Session

    RulesNamed: TypeAlias = Callable[[str], frozenset[str]]
    """The ids of the rules that a code, slug or checker means; raises UsageError where it means none."""


def suppress_per_file(
    report: Report, ignores: Mapping[str, Sequence[str]], root: str, rules_named: RulesNamed
) -> Report:
    """`per-file-ignores`: a pattern is matched against the path from the configuration's folder."""
    if not ignores:
        return report
    rules = {pattern: frozenset().union(*map(rules_named, codes)) for pattern, codes in ignores.items()}

    def decided(finding: Finding) -> Finding:
        if finding.location is None or finding.state != "new":
            return finding
        path = path_from(root, report.roots, finding.location.file)
        for pattern, ids in rules.items():
            if finding.rule.id in ids and fnmatchcase(path, pattern):
                return replace(finding, state="suppressed", suppression=Suppression("per-file", pattern))
        return finding

    return replace(report, findings=tuple(map(decided, report.findings)))


def suppress_inline(
    report: Report, sessions: Iterable[Session], rules_named: RulesNamed, today: date | None = None
) -> Report:
    """Comments in the recorded sources of the user's files.

    A comment that names no rule, or is not understood, is a violation: it suppresses nothing, and nobody would notice.
    One that has expired suppresses nothing; one that is not needed is told of, where its rules were checked.
    """
    today = today or date.today()  # noqa: DTZ011 - the user's own calendar
    found = _Comments(rules_named)
    for session in sessions:
        found.read(session)
    if not found.by_file:
        return report
    used: set[tuple[str, int]] = set()
    findings = []
    for finding in report.findings:
        comment = found.covering(finding, today)
        if comment is None or finding.state != "new":
            findings.append(finding)
            continue
        used.add((finding.location.file if finding.location else "", comment.line))
        findings.append(replace(finding, state="suppressed", suppression=Suppression("inline", comment.reason)))
    checked = {rule.rule for checker in report.checkers for rule in checker.rules if rule.checked}
    notices = [*report.gate.notices]
    for file, (_text, told) in found.by_file.items():
        for comment in told:
            place = Location(file, comment.line)
            if comment.until is not None and comment.until < today:
                notices.append(
                    Notice(f"the suppression of {', '.join(comment.codes)} expired on {comment.until}", place)
                )
            elif (file, comment.line) not in used and found.rules(comment) <= checked:
                notices.append(Notice(f"the suppression of {', '.join(comment.codes)} is not needed", place))
    violations = (*report.gate.violations, *found.wrong.values())
    gate = replace(report.gate, notices=tuple(notices), violations=violations)
    return replace(report, findings=tuple(findings), gate=gate)


MARK = "cudagraph-doctor:"


class _Comments:
    """The comments of all recorded files of the user, by path."""

    def __init__(self, rules_named: RulesNamed) -> None:
        self.by_file: dict[str, tuple[str, list[Comment]]] = {}
        self.wrong: dict[tuple[str, int], Violation] = {}
        self._rules_named = rules_named

    def read(self, session: Session) -> None:
        """Those of one process; a file is read once."""
        for id_, source in session.sources.items():
            if frames.role(session, id_) != ROLE_USER:
                continue
            file = frames.show_path(session.header, source.path)
            text = session.text(id_)
            if text is None or file in self.by_file:
                continue
            if MARK not in text:  # most: the parser of Python need not be loaded
                self.by_file[file] = (text, [])
                continue
            from cudagraph_doctor.gate.comments import comments

            good = []
            for comment in comments(text):
                why = comment.wrong or self._unknown(comment)
                if why:
                    place = Location(file, comment.line)
                    self.wrong[file, comment.line] = Violation(f"a suppression does nothing: {why}", place)
                else:
                    good.append(comment)
            self.by_file[file] = (text, good)

    def covering(self, finding: Finding, today: date) -> Comment | None:
        """The comment that accepts a finding."""
        place = finding.location
        if place is None or place.file not in self.by_file:
            return None
        text, told = self.by_file[place.file]
        if not told:
            return None
        from cudagraph_doctor.gate.comments import covered_lines

        lines = {*range(place.line, (place.end_line or place.line) + 1), *covered_lines(text, place.line)}
        for comment in told:
            valid = comment.until is None or comment.until >= today
            if valid and comment.line in lines and finding.rule.id in self.rules(comment):
                return comment
        return None

    def rules(self, comment: Comment) -> frozenset[str]:
        """The rules that a comment names."""
        return frozenset().union(*map(self._rules_named, comment.codes))

    def _unknown(self, comment: Comment) -> str:
        try:
            self.rules(comment)
        except UsageError as error:
            return f"{error.message}; {error.hint}"
        return ""
