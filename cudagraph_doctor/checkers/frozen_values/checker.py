"""The checker of the hundred-block CGD6xx: values of the host that a graph froze, and state that replay skips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.api import Checker
from cudagraph_doctor.checkers.frozen_values import (
    frozen_shape,
    host_branch,
    host_random,
    host_scalar,
    side_effect,
    stale_rows,
    warmup_state,
)
from cudagraph_doctor.checkers.frozen_values.frozen import frozen
from cudagraph_doctor.checkers.frozen_values.uses import Role
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.findings import Confidence, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cudagraph_doctor.checkers.frozen_values.frozen import Frozen
    from cudagraph_doctor.findings import Finding, Rule
    from cudagraph_doctor.session.model import Session

_BY_ROLE = {
    Role.EXTENT: frozen_shape,
    Role.OPERAND: host_scalar,
    Role.BRANCH: host_branch,
    Role.GUARD: host_branch,
}
_IN_PART: dict[str, Callable[[Session], str | None]] = {
    module.RULE.id: module.not_checked for module in (side_effect, warmup_state)
}
"""Rules that depend on more than `Rule.needs`."""


class FrozenValues(Checker):
    """Python state that captured regions read, wrote and counted on."""

    name = "frozen_values"
    rules = (host_scalar.RULE, host_branch.RULE, frozen_shape.RULE, side_effect.RULE, warmup_state.RULE)

    def not_checked(self, rule: Rule, session: Session) -> str | None:
        """As usual, and what the module of the rule says."""
        reason = super().not_checked(rule, session)
        if reason is not None or rule.id not in _IN_PART:
            return reason
        return _IN_PART[rule.id](session)

    def check(self, session: Session) -> Iterator[Finding]:
        """Yield the findings of one process: frozen values in the order of their change, then skipped side effects."""
        if session.slots:
            told = frozen(session)
            for found in told:
                yield _of_frozen(session, found)
            advanced = frozenset(found.state.path for found in told if found.change is None)
            yield from side_effect.findings(session, but=advanced)
            yield from warmup_state.findings(session)
        yield from host_random.findings(session)
        yield from stale_rows.findings(session)


def _of_frozen(session: Session, found: Frozen) -> Finding:
    module = _BY_ROLE[found.use.role]
    level, confidence = _sureness(found)
    change = found.change
    return finding(
        session,
        module.RULE,
        module.explain(session, found),
        capture=found.state.capture,
        stack=found.state.record.stack,
        trigger=f"{found.use.role.value}:{found.state.record.kind}",
        confidence=confidence,
        level=level,
        evidence=tuple(
            q
            for q in (
                found.state.record.q,
                change.q if change is not None else 0,
                found.witness.q if found.witness is not None else 0,
            )
            if q
        ),
        count=found.graphs,
    )


def _sureness(found: Frozen) -> tuple[Severity, Confidence]:
    """An error needs a tie to the graph; a test that guards nothing which launches is a note."""
    if found.witness is not None:
        return Severity.ERROR, Confidence.PROVEN
    if found.ties:
        return Severity.ERROR, Confidence.LIKELY
    if found.use.role in {Role.EXTENT, Role.OPERAND}:
        return Severity.WARNING, Confidence.LIKELY  # a kernel whose launch nobody saw takes it
    return Severity.NOTE, Confidence.POSSIBLE
