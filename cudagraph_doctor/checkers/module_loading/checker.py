"""The checker of the hundred-block CGD3xx, as far as refused calls decide it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.api import Checker
from cudagraph_doctor.checkers.invalidation.aftermath import aftermath
from cudagraph_doctor.checkers.invalidation.failures import failures
from cudagraph_doctor.checkers.module_loading import jit_or_autotune, load, unload
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.checkers.wording.words import graph_name
from cudagraph_doctor.findings import Confidence, Severity
from cudagraph_doctor.session.apis import Family, base_name, family

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding, Rule
    from cudagraph_doctor.session.model import Session

_MODULES = {module.RULE.id: module for module in (load, unload, jit_or_autotune)}


class ModuleLoading(Checker):
    """Modules loaded or unloaded, kernels compiled or tuned, where a capture met it."""

    name = "module_loading"
    rules = tuple(module.RULE for module in _MODULES.values())

    def not_checked(self, rule: Rule, session: Session) -> str | None:
        """As usual; the simulated device has neither modules nor compilers."""
        if session.header.backend == "sim":
            return "the simulated device loads no modules and compiles no kernels"
        return super().not_checked(rule, session)

    def check(self, session: Session) -> Iterator[Finding]:
        """Yield failed captures whose cause is a load, an unload, a compiler or a tuner, then loads that went well."""
        found = failures(session)
        for failure in found:
            module = _MODULES.get(failure.cause.rule)
            if module is None or failure.harmless:
                continue
            capture, cause = failure.capture, failure.cause
            yield finding(
                session,
                module.RULE,
                module.explain(session, capture, cause),
                capture=capture,
                stack=cause.stack,
                trigger=base_name(cause.trigger),
                confidence=cause.confidence,
                evidence=cause.evidence,
                level=Severity.ERROR,
                consequences=failure.consequences(session),
                count=len(failure.captures),
                place=cause.place,
                after=aftermath(session, capture, graph_name(session, capture)),
            )
        yield from _allowed_loads(session)


def _allowed_loads(session: Session) -> Iterator[Finding]:
    """Loads in a good capture: a note, once a line."""
    seen: set[tuple[str, int]] = set()
    for capture in session.captures:
        for call in capture.calls() if capture.status == "completed" else ():
            place = session.location(call.stack)
            if family(call.name) is not Family.MODULE_LOAD or call.failed or call.tid != capture.tid or place is None:
                continue
            if (place.file, place.line) in seen:
                continue
            seen.add((place.file, place.line))
            yield finding(
                session,
                load.RULE,
                load.allowed(session, capture, call),
                capture=capture,
                stack=call.stack,
                trigger=base_name(call.name),
                confidence=Confidence.PROVEN,
                evidence=(call.q,),
                level=Severity.NOTE,
            )
