"""`did you mean …?` for a name that a user wrote into a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest of the known names, or with all of them."""
    from difflib import get_close_matches

    names = list(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
