"""The checker of the hundred-block CGD4xx: what a graph points at, and whether it is still there at a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.api import Checker
from cudagraph_doctor.checkers.pointer_lifetime import (
    autocast_cache,
    buffer_reallocated,
    freed,
    host_memory,
    input_rebound,
    not_ordered,
    output_overwritten,
    pool_alias,
    weights_rebound,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding, Rule
    from cudagraph_doctor.session.model import Session

_MODULES = (
    freed,
    input_rebound,
    weights_rebound,
    buffer_reallocated,
    host_memory,
    output_overwritten,
    pool_alias,
    not_ordered,
    autocast_cache,
)
"""One a rule: `RULE`, `findings(session)`, and, where it depends on more than `RULE.needs`, `not_checked(session)`."""


class PointerLifetime(Checker):
    """Memory that graphs use and that was freed, moved, rewritten or shared under them."""

    name = "pointer_lifetime"
    rules = tuple(module.RULE for module in _MODULES)

    def not_checked(self, rule: Rule, session: Session) -> str | None:
        """As usual, and what the module of the rule says."""
        reason = super().not_checked(rule, session)
        if reason is not None:
            return reason
        module = next(module for module in _MODULES if module.RULE.id == rule.id)
        asked = getattr(module, "not_checked", None)
        return asked(session) if asked is not None else None

    def check(self, session: Session) -> Iterator[Finding]:
        """Yield the findings of one process, rule by rule."""
        for module in _MODULES:
            yield from module.findings(session)
