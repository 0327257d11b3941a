"""Loads of modules that went well, in the window of a capture: which of them have one cause, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import STATUS_ACTIVE
from cudagraph_doctor.findings import Severity
from cudagraph_doctor.session.apis import Family, family

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudagraph_doctor.session.model import Activity, CaptureState, Session

SLOW = 50_000_000
"""Nanoseconds in the window above which a load is a warning (the rule catalogue's threshold)."""


@dataclass
class Loads:
    """Loads of one capture with one cause: one call of the program's own, or the first use of torch's kernels."""

    capture: CaptureState
    calls: list[Activity] = field(default_factory=list)

    @property
    def first(self) -> Activity:
        """The load that stands for them."""
        return self.calls[0]

    @property
    def lazy(self) -> bool:
        """Kernels of torch or a library that were used for the first time, rather than a load that somebody wrote."""
        return is_lazy(self.first)

    @property
    def took(self) -> int:
        """Nanoseconds that they took together, as far as that was measured."""
        return sum(took(call) for call in self.calls)

    @property
    def level(self) -> Severity:
        """A warning where one of them cost what the catalogue calls much, else a note."""
        return Severity.WARNING if any(took(call) > SLOW for call in self.calls) else Severity.NOTE


def took(call: Activity) -> int:
    """Nanoseconds of a call; 0 where they were not measured."""
    outcome = call.outcome.took if call.outcome is not None else None
    return outcome or getattr(call.record, "took", None) or 0


def is_lazy(call: Activity) -> bool:
    """Whether it was made inside an operator: lazy loading, not a load that the program asked for."""
    return any(outer.kind == "op" for outer in call.enclosing())


def loads_in(session: Session, capture: CaptureState) -> Iterable[Loads]:
    """The loads of the capturing thread between the driver's begin and end of a capture, by cause."""
    found: dict[object, Loads] = {}
    for call in capture.calls():
        place = session.location(call.stack)
        if place is None or not _in_window(capture, call):
            continue
        key = "lazy" if is_lazy(call) else (place.file, place.line)
        found.setdefault(key, Loads(capture)).calls.append(call)
    for loads in found.values():
        # The driver's record of a call goes before that of the layer above, which tells of the same one.
        loads.calls = [c for c in loads.calls if _layer(c) == "driver"] or loads.calls
    return found.values()


def _in_window(capture: CaptureState, call: Activity) -> bool:
    """Whether it ran while the stream captured: `capture_begin` itself loads kernels before that."""
    if family(call.name) is not Family.MODULE_LOAD or call.failed or call.tid != capture.tid:
        return False
    if call.before is not None:
        return call.before == STATUS_ACTIVE
    begun = capture.begin_outcome.q if capture.begin_outcome is not None else capture.first_q
    return begun < call.q and (capture.end is None or call.q < capture.end.q)


def _layer(call: Activity) -> str:
    return str(getattr(call.record, "layer", ""))
