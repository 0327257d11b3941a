"""CGD111: the capture was ended on another stream, by another thread, or was not open any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called, find_expression
from cudagraph_doctor.checkers.wording.words import Words, at, begin_place, code, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.code.expression import Expression
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD111",
    slug="capture-ended-wrongly",
    level=Severity.ERROR,
    what="Ended on another stream (903), by another thread (908), or not capturing any more (401).",
    see_also=("CGD109",),
    text="""\
## What it detects

A capture that is ended on a stream other than the one it began on (cudaError 903, or torch's `Capture must end on the
same stream it began on`), by a thread that did not begin it (908), or that is not open any more (401).

## Why it breaks

A capture belongs to its origin stream and, unless it was begun as `relaxed`, to the thread that began it. Executors
that run begin and end on different workers, and code that changes the current stream in between, meet this.

## Bad

```python
pool.submit(begin_capture).result()
pool.submit(end_capture).result()      # may be another thread
```

## Good

```python
def capture():
    with torch.cuda.graph(g):          # one thread, one stream
        return model(x)
y = pool.submit(capture).result()
```

## Evidence needed

Python evidence: the stream and thread of begin and end, and the code with which the end failed.
""",
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """Where it began, where it ended, and what differs."""
    location, begin = cause.line(session), session.location(capture.begin.stack)
    found = find_expression(session, location, lambda n: called(n) == "capture_end" or "EndCapture" in called(n))
    subject = code(found.text) if found.text else code(cause.api or "capture_end")
    related = begin_place(session, capture)
    if cause.why == "other-thread":
        ender = session.thread_name(cause.tid)
        starter = session.thread_name(capture.tid)
        return Words(
            message=f"{subject} runs on thread {code(ender)}, but the capture was begun{at(begin)} on thread "
            f"{code(starter)}{refused(cause)}.",
            remedy="Begin and end the capture on one thread: submit the whole captured region as one task. Or begin it "
            'with `capture_error_mode="relaxed"`, which any thread may end.',
            related=related,
        )
    if cause.why == "not-capturing":
        return Words(
            message=f"{subject} ends a capture on a stream that is not capturing any more{refused(cause)}.",
            remedy="End each capture once, on the stream it began on; look for an earlier end or an earlier error.",
            related=related,
        )
    origin = _origin(session, capture)
    return Words(
        message=f"{subject} ends the capture on another stream than {origin}, on which it began{at(begin)}"
        f"{refused(cause)}.",
        remedy=f"End it on the stream it began on ({origin}), after that stream has waited for any stream forked "
        "from it.",
        related=related,
    )


def _origin(session: Session, capture: CaptureState) -> str:
    found: Expression = find_expression(
        session, session.location(capture.begin.stack), lambda n: "BeginCapture" in called(n)
    )
    if found.call is not None and found.call.args and "BeginCapture" in found.method:
        return code(found.show(found.call.args[0]))
    stream = session.streams.get(capture.stream)
    return f"stream {stream.handle}" if stream is not None else "its origin stream"
