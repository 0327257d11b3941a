"""CGD604: Python state that the captured region changes, and that no replay changes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import find_expression
from cudagraph_doctor.checkers.frozen_values import calls
from cudagraph_doctor.checkers.frozen_values.outside_reads import outside_read
from cudagraph_doctor.checkers.frozen_values.rebound_inside import Rebound, rebound_inside
from cudagraph_doctor.checkers.frozen_values.values import LENGTH, show
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.checkers.wording.words import Words, at, begin_place, code, graph_name
from cudagraph_doctor.findings import Confidence, Rule, Severity
from cudagraph_doctor.session.frames import place as place_of
from cudagraph_doctor.session.slots import equal, plain
from cudagraph_doctor.session.unrecorded import in_part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding, Location
    from cudagraph_doctor.session.model import Session
    from cudagraph_doctor.session.slots import SlotState
    from cudagraph_doctor.trace import events

RULE = Rule(
    id="CGD604",
    slug="python-side-effect-skipped",
    level=Severity.WARNING,
    what="Python state changed in the captured region does not change on replay.",
    needs=("region",),
    see_also=("CGD601", "CGD605", "CGD404"),
    text="""\
## What it detects

A counter, list, dictionary or attribute that the captured region updates and that code outside of it reads after
several replays as if each of them had updated it; also an attribute that the region binds to a new tensor made from
the old one (`self.state = step(self.state)`), so that every replay starts from the same old one. State that the host
keeps up to date itself around the replays is not reported, nor is state that nobody reads afterwards.

## Why it breaks

A replay runs the recorded work on the device and no Python at all. What the region did to Python objects happened in
the warm-up and in the capture, and never again.

## Bad

```python
def step():
    cache.data.add_(x)
    cache.seen += 1                    # counted when Python runs, not by a replay
with torch.cuda.graph(g):
    step()
for _ in range(5):
    g.replay()
assert cache.seen == 5
```

## Good

```python
with torch.cuda.graph(g):
    cache.data.add_(x)
for _ in range(5):
    g.replay()
    cache.seen += 1
```

or a counter on the device, advanced by a captured `seen_dev.add_(1)`.

## Evidence needed

The region watch: what the region read and wrote, looks before replays, and reads of it outside of the region.
""",
)

_REPLAYS = 2
"""Replays by which a skipped update shows: behind the first one the state may still fit by the update at capture."""
_KEPT = 2
"""Times that the host moved the state between replays, from which on it is taken to keep it up to date."""


def findings(session: Session, *, but: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """Yield state that is read as if replays had updated it, and tensors that the region binds anew.

    Args:
        session: The process.
        but: Paths of slots of which another rule has told already that no replay advances them.
    """
    seen: set[tuple[str, object]] = set()
    for state in session.slots.values():
        if state.path in but or (state.path, _written_at(state)) in seen:
            continue
        if not _falls_behind(state):
            continue
        use = _counted_on(session, state)
        read = session.location(use.stack) if use is not None else None
        if use is None and not session.has("slot-uses"):
            read = outside_read(session, state)
        if use is not None or read is not None:
            seen.add((state.path, _written_at(state)))
            yield _finding(session, state, use, read)
    for rebound in rebound_inside(session):
        yield _of_rebound(session, rebound)


def not_checked(session: Session) -> str | None:
    """State tensors that a region rebinds show only where it is known who writes them outside."""
    return in_part(session, ("touches",), "values of Python")


def _falls_behind(state: SlotState) -> bool:
    """Whether the region updates the slot, several replays did not, and the host does not keep it itself."""
    record, capture = state.record, state.capture
    if capture is None or capture.replays < _REPLAYS or not (record.written or record.left):
        return False
    if not record.read and not (record.type == "int" and isinstance(plain(record.left), int)):
        return False  # made anew in each run: of these only numbers that count on (`self.id = next(ids)`)
    if not record.value or not record.left or equal(record.value, record.left) or record.value == "None":
        return False
    moves = sum(change.replay >= _REPLAYS for change in state.changes)
    return not (moves >= _KEPT or (moves and capture.replays <= _KEPT + 1))


def _counted_on(session: Session, state: SlotState) -> events.SlotUse | None:
    """The first read outside of the region, behind several replays, that does something with the value."""
    return next((use for use in state.uses if use.replay >= _REPLAYS and not _only_tells(session, use)), None)


def _only_tells(session: Session, use: events.SlotUse) -> bool:
    """Whether a read only puts the value into a log line or a progress bar, or into itself (`n += 1`)."""
    found = find_expression(session, session.location(use.stack))
    below: ast.AST | None = found.node
    for node in found.source.ancestors(found.node) if found.node is not None else ():
        if isinstance(node, ast.AugAssign):
            return below is node.target
        if isinstance(node, ast.Compare) or (isinstance(node, ast.IfExp) and below is node.test):
            return False  # it decides something
        if isinstance(node, ast.Call) and calls.tells(node):
            return True
        below = node
    return False


def _written_at(state: SlotState) -> object:
    return state.record.writes[-1][:2] if state.record.writes else None


def _finding(session: Session, state: SlotState, use: events.SlotUse | None, read: Location | None) -> Finding:
    record = state.record
    replays = use.replay if use is not None else state.capture.replays if state.capture is not None else _REPLAYS
    writes = [place_of(session, frame) for frame in record.writes if frame[0] in session.sources]
    main = writes[-1] if writes else session.location(record.stack)
    graph = graph_name(session, state.capture) if state.capture is not None else "graph"
    now = state.changes[-1].value if state.changes else record.left
    grew = LENGTH.fullmatch(record.left)
    what = (
        f"{code(state.path)} grows{at(main)} when the region runs in Python"
        if grew is not None
        else f"{code(state.path)} changes here when the region runs in Python ({show(record.value)} became "
        f"{show(record.left)} in the capture)"
    )
    words = Words(
        message=f"{what}; no replay does that: behind {replays} replays the program reads {show(now)}{at(read)} as "
        "if they had.",
        remedy=f"Do it on the host beside the replay (behind `{graph}.replay()`), or keep it in a tensor on the device "
        "that a captured operator updates in place.",
        location=main,
        related=(
            *((read.with_note("read here as if the replays had updated it"),) if read is not None else ()),
            *begin_place(session, state.capture),
        ),
    )
    return finding(
        session,
        RULE,
        words,
        capture=state.capture,
        stack=record.stack,
        trigger=f"side-effect:{record.kind}",
        confidence=Confidence.LIKELY,
        level=Severity.ERROR if use is not None else Severity.WARNING,
        evidence=(record.q, *((use.q,) if use is not None else ())),
    )


def _of_rebound(session: Session, rebound: Rebound) -> Finding:
    state = rebound.state
    record = state.record
    main = place_of(session, record.writes[-1]) if record.writes else session.location(record.stack)
    grown = f", of shape {rebound.after} in place of {record.shape}" if rebound.after not in {(), record.shape} else ""
    words = Words(
        message=f"The region binds {code(state.path)} to a new tensor here, made from the one that it held{grown}; no "
        "replay does that assignment: each one starts again from the tensor of the capture.",
        remedy=f"Keep one buffer for {code(state.path)}, made before the capture at its largest size, and update it in "
        f"place in the region (`{state.path}.copy_(...)`, `index_copy_`), so that a replay carries it on.",
        location=main,
        related=begin_place(session, state.capture),
    )
    return finding(
        session,
        RULE,
        words,
        capture=state.capture,
        stack=record.stack,
        trigger="rebound-in-region",
        confidence=Confidence.LIKELY,
        level=Severity.ERROR,
        evidence=(record.q,),
    )
