"""CGD108: a graph replayed, or a second capture begun, inside a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called, dotted, find_expression
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD108",
    slug="graph-launch-in-capture",
    level=Severity.ERROR,
    what="A graph is replayed, or a second capture begun, inside a capture.",
    see_also=("CGD110",),
    text="""\
## What it detects

`graph.replay()` on a capturing stream, a capture begun while another one is open on the same thread, or a graph
instantiated while one is open.

## Why it breaks

CUDA does not record the launch of an executable graph into another graph this way: it refuses it (cudaError 900) and
invalidates the outer capture; torch 2.11 and newer refuse it first with a Python error. torch allows one capture at a
time.

## Bad

```python
with torch.cuda.graph(whole):
    block.replay()            # a graph captured before
    y = head(h)
```

## Good

```python
with torch.cuda.graph(whole):
    h = run_block(x)          # the function that `block` was captured from
    y = head(h)
```

## Evidence needed

Python evidence: torch's own error, `CUDAGraph` methods, and cuda-bindings' calls. Driver evidence also sees graphs
launched by libraries.
""",
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """The inner graph by its name."""
    location = cause.line(session)
    found = find_expression(
        session, location, lambda n: called(n) in {"replay", "graph", "capture_begin"} or "Graph" in called(n)
    )
    subject = code(found.text) if found.text else code(cause.call)
    if cause.why == "second-capture":
        return Words(
            message=f"{subject} begins or ends a second capture while another one is open on this thread"
            f"{refused(cause)}.",
            remedy="End the outer capture first, or capture both parts into one graph.",
            related=begin_place(session, capture, "the capture in question"),
        )
    name = dotted(found.receiver) if found.receiver is not None else ""
    return Words(
        message=f"{subject} replays a graph inside the capture of another one{refused(cause)}.",
        remedy=f"Capture the function that {code(name) if name else 'the inner graph'} was made from instead of "
        "replaying it; or replay the graphs one after another without an outer capture.",
        related=begin_place(session, capture, "the outer capture begins here"),
    )
