"""CGD112: capture on the default stream, or a legacy-stream call while a blocking stream captures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called, find_expression, is_call
from cudagraph_doctor.checkers.wording.stream_names import stream_name
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, inside, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD112",
    slug="legacy-stream-in-capture",
    level=Severity.ERROR,
    what="Capture on the default stream, or a legacy-stream call while a blocking stream captures (906).",
    see_also=("CGD113", "CGD114"),
    text="""\
## What it detects

A capture that is begun on the default stream, or work on the default (legacy) stream while a *blocking* stream
captures (cudaError 906).

## Why it breaks

The legacy stream waits for every blocking stream and cannot be captured itself. If one of those streams captures, the
wait would be for work that is only being recorded. torch's own capture streams are non-blocking: with those, work on
the default stream is not refused but silently left out of the graph (CGD113).

## Bad

```python
g.capture_begin()                # the current stream is the default stream
y = model(x)
g.capture_end()
```

## Good

```python
with torch.cuda.graph(g):        # captures on a stream of its own
    y = model(x)
```

## Evidence needed

Python evidence: torch's own error, or the operator or call that was refused with 906.
""",
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """A begin on the default stream, or work on it."""
    location = cause.line(session)
    if cause.why == "default-stream":
        found = find_expression(
            session, location, lambda n: called(n) in {"capture_begin", "graph"} or "Begin" in called(n)
        )
        subject = code(found.text) if found.text else code(cause.call)
        return Words(
            message=f"{subject} begins a capture on the default stream, which cannot be captured{refused(cause)}.",
            remedy="Capture on a side stream: `with torch.cuda.graph(g):` makes one, or wrap begin and end in "
            "`with torch.cuda.stream(torch.cuda.Stream()):`. Replays may use the default stream.",
        )
    found = find_expression(session, location, is_call)
    name = stream_name(session, cause.stack)
    subject = code(found.text) if found.text else code(cause.call)
    where = f"on {code(name)}, the default stream," if name and "default" in name else "on the default stream"
    return Words(
        message=f"{subject} works {where} while a blocking stream is capturing{inside(cause) if not found.text else ''}"
        f"{refused(cause)}.",
        remedy="Run it on the capturing stream (leave out the switch to the default stream), or create the capture "
        "stream as non-blocking (`torch.cuda.Stream()`, `cudaStreamNonBlocking`); then this work has to be forked from "
        "and joined to it.",
        related=begin_place(session, capture, "the capture on the blocking stream begins here"),
    )
