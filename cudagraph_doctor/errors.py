"""The few errors the tool raises on purpose: each has one clear line, a way out, and an exit code.

They are caught once, in `cudagraph_doctor.cli.main`. Anything else that escapes is a bug of ours and keeps its
traceback.
"""

from __future__ import annotations


class DoctorError(Exception):
    """One line that says what is wrong, a hint that says what to do, and the exit code of docs/exit-codes.md."""

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(DoctorError):
    """Wrong options, a missing file, an unknown rule, a broken configuration or plugin."""

    exit_code = 2


class TargetError(DoctorError):
    """The target could not be started: no interpreter, no torch, no GPU."""

    exit_code = 3


class TraceError(DoctorError):
    """A trace that cannot be read at all: not a trace, empty, or of another major version."""

    exit_code = 3


class OutputError(DoctorError):
    """The report could not be written (a full disk, a read-only folder)."""

    exit_code = 2
