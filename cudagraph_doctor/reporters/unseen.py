"""What was not looked at, and why, in plain words: every format says it, and none shows it as clean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.report import Report


class Unseen(Struct, frozen=True):
    """One reason, and everything that was not seen because of it."""

    what: str
    why: str
    kind: str
    """`failed` (a checker), `skipped` (a checker), `rules`, `evidence`, `limit`."""
    rules: tuple[str, ...] = ()
    location: Location | None = None
    incomplete: bool = False
    """It makes the whole diagnosis incomplete (exit code 4)."""

    @property
    def sentence(self) -> str:
        """`CGD104 CGD105: not checked: needs driver evidence`."""
        said = {"rules": "not checked: ", "failed": "failed: ", "skipped": "skipped: "}.get(self.kind, "")
        return f"{self.what}: {said}{self.why}"


def unseen(report: Report) -> list[Unseen]:
    """All of it, what matters most first."""
    rows = [*_checkers(report), *_rules(report), *_evidence(report), *_limits(report)]
    return sorted(rows, key=lambda row: not row.incomplete)


def _checkers(report: Report) -> Iterator[Unseen]:
    for checker in report.checkers:
        if checker.state != "ran":
            why = checker.reason or "no reason given"
            yield Unseen(checker.name, why, checker.state, tuple(rule.rule for rule in checker.rules),
                         incomplete=checker.state == "failed")  # fmt: skip


def _rules(report: Report) -> Iterator[Unseen]:
    reasons: dict[str, list[str]] = {}
    for checker in report.checkers:
        if checker.state == "ran":
            for rule in checker.rules:
                if not rule.checked:
                    reasons.setdefault(rule.reason or "no reason given", []).append(rule.rule)
    for reason, rules in reasons.items():
        yield Unseen(" ".join(sorted(rules)), reason, "rules", tuple(sorted(rules)))


def _evidence(report: Report) -> Iterator[Unseen]:
    reasons = {span.why: span.level for process in report.processes for span in process.evidence if span.why}
    for why, level in reasons.items():
        yield Unseen(f"{level} evidence", why, "evidence")


def _limits(report: Report) -> Iterator[Unseen]:
    seen: set[tuple[str, str, object]] = set()
    for limit in report.limits:
        key = (limit.what, limit.reason, limit.location)
        if key not in seen:
            seen.add(key)
            yield Unseen(limit.what, limit.reason, "limit", (), limit.location, limit.incomplete)
