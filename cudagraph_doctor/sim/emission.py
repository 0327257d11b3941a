"""What the simulated device tells the recorder."""

from __future__ import annotations

from collections.abc import Callable

Record = dict[str, object]
Emit = Callable[[Record], int]
"""Takes one trace record without `q`, `t` and `tid`; returns its sequence number, 0 when nobody records."""

Where = Callable[[], int]
"""Gives the recorder's id of the calling Python stack, 0 when nobody records."""


def nobody(_record: Record) -> int:
    """Stand in for a recorder when there is none."""
    return 0


def nowhere() -> int:
    """Stand in for a recorder's stacks when there is none."""
    return 0
