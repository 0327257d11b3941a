"""CGD104: another thread's call invalidated the capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.edit import replace_nodes
from cudagraph_doctor.checkers.code.expression import called, find_expression
from cudagraph_doctor.checkers.invalidation import legality
from cudagraph_doctor.checkers.invalidation.calls import is_device_wide
from cudagraph_doctor.checkers.invalidation.hints import hint_of
from cudagraph_doctor.checkers.invalidation.operators import short
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, refused
from cudagraph_doctor.findings import Rule, Severity
from cudagraph_doctor.session.apis import Family

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.findings import Fix
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD104",
    slug="unsafe-call-on-other-thread",
    level=Severity.ERROR,
    what="A call on another thread (pin-memory, offload, telemetry, NCCL watchdog) invalidated a global-mode capture.",
    needs=("driver", "bindings", "log", "c-calls", "simulated"),
    see_also=("CGD105", "CGD106"),
    text="""\
## What it detects

A CUDA call made by another thread than the capturing one that was refused and invalidated the capture: a pin-memory
thread's `cudaHostAlloc`, an offload worker's `cudaMalloc`, a telemetry thread's synchronise, a watchdog's event query.

## Why it breaks

In the default mode, `global`, a capture forbids potentially unsafe calls to every thread of the process. The other
thread gets cudaError 900 and often swallows it; the capturing thread only sees 901 at its next call, at a line that did
nothing wrong. Under `thread_local` only the capturing thread is restricted, except for calls that conflict in any
mode: waiting for the whole device, for the capturing stream, or for a captured event.

## Bad

```python
threading.Thread(target=prefetch_and_pin).start()
with torch.cuda.graph(g):
    y = model(x)
```

## Good

```python
threading.Thread(target=prefetch_and_pin).start()
with torch.cuda.graph(g, capture_error_mode="thread_local"):
    y = model(x)
```

## Evidence needed

Driver evidence sees every thread's calls. With python evidence: cuda-bindings' calls and torch's C functions on any
thread, or the driver's own error log (CUDA 12.9 and newer), which names the thread.
""",
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """The other thread, its call, and whether another mode would have been enough."""
    thread = _thread_name(session, cause.tid)
    location = cause.line(session)
    name = code(_call(session, cause))
    enough = _thread_local_is_enough(session, capture, cause)
    message = (
        f"thread {code(thread)} called {name} while this capture was open in {code(capture.mode)} mode; CUDA refused "
        f"it and invalidated the capture{refused(cause, name)}."
    )
    worker = f"pause thread {code(thread)} while capturing"
    if enough is False:
        remedy = (
            f"No capture mode allows this call, `thread_local` would not have helped: "
            f"{worker}, or let it wait for its own stream or event instead of the device."
        )
    elif enough is None:
        remedy = f"{worker[0].upper()}{worker[1:]}, or make the call before the capture begins."
    else:
        remedy = (
            'Capture with `capture_error_mode="thread_local"`: that would have been enough for this call. Or '
            f"{worker}, or let it run under `cudaThreadExchangeStreamCaptureMode` (relaxed)."
        )
    return Words(
        message,
        remedy,
        fix=_thread_local(session, capture) if enough else None,
        related=begin_place(session, capture, _note(location)),
    )


def _thread_local(session: Session, capture: CaptureState) -> Fix | None:
    """`torch.cuda.graph(g)` becomes `torch.cuda.graph(g, capture_error_mode="thread_local")`."""
    begin = session.location(capture.begin.stack)
    found = find_expression(session, begin, lambda n: called(n) in {"graph", "capture_begin"})
    call = found.call
    if begin is None or call is None or found.statement is None or found.method not in {"graph", "capture_begin"}:
        return None
    kept = [f"{k.arg}={found.full(k.value)}" for k in call.keywords if k.arg and k.arg != "capture_error_mode"]
    arguments = ", ".join([*(found.full(a) for a in call.args), *kept, 'capture_error_mode="thread_local"'])
    return replace_nodes(found.source, begin, found.statement, {call: f"{found.full(call.func)}({arguments})"})


def _note(location: object) -> str:
    return "the capture that it invalidated begins here" if location is not None else "the capture begins here"


def _thread_name(session: Session, tid: int) -> str:
    """The thread's name, from its record or from an exception that ended it."""
    if tid in session.threads:
        return session.thread_name(tid)
    return next((r.thread for r in session.exceptions if r.tid == tid and r.thread), session.thread_name(tid))


def _call(session: Session, cause: Cause) -> str:
    """The other thread's call in its own words."""
    if not cause.api and cause.op is None:
        line = find_expression(session, cause.line(session), lambda n: hint_of([n]) is not None)
        return line.text or "an unsafe CUDA function"
    found = find_expression(session, cause.line(session), lambda n: bool(called(n)) and _stands_for(called(n), cause))
    if found.call is not None and _stands_for(found.method, cause):
        return found.text
    if cause.op is not None:
        return cause.op.name
    if cause.api and found.text and cause.unseen:
        return found.text
    return cause.activity.name if cause.activity is not None and cause.activity.failed else cause.call


def _stands_for(name: str, cause: Cause) -> bool:
    """Whether a Python name can be the refused call: `cudaMalloc` for cuMemAlloc, `pin_memory` for cuMemHostAlloc."""
    if cause.activity is not None and cause.activity.name.rpartition(".")[2] == name:
        return True
    if cause.op is not None and short(cause.op.name).strip("_") == name:
        return True
    words = {
        Family.HOST_ALLOC: ("pin_memory", "HostAlloc", "MallocHost"),
        Family.ALLOC: ("Malloc", "MemAlloc"),
        Family.FREE: ("Free",),
        Family.SYNC: ("ynchronize", "item", "cpu", "tolist"),
        Family.EVENT_SYNC: ("ynchronize", "wait"),
        Family.EVENT_QUERY: ("query", "Query"),
        Family.QUERY: ("query", "Query"),
        Family.MODULE_UNLOAD: ("nload",),
    }
    return any(word in name for word in words.get(cause.family, ()))


def _thread_local_is_enough(session: Session, capture: CaptureState, cause: Cause) -> bool | None:
    """From the measured table; None where this call was not measured."""
    if capture.mode != "global":
        return False
    if cause.code == 907:
        return False
    api = cause.api or (cause.activity.name if cause.activity is not None else "")
    on_capturing = cause.activity is not None and cause.activity.on == 1
    if not api and cause.op is not None:
        return True  # an operator's own wait is for its own stream
    if is_device_wide(api):
        return False
    broken = legality.breaks_under("thread_local", api, on_capturing_stream=on_capturing)
    del session
    return None if broken is None else not broken
