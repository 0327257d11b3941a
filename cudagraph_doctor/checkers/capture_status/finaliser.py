"""CGD106: a finaliser or a garbage collection made an unsafe call during the capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.invalidation.calls import is_collect
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, place, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD106",
    slug="finalizer-in-capture",
    level=Severity.ERROR,
    what="Garbage collection or a __del__ ran during the capture and made an unsafe call (module unload, free, event "
    "destroy).",
    needs=("driver", "gc", "bindings", "log"),
    see_also=("CGD105", "CGD302"),
    text="""\
## What it detects

A `__del__`, a `weakref.finalize` callback or the destructor of an extension's object that ran while a stream was
capturing, because a garbage collection or the last reference going away set it off, and that made a call which a
capture forbids: unload a module, free memory, wait for the device.

## Why it breaks

The call is refused with cudaError 900, which Python ignores in a finaliser, and the capture is invalid from there on.
The error shows up as 901 at the next operator. When a collection runs depends on how many objects were made, so the
failure comes and goes.

## Bad

```python
old_kernel = None              # in a reference cycle: lives until the next collection
with torch.cuda.graph(g):
    y = model(x)               # ... which may run here
```

## Good

```python
old_kernel = None
gc.collect()
gc.disable()
try:
    with torch.cuda.graph(g):
        y = model(x)
finally:
    gc.enable()
```

## Evidence needed

Python evidence: garbage collections in the window, and the refused call if it went through cuda-bindings or torch, or
the driver's own error log. Driver evidence also sees the calls of extensions.
""",
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """Which finaliser ran, and what it called."""
    finaliser = _finaliser(session, cause)
    location = _trigger(session, cause, finaliser)
    collected = _collection(capture, cause, location)
    by = f"{code(finaliser.function or '__del__')} at {place(finaliser)}" if finaliser is not None else "a finaliser"
    when = f", run by {collected}," if collected else ""
    return Words(
        message=f"{by}{when} called {code(cause.call)} while a stream was capturing{refused(cause, cause.call)}.",
        remedy="Run `gc.collect()` before the capture and keep collections off during it (`gc.disable()` … "
        "`gc.enable()`), and keep the object alive until the capture has ended.",
        location=location,
        related=(
            *((finaliser.with_note("the finaliser"),) if finaliser is not None and finaliser != location else ()),
            *begin_place(session, capture),
        ),
    )


def _finaliser(session: Session, cause: Cause) -> Location | None:
    places = (cause.line(session), *session.callers(cause.stack))
    return next((p for p in places if p is not None and (p.function or "").rpartition(".")[2] == "__del__"), None)


def _trigger(session: Session, cause: Cause, finaliser: Location | None) -> Location | None:
    """The line of the region during which the finaliser ran: the caller of the finaliser."""
    if finaliser is None:
        return None
    callers = session.callers(cause.stack)
    named = cause.line(session)
    if named == finaliser:
        return callers[0] if callers else None
    later = callers[callers.index(finaliser) + 1 :] if finaliser in callers else ()
    return later[0] if later else None


def _collection(capture: CaptureState, cause: Cause, location: Location | None) -> str:
    """What set the finaliser off, in words; empty where it was the last reference that went away."""
    asked = cause.activity is not None and is_collect(cause.activity.name)
    if asked or (location is not None and "gc.collect" in (location.code or "")):
        return "`gc.collect()`"
    running = ""
    for event in capture.gcs:
        if event.q < cause.key:
            running = "a garbage collection" if event.phase == "start" else ""
    return running
