"""CGD605: warm-up runs advanced state that the program then uses as if it were fresh."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_doctor.checkers.code.expression import called, find_expression
from cudagraph_doctor.checkers.frozen_values.in_place import never_set
from cudagraph_doctor.checkers.frozen_values.index_use import Memory, index_uses
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code
from cudagraph_doctor.findings import Confidence, Rule, Severity
from cudagraph_doctor.session.frames import place as place_of
from cudagraph_doctor.session.slots import plain
from cudagraph_doctor.session.unrecorded import in_part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding, Location
    from cudagraph_doctor.session.model import Activity, CaptureState, Session
    from cudagraph_doctor.session.slots import SlotState

RULE = Rule(
    id="CGD605",
    slug="state-advanced-by-warmup",
    level=Severity.ERROR,
    what="Warm-up or capture mutated state that the program then uses as if fresh; padded rows that a smaller batch "
    "leaves stale.",
    needs=("region",),
    see_also=("CGD601", "CGD604"),
    text="""\
## What it detects

A position on the device that the captured region uses as an index and advances in place, whose value at the first
replay is exactly what the runs before the capture (the warm-up) made of zero, and that nothing has set since. Also a
buffer of indices of which a smaller batch fills only the first rows, while the graph still writes memory at the places
that the other rows name.

## Why it breaks

Warm-up iterations are real: what they update in place stays updated. A capture runs nothing, but counts as Python. A
replay of a padded graph works on all its rows, also on those that this batch did not fill.

## Bad

```python
for _ in range(3):
    decode_step()                 # warm-up: pos is 3 now
with torch.cuda.graph(g):
    decode_step()
for token in range(4):
    g.replay()                    # rows 3 to 6 instead of 0 to 3
```

## Good

```python
for _ in range(3):
    decode_step()
cache.zero_(); pos.zero_()        # fresh again
with torch.cuda.graph(g):
    decode_step()
```

```python
slots[:n].copy_(slot_ids)
slots[n:].fill_(SCRATCH)          # the padded rows write where nobody reads
g.replay()
```

## Evidence needed

The region watch with the content and the version counter of one-element tensors; for padded rows the writes to the
graph's inputs between replays. `likely` at most: the program may mean to go on from there.
""",
)


class _Advance(NamedTuple):
    """The update in place inside of the region."""

    by: Activity
    step: int
    updates: int
    """How many updates one run of the region makes."""


def findings(session: Session) -> Iterator[Finding]:
    """Yield positions that only the warm-up has advanced."""
    seen: set[str] = set()
    for state in session.slots.values():
        if state.path in seen or not _untouched(session, state):
            continue
        assert state.capture is not None
        advance = _advance(state.capture, state)
        runs = _runs(session, state, advance) if advance is not None else 0
        if advance is None or not runs:
            continue
        if any(True for _ in index_uses(state.capture, state.record.storage, state.record.ptr)):
            seen.add(state.path)
            yield _finding(session, state, state.capture, advance, runs)


def not_checked(session: Session) -> str | None:
    """Stale rows take the writes outside of captures, running statistics the contents of tensors."""
    return in_part(session, ("touches", "contents"), "positions that the source text shows to be advanced")


def _untouched(session: Session, state: SlotState) -> bool:
    """A number on the device of known content, or that nothing sets, which the region read and nothing wrote since."""
    record, capture = state.record, state.capture
    if capture is None or not capture.replays or not state.is_input or not record.ptr or not record.version:
        return False
    if not isinstance(plain(record.left), int) and (record.left or not never_set(session, state)):
        return False
    first = next((r.q for r in session.replays if r.graph == capture.begin.graph and r.q > capture.last_q), None)
    if any(change.replay <= 1 and (change.refreshed or change.ptr) for change in state.changes):
        return False
    return not any(
        touch.what == "write"
        and touch.storage == record.storage
        and touch.q > capture.last_q
        and (first is None or touch.q < first)
        for touch in session.touches
    )


def _advance(capture: CaptureState, state: SlotState) -> _Advance | None:
    """The `pos.add_(1)` of the region, if every update of the tensor there is such a one."""
    memory = Memory(state.record.storage, state.record.ptr)
    found: list[tuple[Activity, int]] = []
    for activity in capture.ops():
        tensors = getattr(activity.record, "tensors", ())
        if not any(tensor.written and memory.holds(tensor) for tensor in tensors):
            continue
        name = activity.name.rpartition("::")[2].partition(".")[0]
        number = next((plain(text) for at, text in getattr(activity.record, "values", ()) if at == "1"), None)
        if name not in {"add_", "sub_"} or not isinstance(number, int):
            return None
        found.append((activity, -number if name == "sub_" else number))
    if not found:
        return None
    return _Advance(found[0][0], sum(step for _, step in found), len(found))


def _runs(session: Session, state: SlotState, advance: _Advance) -> int:
    """How many runs before the capture explain the whole content; 0 where they do not."""
    version, content = state.record.version or 0, plain(state.record.left)
    runs, rest = divmod(version, advance.updates)
    if rest or not runs:
        return 0
    if not state.record.left:  # nobody read the content; nothing in the text sets it, so that only the runs made it
        return runs
    explained = {runs * advance.step}
    if session.header.backend == "sim":  # it may have run what it captured
        explained.add((runs + 1) * advance.step)
    return runs if content and content in explained else 0


def _finding(session: Session, state: SlotState, capture: CaptureState, advance: _Advance, runs: int) -> Finding:
    path = state.path
    updated = session.location(advance.by.stack)
    warm = _warm_up(session, capture, advance.by)
    place = warm or updated
    times = "once" if runs == 1 else f"{runs} times"
    words = Words(
        message=f"Runs before the capture advanced {code(path)} {times}"
        f"{' here' if warm is not None else ''}, and nothing sets it back: it holds {runs * advance.step} at the first "
        "replay, where a fresh one holds 0.",
        remedy=f"Set it back behind the warm-up (`{path}.zero_()`, and the memory that it indexes), or warm up on "
        "copies; the capture itself runs nothing.",
        location=place,
        related=(
            *((updated.with_note(f"{code(path)} is advanced here"),) if updated is not None else ()),
            *begin_place(session, capture),
        ),
    )
    return finding(
        session,
        RULE,
        words,
        capture=capture,
        stack=advance.by.stack,
        trigger="advanced-by-warmup",
        confidence=Confidence.LIKELY,
        level=Severity.ERROR,
        evidence=(state.record.q, advance.by.q),
    )


def _warm_up(session: Session, capture: CaptureState, update: Activity) -> Location | None:
    """The last call before the capture of what the region calls to update it."""
    begin = session.location(capture.begin.stack)
    record = session.stacks.get(update.stack)
    if begin is None or record is None:
        return None
    for frame in record.frames:
        if frame[0] != begin.source or frame[2] != begin.function or frame[1] < begin.line:
            continue
        found = find_expression(session, place_of(session, frame), lambda node: bool(called(node)))
        name = called(found.node)
        before = [
            node
            for node in ast.walk(found.source.tree or ast.Module([], []))
            if isinstance(node, ast.Call) and called(node) == name and node.lineno < begin.line
        ]
        if name and before:
            call = max(before, key=lambda node: (node.lineno, node.col_offset))
            end = call.end_lineno, call.col_offset, call.end_col_offset
            return place_of(session, (frame[0], call.lineno, "", *end))
    return None
