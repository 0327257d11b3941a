"""Kernels by the names that their authors gave them, out of mangled C++ symbols."""

from __future__ import annotations

import re

LONGEST = 60
"""Characters of a name that a sentence can carry."""

_NESTED = re.compile(r"^_ZN(?:K)?(.*)$")
_PLAIN = re.compile(r"^_Z(\d.*)$")


def shown(symbol: str) -> str:
    """`at::native::vectorized_elementwise_kernel` of its symbol; a name that is no C++ symbol stays as it is.

    Only the qualified name is taken out of the symbol, not its template arguments: they would fill a page.
    """
    nested, plain = _NESTED.match(symbol), _PLAIN.match(symbol)
    parts = _identifiers(nested[1]) if nested else _identifiers(plain[1])[:1] if plain else []
    name = "::".join(part for part in parts if not part.startswith("_GLOBAL__N_")) or symbol
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def _identifiers(mangled: str) -> list[str]:
    """The length-prefixed identifiers at the start of a mangled name (Itanium C++ ABI, <source-name>)."""
    found = []
    while match := re.match(r"(\d+)", mangled):
        start, length = match.end(), int(match[1])
        if length == 0 or start + length > len(mangled):
            break
        found.append(mangled[start : start + length])
        mangled = mangled[start + length :]
    return found
