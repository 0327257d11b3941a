"""CGD301: kernels or modules first loaded inside the capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called, find_expression, is_call
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.checkers.module_loading.loads import Loads
    from cudagraph_doctor.session.model import CaptureState, Session

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


def allowed(session: Session, loads: Loads) -> Words:
    """Loads that went well: they only cost."""
    first = loads.first
    location = session.location(first.stack)
    found = find_expression(session, location, is_call if loads.lazy else _loads)
    subject = code(found.text) if found.text else code(first.name)
    several = f" (one of {len(loads.calls)} modules that were first used here)" if len(loads.calls) > 1 else ""
    cost = f", which took {loads.took / 1e6:.1f} ms of the capture" if loads.took else ""
    if loads.memory:
        cost += f"{' and' if cost else ', which took'} {loads.memory / 2**20:.0f} MiB of device memory"
    others = dict.fromkeys(session.location(call.stack) for call in loads.calls[1:])
    related = tuple(p.with_note("another module was loaded here") for p in others if p is not None and p != location)
    return Words(
        message=f"{subject} loads {_what(loads)} while a stream is capturing{several}{cost}: allowed by this driver, "
        "refused by those older than CUDA 12.3.",
        remedy=_warm_up(found.text) if loads.lazy else _LOAD_BEFORE,
        related=(*related, *begin_place(session, loads.capture)),
    )


def _what(loads: Loads) -> str:
    """The kernels by name, where they are known, and the library that they come with."""
    names = ", ".join(code(name) for name in loads.kernels[:3])
    more = len(loads.kernels) - 3
    what = f"the kernel{'s' if len(loads.kernels) > 1 else ''} {names}" if names else "kernels"
    return what + (f" and {more} more" if more > 0 else "") + (f" of {loads.library}" if loads.library else "")


def _warm_up(expression: str) -> str:
    what = code(expression) if expression else "the region"
    return f"Run {what} once before the capture, or set `CUDA_MODULE_LOADING=EAGER`."


_LOAD_BEFORE = "Load modules before the capture, and launch each of their kernels once."


def _loads(node: object) -> bool:
    return "Load" in called(node)  # type: ignore[arg-type]
