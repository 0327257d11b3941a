"""The checker of the hundred-block CGD5xx, as far as refused launches decide it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.api import Checker
from cudagraph_doctor.checkers.invalidation.failures import failures
from cudagraph_doctor.checkers.launch_resources import cooperative, dimensions, registers, shared_memory
from cudagraph_doctor.checkers.wording.failed_capture import failed_capture

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding, Rule
    from cudagraph_doctor.session.model import Session

_MODULES = {module.RULE.id: module for module in (dimensions, shared_memory, registers, cooperative)}


class LaunchResources(Checker):
    """Launches refused because of their shape or of what their kernel needs."""

    name = "launch_resources"
    rules = tuple(module.RULE for module in _MODULES.values())

    def not_checked(self, rule: Rule, session: Session) -> str | None:
        """As usual; the simulated device has no limits of its own."""
        if session.header.backend == "sim":
            return "the simulated device runs no kernels"
        return super().not_checked(rule, session)

    def check(self, session: Session) -> Iterator[Finding]:
        """Yield the captures that a refused launch broke, or in which its node is missing."""
        for failure in failures(session):
            module = _MODULES.get(failure.cause.rule)
            if module is not None and not failure.harmless:
                words = module.explain(session, failure.capture, failure.cause)
                yield failed_capture(session, module.RULE, failure, words)
