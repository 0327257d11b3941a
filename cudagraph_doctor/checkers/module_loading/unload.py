"""CGD302: a module or library unloaded while a stream was capturing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called, find_expression
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD302",
    slug="module-unloaded-in-capture",
    level=Severity.ERROR,
    what="A module or library was unloaded while a stream was capturing.",
    needs=("driver", "bindings", "log"),
    see_also=("CGD106", "CGD301"),
    text="""\
## What it detects

`cuModuleUnload` or `cuLibraryUnload` on the capturing thread while its stream captures, called directly. One that a
finaliser made is CGD106, one of another thread CGD104.

## Why it breaks

Unloading frees device memory, so CUDA refuses it to a thread that captures (cudaError 900) and invalidates the capture.

## Bad

```python
with torch.cuda.graph(g):
    driver.cuModuleUnload(old_module)
    y = model(x)
```

## Good

```python
driver.cuModuleUnload(old_module)
with torch.cuda.graph(g):
    y = model(x)
```

## Evidence needed

Driver evidence sees every unload. With python evidence: unloads through cuda-bindings, and the driver's error log.
""",
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """The unload by the user's call."""
    found = find_expression(session, cause.line(session), lambda n: "nload" in called(n))
    subject = code(found.text) if found.text else code(cause.call)
    return Words(
        message=f"{subject} unloads kernels while a stream is capturing{refused(cause)}.",
        remedy="Unload before the capture begins or after it has ended.",
        related=begin_place(session, capture),
    )
