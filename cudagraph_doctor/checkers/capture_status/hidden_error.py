"""CGD116: the first error of a capture was caught or masked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called, find_expression
from cudagraph_doctor.checkers.invalidation.texts import first_line, is_consequence
from cudagraph_doctor.checkers.wording.words import Words, at, begin_place, code, place
from cudagraph_doctor.findings import Consequence, Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.checkers.invalidation.failures import Failure
    from cudagraph_doctor.checkers.invalidation.told import Told
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD116",
    slug="capture-error-hidden",
    level=Severity.WARNING,
    what="The first error of a capture was caught or masked; later errors are its consequences, and the process is "
    "left in the state the finding lists.",
    see_also=("CGD101", "CGD701"),
    text="""\
## What it detects

A capture that failed without anybody being told why: the program caught the error and went on, or the error that ended
the region was replaced by the one that ending the capture raised. A failed attempt that is followed by a good capture
of the same region, and whose graph is never replayed, is only noted.

## Why it breaks

When a captured region raises, `torch.cuda.graph` ends the capture, which raises in turn; the first error survives only
as the context of the second. After a failed capture the capture stream can still be the current stream, the graph's
private memory pool is kept, and random state may be left in capture mode, so later code fails in places that did
nothing wrong.

## Bad

```python
try:
    with torch.cuda.graph(g):
        y = forward()
except Exception:
    pass                         # "graphs are optional"
g.replay()
```

## Good

```python
try:
    with torch.cuda.graph(g):
        y = forward()
except RuntimeError as error:
    log.warning("capture failed: %s", error.__context__ or error)
    torch.cuda.set_stream(torch.cuda.default_stream())
    g = None                     # run eagerly
```

## Evidence needed

Python evidence: the chain of exceptions, what the program did afterwards, and the state of stream, pool and random
state.
""",
)


def masked(session: Session, capture: CaptureState, told: Told) -> Words | None:
    """The program's own exception ended the region, and CUDA's complaint about the end took its place."""
    outcome = capture.end_outcome
    if outcome is None or outcome.exc is None or is_consequence(told.message, told.code):
        return None
    where = session.location(told.stack)
    said = f"{told.type}: {first_line(told.message)}".rstrip(": ")
    return Words(
        message=f"{code(said)} ended the captured region early{at(where)}; the error that is shown, "
        f"{code(first_line(outcome.exc.message))}, is its consequence.",
        remedy="Fix the first error; the one raised by the end of the capture then goes away by itself.",
        location=where,
    )


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """Something broke the capture that neither raised nor was seen."""
    location = cause.line(session)
    found = find_expression(session, location, lambda n: bool(called(n)))
    around = capture.change.between if capture.change is not None else (None, None)
    first, last = (session.location(a.stack) if a is not None else None for a in around)
    lines = f" between {place(first)} and {place(last)}" if first is not None and last is not None else at(location)
    suspect = f"; {code(found.text)} ran there" if found.text and cause.place is not None else ""
    related = tuple(
        p.with_note(note)
        for p, note in ((first, "still capturing after this"), (last, "invalid before this"))
        if p is not None
    )
    return Words(
        message=f"a call that this evidence does not see invalidated the capture{lines}{suspect}; the errors that are "
        "shown are its consequences.",
        remedy="Look for CUDA calls of extensions, finalisers and other threads there. A driver of CUDA 12.9 or newer "
        "names the refused call in its error log; driver evidence names the call and its line.",
        related=(*related, *begin_place(session, capture)),
    )


def unexplained(failure: Failure) -> Words:
    """A failed attempt whose cause another checker owns."""
    call = code(failure.cause.call)
    return Words(
        message=f"{call} was refused while a stream was capturing ({failure.cause.rule}).",
        remedy=f"See {failure.cause.rule}: `cudagraph-doctor explain {failure.cause.rule}`.",
    )


def consequences(session: Session, capture: CaptureState, told: Told) -> tuple[Consequence, ...]:
    """The error of the end, and the exception that ended the program if it holds the first one."""
    found = []
    exc = capture.end_outcome.exc if capture.end_outcome is not None else None
    if exc is not None and capture.end is not None:
        found.append(Consequence(first_line(exc.message), exc.code or exc.type, session.location(capture.end.stack)))
    for record in session.exceptions:
        if record.where == "uncaught" and any(link.message == told.message for link in record.chain):
            head = record.chain[0]
            said = f"{head.type}: {first_line(head.message)}".rstrip(": ")
            place = session.location(head.stack)
            if exc is not None and found and first_line(head.message) == first_line(exc.message):
                place = found.pop().location  # the end of the capture raised it: told once
            found.append(Consequence(f"the program ended with {said}", head.code or head.type, place))
    return tuple(found)


def retried(session: Session, capture: CaptureState, cause: Words) -> Words:
    """A failed attempt that was caught, and followed by a good capture of the same region."""
    again = session.location(capture.retry.begin.stack) if capture.retry is not None else None
    return Words(
        message=f"a capture failed here and was given up, and a later one{at(again)} succeeded: {cause.message}",
        remedy="Nothing is broken. To save the failed attempt and its memory: "
        f"{cause.remedy[0].lower()}{cause.remedy[1:]}",
        fix=cause.fix,
        related=cause.related,
        location=cause.location,
    )
