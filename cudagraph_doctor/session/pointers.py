"""Recorded pointers as numbers."""

from __future__ import annotations

_LONGEST = 18
"""Characters of a 64-bit address with its prefix."""


def address_of(text: str) -> int | None:
    """The number of a recorded pointer; None for none, a null pointer, or text that is no pointer."""
    if not text or len(text) > _LONGEST:
        return None
    try:
        return int(text, 16) or None
    except ValueError:
        return None
