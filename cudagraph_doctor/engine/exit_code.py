"""The exit codes, and which one wins when several hold.

docs/exit-codes.md is the published table; a test holds the two together.
"""

from __future__ import annotations

import enum

from msgspec import Struct


class ExitCode(enum.IntEnum):
    """What the tool's own exit status says. The target's status is a fact in the report, never ours."""

    CLEAN = 0
    FINDINGS = 1
    USAGE = 2
    NOT_STARTED = 3
    INCOMPLETE = 4
    NOTHING_CAPTURED = 5
    TIME_LIMIT = 6
    UNEXPLAINED_END = 7

    @property
    def meaning(self) -> str:
        """One line for the published table."""
        return _MEANING[self]


_MEANING = {
    ExitCode.CLEAN: "Captured, checked, and nothing found at or above `--fail-on`.",
    ExitCode.FINDINGS: "Findings at or above `--fail-on` (default: error) that are neither known nor suppressed, or a"
    " condition of the gate that does not hold: a capture that is gone, a budget, `--fail-on-change`.",
    ExitCode.USAGE: "Wrong usage or configuration: unknown option or rule, missing file, broken plugin, report"
    " not writable.",
    ExitCode.NOT_STARTED: "The target could not be started or left no readable trace: no GPU, no torch, no interpreter,"
    " a trace of another major version, or less evidence than `--require-evidence` asks for.",
    ExitCode.INCOMPLETE: "The diagnosis is incomplete: a checker failed, the trace is damaged, a region could not be"
    " simulated, or a rule of `--require-checked` was not checked.",
    ExitCode.NOTHING_CAPTURED: "No capture was begun (unless `--allow-no-capture`).",
    ExitCode.TIME_LIMIT: "The target was stopped at the time limit (`--timeout`).",
    ExitCode.UNEXPLAINED_END: "The target ended by a signal, a non-zero status or an uncaught exception, and no"
    " finding explains it.",
}

PRECEDENCE = (
    ExitCode.USAGE,
    ExitCode.NOT_STARTED,
    ExitCode.TIME_LIMIT,
    ExitCode.INCOMPLETE,
    ExitCode.FINDINGS,
    ExitCode.UNEXPLAINED_END,
    ExitCode.NOTHING_CAPTURED,
    ExitCode.CLEAN,
)
"""When several hold, the first of these is the exit status."""


class ExitFacts(Struct, frozen=True):
    """What is true of a finished run. Each fact is the condition of one exit code."""

    usage: bool = False
    not_started: bool = False
    time_limit: bool = False
    incomplete: bool = False
    findings: bool = False
    unexplained_end: bool = False
    nothing_captured: bool = False

    def holding(self) -> frozenset[ExitCode]:
        """Every code whose condition holds; CLEAN always does."""
        held = {
            ExitCode.USAGE: self.usage,
            ExitCode.NOT_STARTED: self.not_started,
            ExitCode.TIME_LIMIT: self.time_limit,
            ExitCode.INCOMPLETE: self.incomplete,
            ExitCode.FINDINGS: self.findings,
            ExitCode.UNEXPLAINED_END: self.unexplained_end,
            ExitCode.NOTHING_CAPTURED: self.nothing_captured,
            ExitCode.CLEAN: True,
        }
        return frozenset(code for code, holds in held.items() if holds)


def decide(facts: ExitFacts) -> ExitCode:
    """The one exit status of a run: the first of `PRECEDENCE` that holds."""
    holding = facts.holding()
    return next(code for code in PRECEDENCE if code in holding)
