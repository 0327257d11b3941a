"""CGD409: casts that autocast cached were captured, and die with the autocast block."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.edit import replace_lines
from cudagraph_doctor.checkers.code.text import source_of
from cudagraph_doctor.checkers.pointer_lifetime.autocast_block import (
    CAST,
    AutocastBlock,
    autocast_block,
    weights_written,
)
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.checkers.wording.words import Words, at, begin_place, code, graph_name
from cudagraph_doctor.findings import Confidence, Rule, Severity
from cudagraph_doctor.session.deaths import Death, deaths
from cudagraph_doctor.session.pool_memory import EarlyRead, early_reads
from cudagraph_doctor.session.uses import first_use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding, Fix
    from cudagraph_doctor.session.model import CaptureState, Session
    from cudagraph_doctor.session.storages import StorageState

RULE = Rule(
    id="CGD409",
    slug="autocast-cache-captured",
    level=Severity.ERROR,
    what="Casts cached by autocast were captured, or are freed under the graph.",
    needs=("storages",),
    see_also=("CGD401", "CGD407"),
    text="""\
## What it detects

A capture inside of an autocast block that was entered before it, with autocast's weight cache on: the graph reads a
cached half-precision copy of a weight which is freed when the block ends. And the other way round: a cast made in the
capture that stays in the cache, so that eager code of the same block reads memory which only a replay fills.

## Why it breaks

Autocast casts each weight once a block and keeps the copy until the outermost block is left. A warm-up inside of the
block fills the cache, so that the captured code finds the copy and the cast is no part of the graph. At the block's end
the copy is freed, and the graph goes on to read its address.

## Bad

```python
with torch.autocast("cuda", dtype=torch.float16):
    model(x)                                    # fills the cache
    with torch.cuda.graph(g):
        y = model(x)                            # reads the cached copies
```

## Good

```python
with torch.autocast("cuda", dtype=torch.float16, cache_enabled=False):
    model(x)
    with torch.cuda.graph(g):
        y = model(x)                            # the casts are captured
```

## Evidence needed

The storages that captured operators use, and that one of them is a cast that autocast holds; looks at them before each
replay.
""",
)


_TAKEN = frozenset({"reused", "unmapped"})


def findings(session: Session) -> Iterator[Finding]:
    """Yield captures that read cached casts which were gone or stale, and casts of a capture that eager code read."""
    lost: dict[int, list[Death]] = {}
    for death in deaths(session):
        if death.storage.cached_cast:
            lost.setdefault(death.capture.id, []).append(death)
    for found in lost.values():
        yield _freed(session, found)
    for storage in session.storages.values():
        capture = storage.capture
        if storage.cached_cast and capture is not None:
            updated = _updated(session, storage, capture) if capture.replays and capture.id not in lost else None
            if updated is not None:
                lost[capture.id] = []
                yield updated
    seen: set[int] = set()
    for early in early_reads(session):
        if early.storage.id in seen:
            continue
        seen.add(early.storage.id)
        if early.made is not None and early.made.name == CAST and autocast_block(session, early.capture.begin.stack):
            yield _read_before(session, early)


def _freed(session: Session, found: list[Death]) -> Finding:
    death = max(found, key=lambda one: one.last.now in _TAKEN)
    graph, block = graph_name(session, death.capture), autocast_block(session, death.capture.begin.stack)
    used = session.location(death.use.activity.stack)
    many = f"{len(found)} half-precision casts of weights" if len(found) > 1 else "the half-precision cast of a weight"
    left = session.location(death.found.stack) if not death.found.noticed else None
    entered = f" of {code(block.call)}" if block is not None else ""
    taken = death.last.now in _TAKEN
    them, their = ("They were", "their") if len(found) > 1 else ("It was", "its")
    now = (
        f"{their} memory belongs to {death.last.owner or 'other tensors'} now"
        if death.last.now == "reused"
        else f"{their} memory was given back to the driver"
        if taken
        else f"the allocator keeps {their} memory for the next tensor of that size"
    )
    return finding(
        session,
        RULE,
        Words(
            message=f"{code(graph)} reads {many} that autocast had cached before the capture. {them} freed when "
            f"the block{entered} was left, before replay {death.replay}: {now}.",
            remedy=_remedy(block),
            location=block.place if block is not None else None,
            fix=_fix(session, block),
            related=(
                *((used.with_note("captured; reads the cached cast"),) if used is not None else ()),
                *((left.with_note("the casts are freed here"),) if left is not None else ()),
                *begin_place(session, death.capture),
            ),
        ),
        capture=death.capture,
        stack=death.use.activity.stack,
        trigger="autocast-cache:freed",
        confidence=Confidence.PROVEN,
        evidence=(death.storage.record.q, death.use.activity.q, death.found.q),
        level=Severity.ERROR if taken else Severity.WARNING,
    )


def _updated(session: Session, storage: StorageState, capture: CaptureState) -> Finding | None:
    """The finding that weights change under a cast of theirs that the graph goes on reading."""
    block, use = autocast_block(session, capture.begin.stack), first_use(session, storage, capture)
    begin = session.location(capture.begin.stack)
    line = weights_written(block, begin.line) if block is not None and begin is not None else 0
    if block is None or use is None or not line:
        return None
    written = replace(block.place, line=line)
    graph = graph_name(session, capture)
    return finding(
        session,
        RULE,
        Words(
            message=f"{code(graph)} reads the cast of a weight that autocast had cached before the capture; the "
            f"weights are changed{at(written)}, and the graph goes on with the old cast.",
            remedy=_remedy(block),
            location=block.place,
            fix=_fix(session, block),
            related=(written.with_note("the weights change here"), *begin_place(session, capture)),
        ),
        capture=capture,
        stack=use.activity.stack,
        trigger="autocast-cache:stale",
        confidence=Confidence.LIKELY,
        evidence=(storage.record.q, use.activity.q),
    )


def _read_before(session: Session, early: EarlyRead) -> Finding:
    graph, block = graph_name(session, early.capture), autocast_block(session, early.capture.begin.stack)
    read = session.location(early.touch.stack)
    made = session.location(early.made.stack) if early.made is not None else None
    return finding(
        session,
        RULE,
        Words(
            message=f"Autocast cached a cast that was made inside of the capture: {code(early.touch.name)}{at(read)} "
            f"reads it before any replay of {code(graph)} has computed it.",
            remedy=_remedy(block),
            location=block.place if block is not None else None,
            fix=_fix(session, block),
            related=(
                *((made.with_note("captured; makes the cast"),) if made is not None else ()),
                *((read.with_note("eager code reads it"),) if read is not None else ()),
                *begin_place(session, early.capture),
            ),
        ),
        capture=early.capture,
        stack=early.touch.stack,
        trigger="autocast-cache:captured",
        confidence=Confidence.PROVEN,
        evidence=(early.storage.record.q, early.touch.q),
    )


def _remedy(block: AutocastBlock | None) -> str:
    call = block.without_cache if block is not None else ""
    shown = code(call) if call else "`cache_enabled=False` in that autocast block"
    return f"Use {shown} around warm-up and capture, or enter autocast inside of the captured function."


def _fix(session: Session, block: AutocastBlock | None) -> Fix | None:
    """The block with its cache off, where its call stands on one line."""
    if block is None or not block.without_cache:
        return None
    source = source_of(session, block.place)
    line = source.lines[block.place.line - 1] if block.place.line <= len(source.lines) else ""
    if line.count(block.call) != 1:
        return None
    new = line.replace(block.call, block.without_cache)
    return replace_lines(source, block.place, block.place.line, block.place.line, [new])
