"""The checker of the hundred-block CGD3xx, as far as refused calls decide it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.api import Checker
from cudagraph_doctor.checkers.invalidation.failures import failures
from cudagraph_doctor.checkers.invalidation.places import telling_stack
from cudagraph_doctor.checkers.module_loading import jit_or_autotune, load, unload, unloaded_under_graph
from cudagraph_doctor.checkers.module_loading.loads import loads_in
from cudagraph_doctor.checkers.wording.failed_capture import failed_capture
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.findings import Confidence
from cudagraph_doctor.session.apis import base_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.checkers.module_loading.loads import Loads
    from cudagraph_doctor.findings import Finding, Rule
    from cudagraph_doctor.session.model import Session

_MODULES = {module.RULE.id: module for module in (load, unload, jit_or_autotune)}


class ModuleLoading(Checker):
    """Modules loaded or unloaded, kernels compiled or tuned, where a capture met it."""

    name = "module_loading"
    rules = (*(module.RULE for module in _MODULES.values()), unloaded_under_graph.RULE)

    def not_checked(self, rule: Rule, session: Session) -> str | None:
        """As usual; the simulated device has neither modules nor compilers."""
        if session.header.backend == "sim":
            return "the simulated device loads no modules and compiles no kernels"
        return super().not_checked(rule, session)

    def check(self, session: Session) -> Iterator[Finding]:
        """Yield failed captures whose cause is a load, an unload, a compiler or a tuner, then what went well."""
        found = failures(session)
        for failure in found:
            module = _MODULES.get(failure.cause.rule)
            if module is None or failure.harmless:
                continue
            yield failed_capture(session, module.RULE, failure, module.explain(session, failure.capture, failure.cause))
        yield from _allowed_loads(session)
        yield from unloaded_under_graph.findings(session)


def _allowed_loads(session: Session) -> Iterator[Finding]:
    """Loads in a good capture that cost time and memory, one a cause; the same line's of later captures are counted."""
    found: dict[object, list[Loads]] = {}
    for capture in session.captures:
        for loads in loads_in(session, capture) if capture.status == "completed" else ():
            place = session.location(loads.first.stack)
            key = "lazy" if loads.lazy or place is None else (place.file, place.line)
            found.setdefault(key, []).append(loads)
    for group in found.values():
        worst = max(group, key=lambda loads: loads.took)
        yield _allowed(session, worst, sum(len(loads.calls) for loads in group))


def _allowed(session: Session, loads: Loads, count: int) -> Finding:
    module = jit_or_autotune if jit_or_autotune.compiled(session, loads.first) else load
    return finding(
        session,
        module.RULE,
        module.allowed(session, loads),
        capture=loads.capture,
        stack=telling_stack(session, loads.first),
        trigger=base_name(loads.first.name),
        confidence=Confidence.PROVEN,
        evidence=tuple(call.q for call in loads.calls),
        level=loads.level,
        count=count,
    )
