"""CGD406: an output of one replay is kept, and the next replay overwrites it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called, find_expression
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, graph_name
from cudagraph_doctor.findings import Confidence, Rule, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding
    from cudagraph_doctor.session.model import Session
    from cudagraph_doctor.session.outputs import OutputState
    from cudagraph_doctor.trace import events

RULE = Rule(
    id="CGD406",
    slug="output-overwritten",
    level=Severity.ERROR,
    what="An output of one replay is still used after the next replay overwrote it.",
    needs=("outputs",),
    see_also=("CGD407", "CGD408", "CGD953"),
    text="""\
## What it detects

An output of a graph that is kept from one replay to the next (in a list, a dictionary, an attribute, as a view) by more
and more holders, or that is read after the next replay. One name that always means the newest output, copies and
clones, and graphs that take turns with an output each, are not reported.

## Why it breaks

A graph writes its outputs to the same addresses in every replay. The tensor of the first replay and that of the second
are one: what was kept shows the newest values.

## Bad

```python
answers = []
for request in requests:
    x.copy_(request)
    g.replay()
    answers.append(y)                # four times the same tensor
```

## Good

```python
    answers.append(y.clone())
```

## Evidence needed

Reference counts of the output and of its storage before each replay, and who refers to it. `proven` where it was read
after it had been overwritten; `likely` where one container holds it several times.
""",
)

_MANY = 2
"""Times that one container holds an output, from which on it is kept across replays, and not only passed on."""
_CONTAINERS = frozenset({"list", "dict", "tuple", "deque", "set", "defaultdict", "OrderedDict"})


def findings(session: Session) -> Iterator[Finding]:
    """Yield outputs that are kept across replays, one for each place where they are put away."""
    seen: set[object] = set()
    for state in session.outputs.values():
        held = _kept(state)
        if held is None:
            continue
        place = session.location(held.stack)
        key = (place.file, place.line) if place is not None else (held.holder, state.record.cap)
        if key not in seen:
            seen.add(key)
            yield _finding(session, state, held)


def _kept(state: OutputState) -> events.Held | None:
    """The look that shows it: a later read, several times in one container, or more in it at each look."""
    read = next((held for held in state.held if held.read_stack), None)
    if read is not None:
        return read
    by_holder: dict[str, list[events.Held]] = {}
    for held in state.held:
        if held.holder_type in _CONTAINERS:
            by_holder.setdefault(held.holder, []).append(held)
    for looks in by_holder.values():
        many = next((held for held in looks if held.count >= _MANY), None)
        if many is not None:
            return many
    return None


def _finding(session: Session, state: OutputState, held: events.Held) -> Finding:
    place = session.location(held.stack)
    read = session.location(held.read_stack)
    main = place or read
    name = state.record.path or "the output"
    graph = graph_name(session, state.capture) if state.capture is not None else "graph"
    expression = find_expression(
        session, place, lambda node: called(node) in {"append", "add", "extend", "put", "insert"}
    )
    text = code(expression.text or name)
    holder = f" in {code(held.holder)}" if held.holder else ""
    made = session.location(state.record.stack)
    many = f" {held.count} times" if held.count >= _MANY else ""
    words = Words(
        message=f"{text} keeps the graph's own output {code(name)}{holder}{many}: every replay of `{graph}` overwrites "
        "it, so that all that was kept shows the newest one."
        if place is not None
        else f"{code(name)} is kept{holder}{many} while `{graph}` is replayed, which overwrites it.",
        remedy=f"Keep a copy: `{name}.clone()`, or copy each result into a buffer of its own before the next "
        f"`{graph}.replay()`.",
        location=main,
        related=(
            *((read.with_note("read here after the replay that overwrote it"),) if read is not None else ()),
            *((made.with_note("captured; makes the output"),) if made is not None else ()),
            *begin_place(session, state.capture),
        ),
    )
    return finding(
        session,
        RULE,
        words,
        capture=state.capture,
        stack=held.stack or held.read_stack,
        trigger=f"kept:{held.holder_type}",
        confidence=Confidence.PROVEN if held.read_stack and not held.guess else Confidence.LIKELY,
        evidence=(state.record.q, held.q),
    )
