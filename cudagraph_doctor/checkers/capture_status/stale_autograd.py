"""CGD114: a backward pass uses a stream remembered from before the capture."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called, dotted, find_expression
from cudagraph_doctor.checkers.code.text import source_of
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.capture_status.uncaptured import Uncaptured
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD114",
    slug="stale-autograd-stream",
    level=Severity.ERROR,
    what="Backward uses a stream remembered from before the capture (AccumulateGrad nodes, DDP).",
    see_also=("CGD110", "CGD112"),
    text="""\
## What it detects

A backward pass inside the capture that makes a stream of an earlier pass wait for captured work, or the other way round
(cudaError 905 or 906), or torch's own check of that (2.13 and newer).

## Why it breaks

Each parameter's AccumulateGrad node remembers the stream that was current when it was made, and lives as long as some
loss or DDP refers to it. If that was the default stream, the captured backward pass has to synchronise with it, which a
capture forbids.

## Bad

```python
warm_loss = model(x).sum()           # on the default stream, and kept alive
warm_loss.backward(retain_graph=True)
with torch.cuda.graph(g):
    loss = model(x).sum()
    loss.backward()
```

## Good

```python
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    warm_loss = model(x).sum()
    warm_loss.backward()
    del warm_loss                    # and with it the AccumulateGrad nodes
torch.cuda.current_stream().wait_stream(side)
with torch.cuda.graph(g):
    loss = model(x).sum()
    loss.backward()
```

## Evidence needed

Python evidence: the refused wait or operator under `run_backward`, or torch's own error.
""",
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """The backward call, and the earlier loss that keeps the old nodes alive."""
    location = cause.line(session)
    found = find_expression(session, location, lambda n: called(n) in {"backward", "grad"})
    subject = code(found.text) if found.text else "the backward pass"
    earlier = _earlier_backward(session, location)
    loss = dotted(earlier[1]) if earlier is not None else ""
    kept = f"something still alive (here probably {code(loss)})" if loss else "something that is still alive"
    drop = f"drop it (`del {loss}`)" if loss else "drop the warm-up's loss and outputs"
    note = (
        (earlier[0].with_note("an earlier backward pass, on the stream that is remembered"),)
        if earlier is not None
        else ()
    )
    return Words(
        message=f"{subject} has to synchronise with the stream of an earlier backward pass, which is not captured: "
        f"AccumulateGrad nodes kept by {kept} remember that stream{refused(cause)}.",
        remedy=f"Run the warm-up on a side stream and {drop} before the capture; create DDP on that stream too. torch "
        "2.13 and newer: `torch.autograd.graph.set_override_stale_capture_stream(True)`.",
        related=(*note, *begin_place(session, capture)),
    )


def explain_silent(session: Session, capture: CaptureState, work: Uncaptured) -> Words:
    """A backward pass that ran part of its work on the remembered stream, which was not refused and not captured."""
    location = session.location(work.activity.stack)
    found = find_expression(session, location, lambda n: called(n) in {"backward", "grad"})
    subject = code(found.text) if found.text else "the backward pass"
    earlier = _earlier_backward(session, location)
    loss = dotted(earlier[1]) if earlier is not None else ""
    drop = f"drop it (`del {loss}`)" if loss else "drop the warm-up's loss and outputs"
    note = (earlier[0].with_note("an earlier backward pass"),) if earlier is not None else ()
    return Words(
        message=f"{subject} runs {code(work.activity.name)} on the stream of an earlier pass, which is not part of the "
        "capture: it ran once, at capture time, and is missing from every replay.",
        remedy=f"Run the warm-up on a side stream and {drop} before the capture; create DDP on that stream too. torch "
        "2.13 and newer: `torch.autograd.graph.set_override_stale_capture_stream(True)`.",
        related=(*note, *begin_place(session, capture)),
    )


def _earlier_backward(session: Session, location: Location | None) -> tuple[Location, ast.expr] | None:
    """The last `.backward()` above a location in the same file, outside of every `with` around the location."""
    from dataclasses import replace

    source = source_of(session, location)
    if location is None or source.tree is None:
        return None
    here = source.statement_at(location.line)
    around = [a for a in source.ancestors(here) if isinstance(a, ast.With)] if here is not None else []
    best = None
    for node in ast.walk(source.tree):
        if called(node) == "backward" and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            inside = any(any(n is node for n in ast.walk(block)) for block in around)
            if node.lineno < location.line and not inside and (best is None or node.lineno > best.lineno):
                best = node
    if best is None:
        return None
    assert isinstance(best.func, ast.Attribute)
    line = source.lines[best.lineno - 1].strip()
    place = replace(location, line=best.lineno, end_line=None, column=None, end_column=None, code=line, note=None)
    return place, best.func.value
