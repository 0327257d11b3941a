"""From the id of a rule to the words for a cause of it: one entry for each rule that explains a failed capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.capture_status import (
    event_use,
    finaliser,
    fork_not_joined,
    hidden_error,
    host_copy,
    host_sync,
    isolation,
    legacy_stream,
    library_init,
    nested_graph,
    not_capturable,
    other_thread,
    random_state,
    raw_allocation,
    stale_autograd,
    wrong_end,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.checkers.wording.words import Words
    from cudagraph_doctor.findings import Rule
    from cudagraph_doctor.session.model import CaptureState, Session

    Explain = Callable[[Session, CaptureState, Cause], Words]

_MODULES = (
    host_sync,
    host_copy,
    event_use,
    other_thread,
    raw_allocation,
    finaliser,
    random_state,
    nested_graph,
    fork_not_joined,
    isolation,
    wrong_end,
    legacy_stream,
    stale_autograd,
    library_init,
    hidden_error,
    not_capturable,
)

EXPLAIN: dict[str, tuple[Rule, Explain]] = {module.RULE.id: (module.RULE, module.explain) for module in _MODULES}
