"""CGD303: code was compiled or tuned inside the capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import find_expression, is_call
from cudagraph_doctor.checkers.invalidation import context
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.checkers.module_loading.loads import Loads
    from cudagraph_doctor.session.model import Activity, CaptureState, Session

RULE = Rule(
    id="CGD303",
    slug="jit-or-autotune-in-capture",
    level=Severity.ERROR,
    what="Triton compile or autotune, NVRTC, PTX JIT, cuDNN benchmark or torch.compile ran inside the capture.",
    needs=("driver", "python"),
    see_also=("CGD115", "CGD301"),
    text="""\
## What it detects

The first call of a kernel or a compiled function inside the capture, which compiles it or times candidates: Triton's
autotuner, `torch.compile`, `torch.backends.cudnn.benchmark`, NVRTC.

## Why it breaks

Timing a candidate runs it and waits for the device, which a capture forbids (cudaError 900); compiling may seed or save
random state, which torch forbids while capturing. The wait is the tuner's, the cause is the missing warm-up.

## Bad

```python
with torch.cuda.graph(g):
    silu_kernel[grid](x, out, n)      # first call: autotunes
```

## Good

```python
silu_kernel[grid](x, out, n)          # same autotune key, before the capture
torch.cuda.synchronize()
with torch.cuda.graph(g):
    silu_kernel[grid](x, out, n)
```

## Evidence needed

Python evidence: the frames of the tuner or compiler around the refused call, or torch's own error. Driver evidence also
sees compilation that succeeded but took time.
""",
)

_WHAT = {
    "autotune": "is tuned here: the autotuner times candidates on the GPU and waits for them",
    "compile": "is compiled here, at its first call",
    "cudnn-benchmark": "meets a new shape with `torch.backends.cudnn.benchmark = True`: cuDNN times its algorithms",
}
_REMEDY = {
    "autotune": "Call the kernel once with the same autotune key before the capture.",
    "compile": "Call the compiled function once with the same shapes before the capture.",
    "cudnn-benchmark": "Run the convolution once with the same shape before the capture, or set "
    "`torch.backends.cudnn.benchmark = False`.",
}


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """The call whose first run needed a warm-up."""
    found = find_expression(session, cause.line(session), is_call)
    subject = code(found.text) if found.text else code(cause.trigger)
    why = cause.why if cause.why in _WHAT else "compile"
    return Words(
        message=f"{subject} {_WHAT[why]} while a stream is capturing{refused(cause)}.",
        remedy=_REMEDY[why],
        related=begin_place(session, capture),
    )


def compiled(session: Session, load: Activity) -> bool:
    """Whether a load was made by a compiler or a tuner: the kernel was made here, not only loaded."""
    return context.under_autotune(session, load.stack) or context.under_compile(session, load.stack)


def allowed(session: Session, loads: Loads) -> Words:
    """A kernel that was compiled in a capture which went well."""
    found = find_expression(session, session.location(loads.first.stack), is_call)
    subject = code(found.text) if found.text else code(loads.first.name)
    why = "autotune" if context.under_autotune(session, loads.first.stack) else "compile"
    what = "is tuned" if why == "autotune" else "is compiled"
    return Words(
        message=f"{subject} {what} and loaded at its first call, while a stream is capturing: it works here, but costs "
        "time in the capture.",
        remedy=_REMEDY[why],
        related=begin_place(session, loads.capture),
    )
