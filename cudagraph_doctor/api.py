"""The public door for checkers, ours and plugins alike.

A checker is a pure function of a process's session: it asks the session, and yields findings made from its rules. It
knows neither whether the events came from a GPU or from the simulated device, nor any other checker.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, ClassVar

from cudagraph_doctor.findings import (
    Confidence,
    Consequence,
    Evidence,
    Finding,
    Fix,
    Location,
    Rule,
    Severity,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudagraph_doctor.session.model import Session

__all__ = [
    "Checker",
    "Confidence",
    "Consequence",
    "Evidence",
    "Finding",
    "Fix",
    "Location",
    "Rule",
    "Severity",
]


class Checker(abc.ABC):
    """Base class of every checker; registered under the entry-point group `cudagraph_doctor.checkers`."""

    name: ClassVar[str]
    """Unique name, as in `--select NAME` and in the report."""
    rules: ClassVar[tuple[Rule, ...]]
    """The rules it can emit. An id belongs to one checker only."""

    def skip(self, session: Session) -> str | None:
        """Why this checker cannot run on this session at all, or None."""
        del session
        return None

    def not_checked(self, rule: Rule, session: Session) -> str | None:
        """Why one rule could not be decided on this session, or None. The default asks for `rule.needs`."""
        if not rule.needs or any(session.has(name) for name in rule.needs):
            return None
        return session.why_not(rule.needs)

    @abc.abstractmethod
    def check(self, session: Session) -> Iterable[Finding]:
        """Yield the findings of one process."""
