"""CGD105: memory allocated or freed directly, on the capturing thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called, find_expression
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, refused
from cudagraph_doctor.findings import Rule, Severity
from cudagraph_doctor.session.apis import Family

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.code.expression import Expression
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD105",
    slug="allocation-in-capture",
    level=Severity.ERROR,
    what="cudaMalloc/cudaFree/cudaMallocHost/... made directly (not through a caching allocator) on the capturing "
    "thread.",
    needs=("driver", "bindings", "log", "c-calls", "simulated"),
    see_also=("CGD104", "CGD106", "CGD115"),
    text="""\
## What it detects

A direct allocation or free on the capturing thread while its stream captures: `cudaMalloc`, `cudaFree`,
`cudaMallocHost`, `cudaHostAlloc`, pinning a tensor, trimming a memory pool. Memory taken from torch's caching allocator
is not meant: torch takes care that its own calls are allowed.

## Why it breaks

These calls may synchronise with the device, so CUDA refuses them to a thread that captures (cudaError 900) and
invalidates the capture. `thread_local` does not help: it is the same thread.

## Bad

```python
def op(batch):
    if batch > workspace.rows:
        workspace.grow(batch)     # cudaMalloc
    return kernel(batch, workspace)
```

## Good

```python
workspace.grow(MAX_BATCH)         # before the capture
with torch.cuda.graph(g):
    y = op(batch)
```

## Evidence needed

Driver evidence sees every allocation. With python evidence: calls through cuda-bindings, torch's C functions, or the
driver's own error log (CUDA 12.9 and newer).
""",
)

_DOES = {
    Family.ALLOC: "allocates device memory directly",
    Family.ASYNC_ALLOC: "allocates from another stream's memory pool",
    Family.HOST_ALLOC: "allocates pinned host memory",
    Family.HOST_REGISTER: "pins or unpins host memory",
    Family.FREE: "frees device memory directly",
    Family.HOST_FREE: "frees pinned host memory",
    Family.ASYNC_FREE: "frees stream-ordered memory on another stream",
    Family.MEMPOOL: "trims or changes a memory pool",
    Family.PROFILER: "starts or stops the profiler",
    Family.CONTEXT: "changes a context or device",
}


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """The allocation, by the user's call."""
    location = cause.line(session)
    found = find_expression(session, location, lambda n: bool(called(n)))
    subject = _subject(found, cause)
    what = _DOES.get(cause.family, "makes a call that CUDA refuses during a capture")
    size = getattr(cause.activity.record, "size", None) if cause.activity is not None else None
    amount = f" ({size:,} bytes)" if size else ""
    return Words(
        message=f"{subject} {what}{amount} on the thread that is capturing{refused(cause, subject)}.",
        remedy=_remedy(cause),
        related=begin_place(session, capture),
    )


def _subject(found: Expression, cause: Cause) -> str:
    if found.text:
        return code(found.text)
    return code(cause.call) if not cause.unseen else f"code that ran here ({code(cause.call)})"


def _remedy(cause: Cause) -> str:
    if cause.family in {Family.FREE, Family.HOST_FREE, Family.ASYNC_FREE, Family.MEMPOOL}:
        return "Free it after the capture has ended; keep the buffer alive while the graph is."
    if cause.family is Family.HOST_ALLOC:
        return "Pin the buffer before the capture and reuse it inside."
    if cause.family in {Family.ALLOC, Family.ASYNC_ALLOC}:
        return (
            "Allocate it before the capture at its largest size, or take it from `torch.empty`, whose caching "
            'allocator may be used while capturing. `capture_error_mode="thread_local"` does not help: it is the '
            "same thread."
        )
    return "Make the call before the capture begins or after it has ended."
