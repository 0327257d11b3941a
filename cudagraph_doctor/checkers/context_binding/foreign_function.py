"""CGD202: a function of another context is launched in the capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.wording.launches import launch_words
from cudagraph_doctor.checkers.wording.words import Words, begin_place, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD202",
    slug="foreign-context-function",
    level=Severity.ERROR,
    what="A function, module or stream of another context is used in the capture (400).",
    needs=("driver", "bindings", "log"),
    see_also=("CGD301",),
    text="""\
## What it detects

A launch in a capture that the driver refuses with 400 because the function was loaded in another context than the one
of the stream.

## Why it breaks

A module belongs to the context that was current when it was loaded. A library that makes a context of its own and loads
its kernels there cannot launch them on torch's streams, which belong to the primary context. The capture stays active:
it ends well, without the node, and every replay leaves the work out.

## Bad

```python
ctx = driver.cuCtxCreate(0, device)           # a context of the library's own
fn = load_function(PTX)                       # loaded into it
driver.cuCtxPopCurrent()
with torch.cuda.graph(g):
    launch(fn, torch.cuda.current_stream())   # 400
```

## Good

```python
ctx = driver.cuDevicePrimaryCtxRetain(device)  # the context that torch uses
driver.cuCtxPushCurrent(ctx)
fn = load_function(PTX)
driver.cuCtxPopCurrent()
with torch.cuda.graph(g):
    launch(fn, torch.cuda.current_stream())
```

## Evidence needed

Driver evidence sees every launch with its code. With python evidence: launches through cuda-bindings, or the driver's
own error log.
""",
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """The launch, and what the capture lost by it."""
    lost = "" if capture.change is not None else "; the capture goes on without the node"
    return Words(
        message=f"{launch_words(session, cause)} uses a function that was loaded in another context than the capturing "
        f"stream's{refused(cause)}{lost}.",
        remedy="Load the module while the device's primary context is current (`cuDevicePrimaryCtxRetain`, "
        "`cuCtxPushCurrent`): torch's streams belong to it.",
        related=begin_place(session, capture),
    )
