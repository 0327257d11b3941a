"""CGD405: the host memory behind a captured copy was freed, recycled or rewritten before the replay read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called, find_expression
from cudagraph_doctor.checkers.pointer_lifetime.provenance import Provenance, keeping, provenance, related_places
from cudagraph_doctor.checkers.pointer_lifetime.refills import Refill, refills
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.checkers.wording.words import Words, at, begin_place, code, graph_name
from cudagraph_doctor.findings import Confidence, Rule, Severity
from cudagraph_doctor.session.deaths import Death, deaths
from cudagraph_doctor.session.slots import rebound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding, Location
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD405",
    slug="host-memory-under-graph",
    level=Severity.ERROR,
    what="The host memory behind a captured copy was freed, recycled or rewritten before the replay read it.",
    needs=("storages",),
    see_also=("CGD102", "CGD401", "CGD408"),
    text="""\
## What it detects

A captured copy between the device and host memory whose host side was freed, was handed to another tensor by the
pinned allocator, or was written again while a replay that reads it was not known to be done.

## Why it breaks

The graph holds the address of the host memory and copies whatever is there when the node runs, not when `replay()` is
called: `replay()` returns at once. A pinned tensor without a reference goes back to the pinned allocator, which gives
its block to the next one. One that is refilled for the next request before the previous replay has read it gives that
replay the wrong request.

## Bad

```python
with torch.cuda.graph(g):
    x.copy_(staging, non_blocking=True)
for request in requests:
    staging.copy_(request)      # the previous replay may not have read it yet
    g.replay()
```

## Good

```python
for request in requests:
    done.synchronize()          # recorded behind the previous replay
    staging.copy_(request)
    g.replay()
    done.record()
```

## Evidence needed

Weak references to the pinned storages of captured copies and their version counters, looked at before each replay, and
the waits of the host between replays. A write through numpy or a raw pointer moves no version counter and is seen on
the simulated device only.
""",
)


def findings(session: Session) -> Iterator[Finding]:
    """Yield host memory that died under a captured copy, then such that was written while a replay needed it."""
    dead: dict[object, tuple[Death, Provenance]] = {}
    for death in deaths(session):
        if death.storage.on_host and rebound(session, death.storage.id, death.storage.record.ptr) is None:
            story = provenance(session, death.storage, death.use, death.found)
            key = _key(story.cause, death.capture)
            if key not in dead or _taken(death):
                dead[key] = death, story
    for death, story in dead.values():
        yield _freed(session, death, story)
    seen: set[object] = set()
    for refill in refills(session):
        key = _key(refill.place, refill.capture)
        if key not in seen:
            seen.add(key)
            yield _rewritten(session, refill)


def _key(place: Location | None, capture: CaptureState) -> object:
    return (place.file, place.line) if place is not None else capture.id


def _taken(death: Death) -> bool:
    return death.last.now in {"reused", "unmapped"} or any(r.what == "recycled" for r in death.storage.rewrites)


def _freed(session: Session, death: Death, story: Provenance) -> Finding:
    graph, taken = graph_name(session, death.capture), _taken(death)
    name = code(story.name) if story.name else "The host tensor of a captured copy"
    into = death.use.tensor is not None and death.use.tensor.written
    found = find_expression(session, session.location(death.use.activity.stack), lambda n: bool(called(n)))
    copy = code(found.text) if found.text else "the captured copy"
    kind = "pinned" if death.storage.record.space == "pinned" else "host"
    owner = death.last.owner or f"another {kind} tensor"
    if taken and into:
        harm = f"Its memory belongs to {owner} now, which each replay overwrites."
    elif taken:
        harm = f"Its memory belongs to {owner} now, and each replay copies that."
    else:
        harm = f"The {kind} allocator gives its memory to the next tensor of that size."
    dropped = at(story.dropped)
    keeper = keeping(graph, story.name)
    stored = f" ({code(keeper)})" if keeper else ""
    return finding(
        session,
        RULE,
        Words(
            message=f"{name}, {kind} memory that {copy} {'fills' if into else 'reads'} in every replay of "
            f"{code(graph)}, was freed{dropped} before replay {death.replay}. {harm}",
            remedy=f"Keep {name if story.name else 'it'} as long as {code(graph)} is replayed: store it beside the "
            f"graph{stored}.",
            location=story.cause,
            related=(*related_places(session, story, death.use), *begin_place(session, death.capture)),
        ),
        capture=death.capture,
        stack=death.use.activity.stack,
        trigger="host-memory:freed",
        confidence=Confidence.PROVEN if death.certain else Confidence.POSSIBLE,
        evidence=(death.storage.record.q, death.use.activity.q, death.found.q),
        level=Severity.ERROR if taken else Severity.WARNING,
    )


def _rewritten(session: Session, refill: Refill) -> Finding:
    graph = graph_name(session, refill.capture)
    name = code(refill.name) if refill.name else "The host memory of a captured copy"
    copy = session.location(refill.use.activity.stack) if refill.use is not None else None
    replay = session.location(refill.replay_stack)
    text = find_expression(session, refill.place, lambda n: bool(called(n))).text if refill.written is not None else ""
    by = f" by {code(text)}{at(refill.place)}" if text else ""
    return finding(
        session,
        RULE,
        Words(
            message=f"{name} is written again{by} while a replay of {code(graph)} that copies from it was not known "
            "to be done: that replay may read the next request's values.",
            remedy=f"Wait before it is filled: record an event behind {code(f'{graph}.replay()')} and call "
            "`event.synchronize()` first, or take turns with several buffers.",
            location=refill.place,
            related=(
                *((copy.with_note("captured; copies from it"),) if copy is not None else ()),
                *((replay.with_note("the replay that may not be done"),) if replay is not None else ()),
                *begin_place(session, refill.capture),
            ),
        ),
        capture=refill.capture,
        stack=refill.replay_stack,
        trigger="host-memory:rewritten",
        confidence=Confidence.PROVEN if refill.written is not None else Confidence.LIKELY,
        evidence=refill.evidence,
    )
