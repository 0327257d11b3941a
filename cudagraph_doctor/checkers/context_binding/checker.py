"""The checker of the hundred-block CGD2xx, as far as refused launches decide it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.api import Checker
from cudagraph_doctor.checkers.context_binding import foreign_function
from cudagraph_doctor.checkers.invalidation.failures import failures
from cudagraph_doctor.checkers.wording.failed_capture import failed_capture

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding, Rule
    from cudagraph_doctor.session.model import Session


class ContextBinding(Checker):
    """Functions of one context launched on a stream of another."""

    name = "context_binding"
    rules = (foreign_function.RULE,)

    def not_checked(self, rule: Rule, session: Session) -> str | None:
        """As usual; the simulated device runs no code of a module."""
        if session.header.backend == "sim":
            return "the simulated device runs no kernels"
        return super().not_checked(rule, session)

    def check(self, session: Session) -> Iterator[Finding]:
        """Yield the captures in which a launch was refused because of its context."""
        for failure in failures(session):
            if failure.cause.rule == foreign_function.RULE.id and not failure.harmless:
                words = foreign_function.explain(session, failure.capture, failure.cause)
                yield failed_capture(session, foreign_function.RULE, failure, words)
