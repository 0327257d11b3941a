"""How wide text for a person may be."""

from __future__ import annotations

import shutil
import sys

PIPE, NARROWEST, WIDEST = 80, 40, 120


def terminal_width() -> int:
    """Columns of the terminal on standard output; 80 where it is a pipe or a file."""
    if not sys.stdout.isatty():
        return PIPE
    return max(NARROWEST, min(shutil.get_terminal_size((PIPE, 24)).columns, WIDEST))
