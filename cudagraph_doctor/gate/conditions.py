"""`--fail-on-change nodes>5%,pool>10%,escapes>0,skips>0,captures<N`: the conditions, and the sizes of budgets."""

from __future__ import annotations

import re

from msgspec import Struct

from cudagraph_doctor.errors import UsageError
from cudagraph_doctor.gate.nearest import did_you_mean

GROWING = ("pool", "escapes", "skips", "modules")
"""Fail when they grow."""
EITHER_WAY = ("nodes", "edges")
"""Fail when they grow or shrink: a node that is gone is work that replays no longer do."""
CAPTURES = "captures"
ABSOLUTE = ("escapes", "skips", "modules", CAPTURES)
"""Make sense without a baseline: held against nothing."""
QUANTITIES = (*EITHER_WAY, *GROWING, CAPTURES)
_CONDITION = re.compile(r"\s*([A-Za-z_-]+)\s*([<>])\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*(%?)\s*")
_SIZE = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([KMGT]i?)?B?\s*", re.IGNORECASE)
_EXAMPLE = "an example: nodes>5%,pool>10%,escapes>0,skips>0,captures<4"


class Condition(Struct, frozen=True):
    """One comparison with the baseline."""

    quantity: str
    """One of `QUANTITIES`."""
    limit: float
    percent: bool
    text: str
    """As the user wrote it."""

    def exceeded(self, before: float, after: float) -> bool:
        """Whether the change from `before` to `after` is too much; for captures, whether there are too few."""
        if self.quantity == CAPTURES:
            return after < (before * self.limit / 100 if self.percent else self.limit)
        change = after - before
        if self.quantity in EITHER_WAY:
            change = abs(change)
        if not self.percent:
            return change > self.limit
        # From nothing to something is more than any percentage.
        return change > 0 and (not before or change / before * 100 > self.limit)


def parse_conditions(text: str) -> tuple[Condition, ...]:
    """Conditions with commas between.

    Raises:
        UsageError: one is not understood.
    """
    parts = [part for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError("--fail-on-change names no condition", _EXAMPLE)
    return tuple(parse_condition(part) for part in parts)


def parse_condition(text: str) -> Condition:
    """One condition.

    Raises:
        UsageError: it is not understood; the hint says the nearest quantity.
    """
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(f"fail-on-change: not understood: {text.strip()!r}", _EXAMPLE)
    name, sign, number, percent = match.groups()
    quantity = name.lower()
    if quantity not in QUANTITIES:
        raise UsageError(f"fail-on-change: no such quantity: {name}", did_you_mean(quantity, QUANTITIES))
    if (sign == "<") != (quantity == CAPTURES):
        wanted = f"{quantity}{'<' if quantity == CAPTURES else '>'}{number}{percent}"
        raise UsageError(f"fail-on-change: {text.strip()!r} compares the wrong way", f"write {wanted}")
    return Condition(quantity, float(number), bool(percent), text.strip())


def parse_size(text: str) -> int:
    """Bytes of `512 MiB`, `1.5G`, `4096`; K, M, G, T are powers of 1024 with or without an i.

    Raises:
        UsageError: it is no size.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise UsageError(f"budgets.pool: no size: {text!r}", 'write a number of bytes, or "512 MiB"')
    number, unit = match.groups()
    return int(float(number) * 1024 ** ("KMGT".index(unit[0].upper()) + 1 if unit else 0))


def shown_size(size: int) -> str:
    """`2.0 MiB`."""
    amount, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"
