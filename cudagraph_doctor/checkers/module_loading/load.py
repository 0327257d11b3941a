"""CGD301: kernels or modules first loaded inside the capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called, find_expression
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import Activity, CaptureState, Session

RULE = Rule(
    id="CGD301",
    slug="module-loaded-in-capture",
    level=Severity.WARNING,
    what="Kernels were first loaded inside the capture (lazy loading): an error on drivers older than 12.3, latency "
    "and memory on newer ones.",
    needs=("driver", "bindings", "log"),
    see_also=("CGD302", "CGD303"),
    text="""\
## What it detects

A module or library of kernels loaded between begin and end of a capture.

## Why it breaks

Drivers older than CUDA 12.3 refuse it (cudaError 900) and invalidate the capture. Newer ones allow it: then it costs
time and device memory at a bad moment, and the first replay may be the first run of the code.

## Bad

```python
with torch.cuda.graph(g):
    kernel = load_kernel("op.cubin")      # cuModuleLoadData
    launch(kernel, x)
```

## Good

```python
kernel = load_kernel("op.cubin")
launch(kernel, x)                         # one eager call loads what is lazy
with torch.cuda.graph(g):
    launch(kernel, x)
```

## Evidence needed

Driver evidence sees every load with its duration. With python evidence: loads through cuda-bindings, and the driver's
error log for refused ones.
""",
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """A load that the driver refused."""
    found = find_expression(session, cause.line(session), _loads)
    subject = code(found.text) if found.text else code(cause.call)
    return Words(
        message=f"{subject} loads kernels while a stream is capturing, which this driver refuses{refused(cause)}.",
        remedy="Load modules before the capture (one eager call of each kernel), or set `CUDA_MODULE_LOADING=EAGER`.",
        related=begin_place(session, capture),
    )


def allowed(session: Session, capture: CaptureState, load: Activity) -> Words:
    """A load that went well: it only costs."""
    found = find_expression(session, session.location(load.stack), _loads)
    subject = code(found.text) if found.text else code(load.name)
    return Words(
        message=f"{subject} loads kernels while a stream is capturing: allowed by this driver, refused by those older "
        "than CUDA 12.3.",
        remedy="Load modules before the capture (one eager call of each kernel).",
        related=begin_place(session, capture),
    )


def _loads(node: object) -> bool:
    return "Load" in called(node)  # type: ignore[arg-type]
