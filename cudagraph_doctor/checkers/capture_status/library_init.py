"""CGD115: first use of a library inside the capture created handles or workspaces."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import find_expression
from cudagraph_doctor.checkers.invalidation.operators import library_of
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD115",
    slug="library-initialised-in-capture",
    level=Severity.ERROR,
    what="First use of cuBLAS/cuDNN/cuSOLVER/NCCL in the capture created handles or workspaces.",
    needs=("driver", "python"),
    see_also=("CGD105", "CGD303"),
    text="""\
## What it detects

The first matrix product, convolution, solver or collective of a thread, stream or process inside the capture: the
library then creates its handle or workspace, with allocations that are refused.

## Why it breaks

Handles and workspaces are made at first use, with `cudaMalloc`, `cudaFree` and module loads of the library's own, which
CUDA refuses to a capturing thread (cudaError 900). torch reports it as `CUBLAS_STATUS_NOT_INITIALIZED` or the like.
Handles belong to a thread and a stream: a warm-up elsewhere may not help.

## Bad

```python
with torch.cuda.graph(g):
    y = x @ w                 # the first matrix product of the process
```

## Good

```python
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    x @ w                     # one eager run of the same operators
torch.cuda.synchronize()
with torch.cuda.graph(g):
    y = x @ w
```

## Evidence needed

Python evidence: torch's own error, or the driver's error log with an allocation refused inside an operator that a
library serves. Driver evidence names the handle, and also sees initialisation that succeeded but cost time or memory.
""",
)


REMEDY = (
    "Run the region once eagerly before the capture, on the same thread and with the same shapes (a warm-up on a side "
    "stream), so that handles and workspaces exist."
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """The operator that used the library first."""
    location = cause.line(session)
    found = find_expression(session, location, may_use_library)
    subject = code(found.text) if found.text else code(cause.trigger)
    said = cause.exc.message if cause.exc is not None else ""
    library = _library(said) or library_of(cause.op.name if cause.op is not None else cause.trigger)
    how = re.search(r"when calling `(\w+)", said)
    creation = f" ({code(how[1])} failed)" if how is not None else refused(cause)
    return Words(
        message=f"{subject} is the first use of {library} here: it creates its handle or workspace while a stream is "
        f"capturing{creation}.",
        remedy=REMEDY,
        related=begin_place(session, capture),
    )


def may_use_library(node: ast.expr) -> bool:
    """Whether an expression can be what a library serves: a call or a matrix product."""
    return isinstance(node, ast.Call) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult))


def _library(said: str) -> str:
    for word, name in (
        ("cublas", "cuBLAS"),
        ("cudnn", "cuDNN"),
        ("cusolver", "cuSOLVER"),
        ("cusparse", "cuSPARSE"),
        ("cufft", "cuFFT"),
        ("nccl", "NCCL"),
    ):
        if word in said.lower():
            return name
    return ""
