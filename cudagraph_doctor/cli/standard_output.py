"""Standard output, however it may fail: closed, a pipe whose reader has left, a full disk."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from cudagraph_doctor.errors import OutputError

if TYPE_CHECKING:
    from cudagraph_doctor.report import Report
    from cudagraph_doctor.reporters.formats import Format


def write_standard_output(report: Report, form: Format) -> None:
    """Write a report. A reader that has left does not change the exit status: findings stay findings.

    Raises:
        OutputError: it cannot be written.
    """
    from cudagraph_doctor.reporters.formats import write

    if sys.stdout is None:  # started with a closed descriptor
        return
    try:
        write(report, form, sys.stdout)
        sys.stdout.flush()
    except BrokenPipeError:
        silence_standard_output()
    except OSError as error:
        silence_standard_output()
        reason = error.strerror or str(error)
        raise OutputError(f"cannot write the report to standard output: {reason}", "use --output FILE") from error


def silence_standard_output() -> None:
    """Point the descriptor elsewhere: Python would complain once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
