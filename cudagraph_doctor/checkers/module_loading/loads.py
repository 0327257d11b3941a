"""Loads of modules that went well, in the window of a capture: which of them have one cause, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import STATUS_ACTIVE
from cudagraph_doctor.checkers.wording.kernel_names import shown
from cudagraph_doctor.findings import Severity
from cudagraph_doctor.session.apis import Family, base_name, family
from cudagraph_doctor.session.served import served

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudagraph_doctor.session.model import Activity, CaptureState, Session

SLOW = 50_000_000
"""Nanoseconds in the window above which a load is a warning (the rule catalogue's threshold)."""
_GETS = frozenset({"cuModuleGetFunction", "cuLibraryGetKernel"})


@dataclass
class Loads:
    """Loads of one capture with one cause: one call of the program's own, or the first use of torch's kernels."""

    capture: CaptureState
    calls: list[Activity] = field(default_factory=list)
    memory: int = 0
    """Bytes of device memory that calls inside them allocated; what the driver takes for itself makes no call."""
    kernels: tuple[str, ...] = ()
    """Kernels of theirs that were asked for or launched next."""
    library: str = ""
    """Native library that made the first one, where it is known."""

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
        slow = any(took(call) > SLOW for call in self.calls)
        return Severity.WARNING if slow or self.memory else Severity.NOTE


def took(call: Activity) -> int:
    """Nanoseconds of a call; 0 where they were not measured."""
    outcome = call.outcome.took if call.outcome is not None else None
    return outcome or getattr(call.record, "took", None) or 0


def is_lazy(call: Activity) -> bool:
    """Whether it was made inside an operator: lazy loading, not a load that the program asked for."""
    return any(outer.kind == "op" for outer in call.enclosing())


def loads_in(session: Session, capture: CaptureState) -> Iterable[Loads]:
    """The loads for the capturing thread between the driver's begin and end of a capture, by cause."""
    found: dict[object, Loads] = {}
    for call in capture.calls():
        place = session.location(call.stack)
        if place is None or not _in_window(session, capture, call):
            continue
        key = "lazy" if is_lazy(call) else (place.file, place.line)
        found.setdefault(key, Loads(capture)).calls.append(call)
    for loads in found.values():
        # The driver's record of a call goes before that of the layer above, which tells of the same one.
        loads.calls = [c for c in loads.calls if _layer(c) == "driver"] or loads.calls
        loads.memory = _memory(capture, loads.calls)
        loads.kernels = tuple(dict.fromkeys(name for call in loads.calls if (name := _kernel(capture, call))))
        loads.library = str(getattr(loads.first.record, "lib", ""))
    return found.values()


def _memory(capture: CaptureState, loads: list[Activity]) -> int:
    """Bytes that calls inside of some loads allocated."""
    return sum(
        getattr(call.record, "size", None) or 0
        for call in capture.calls()
        if family(call.name) is Family.ALLOC and not call.failed and any(outer in loads for outer in call.enclosing())
    )


def _kernel(capture: CaptureState, load: Activity) -> str:
    """The kernel for whose sake a module was loaded: the one asked of it by name, else the next one launched."""
    handle = load.outcome.ptr if load.outcome is not None else ""
    for call in capture.calls():
        if call.q <= load.end_q or call.tid != load.tid or call.failed:
            continue
        if family(call.name) is Family.MODULE_LOAD:
            return ""
        name = str(getattr(call.record, "kernel", ""))
        if base_name(call.name) in _GETS and name and handle in getattr(call.record, "ptrs", ())[:1]:
            return shown(name)
        if family(call.name) is Family.LAUNCH:
            return shown(name) if name and (call.inside is load.inside or not is_lazy(load)) else ""
    return ""


def _in_window(session: Session, capture: CaptureState, call: Activity) -> bool:
    """Whether it ran while the stream captured: `capture_begin` itself loads kernels before that."""
    if family(call.name) is not Family.MODULE_LOAD or call.failed:
        return False
    if served(session, capture, call).tid != capture.tid:
        return False
    if call.before is not None:
        return call.before == STATUS_ACTIVE
    begun = capture.begin_outcome.q if capture.begin_outcome is not None else capture.first_q
    return begun < call.q and (capture.end is None or call.q < capture.end.q)


def _layer(call: Activity) -> str:
    return str(getattr(call.record, "layer", ""))
