"""CGD110: the capture waits for work outside of it, or would merge with another capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called, find_expression
from cudagraph_doctor.checkers.wording.stream_names import awaited
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, refused, stream_words
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD110",
    slug="wait-on-uncaptured-work",
    level=Severity.ERROR,
    what="The capture waits on an event recorded outside it (905), or would merge with another capture (902).",
    see_also=("CGD109", "CGD113", "CGD114"),
    text="""\
## What it detects

Inside the capture, a stream is made to wait for a stream or an event whose work is not part of the capture (cudaError
905), or for one that belongs to another capture (cudaError 902).

## Why it breaks

A graph can only depend on its own nodes. Work that was submitted before the capture, or is captured elsewhere, is not
one of them, so the wait is refused and the capture invalidated.

## Bad

```python
prefetch(copy_stream)
with torch.cuda.graph(g):
    torch.cuda.current_stream().wait_stream(copy_stream)
    y = model(x)
```

## Good

```python
prefetch(copy_stream)
torch.cuda.current_stream().wait_stream(copy_stream)   # before the capture, and before each replay
with torch.cuda.graph(g):
    y = model(x)
```

## Evidence needed

Python evidence: waits between torch streams and events, and cuda-bindings' calls. Driver evidence also sees those of
libraries.
""",
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """What is waited for, by the user's name."""
    location = cause.line(session)
    found = find_expression(session, location, lambda n: "wait" in called(n).lower())
    subject = code(found.text) if found.text else code(cause.call)
    name = awaited(found)
    other = getattr(cause.activity.record, "other", 0) if cause.activity is not None else 0
    what = code(name) if name else stream_words(session, other)
    recorded = _recorded(session, cause)
    related = (
        *((recorded.with_note("the event was last recorded here"),) if recorded is not None else ()),
        *begin_place(session, capture),
    )
    if cause.why == "merge":
        return Words(
            message=f"{subject} makes one capture wait for {what}, which belongs to another capture{refused(cause)}.",
            remedy="Capture the two graphs apart and order them when they are launched: let the stream of the second "
            "replay wait for that of the first.",
            related=related,
        )
    return Words(
        message=f"{subject} makes the capture wait for {what}, whose work is not captured{refused(cause)}.",
        remedy=f"Wait for {what} before the capture begins (and before each replay); or make it part of the capture: "
        "let it wait for the capturing stream first, and join it back before the end.",
        related=related,
    )


def _recorded(session: Session, cause: Cause) -> Location | None:
    event = getattr(cause.activity.record, "event", 0) if cause.activity is not None else 0
    marks = [m for m in session.event_marks.get(event, ()) if m.by.q < cause.key]
    return session.location(marks[-1].by.stack) if marks else None
