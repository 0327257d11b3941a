"""CGD408: a replay is not ordered with the stream that writes its inputs or reads its outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called, find_expression
from cudagraph_doctor.checkers.pointer_lifetime.race_pairs import race_pairs
from cudagraph_doctor.checkers.pointer_lifetime.touch_pairs import touch_pairs
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.checkers.wording.stream_names import stream_name
from cudagraph_doctor.checkers.wording.words import Words, at, begin_place, code, stream_words
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.checkers.pointer_lifetime.unordered import Access, Unordered
    from cudagraph_doctor.findings import Finding, Fix
    from cudagraph_doctor.session.model import Session

RULE = Rule(
    id="CGD408",
    slug="replay-not-ordered",
    level=Severity.ERROR,
    what="Replay is not ordered with the stream that writes its inputs or reads its outputs.",
    needs=("touches", "simulated"),
    see_also=("CGD405", "CGD407", "CGD110"),
    text="""\
## What it detects

A replay, and work on another stream that writes an input of the graph before it, reads an output behind it, or fills an
input again while the replay may still read it, where no event, no wait and no synchronisation says which comes first.

## Why it breaks

A replay is ordered by the stream on which it is launched, as any other work, and by nothing else. A copy on a side
stream runs at the same time; the result depends on who is faster, and is right in most tests.

## Bad

```python
with torch.cuda.stream(copy_stream):
    x.copy_(host, non_blocking=True)
g.replay()                                            # may read x before the copy has run
```

## Good

```python
with torch.cuda.stream(copy_stream):
    x.copy_(host, non_blocking=True)
torch.cuda.current_stream().wait_stream(copy_stream)
g.replay()
copy_stream.wait_stream(torch.cuda.current_stream())  # before x is filled again
```

## Evidence needed

The simulated device knows the order of all its work. On a GPU: the thin watch outside of captures (streams, events,
waits, operators on memory of graphs); a writer that it does not see (an extension, another process) is not checked.
""",
)


def findings(session: Session) -> Iterator[Finding]:
    """Yield the pairs of a replay and other work that nothing orders, one for each pair of lines."""
    seen: set[object] = set()
    for pair in race_pairs(session) if session.header.backend == "sim" else touch_pairs(session):
        places = tuple(session.location(access.stack) for access in (pair.first, pair.second))
        key = tuple((place.file, place.line) if place is not None else None for place in places)
        if key not in seen and frozenset(key) not in seen:
            seen |= {key, frozenset(key)}
            yield _finding(session, pair)


def _finding(session: Session, pair: Unordered) -> Finding:
    first = session.location(pair.first.stack)
    return finding(
        session,
        RULE,
        Words(
            message=_message(session, pair),
            remedy=_remedy(session, pair),
            fix=_fix(session, pair),
            related=(
                *((first.with_note("the other work, on another stream"),) if first is not None else ()),
                *begin_place(session, pair.capture),
            ),
        ),
        capture=pair.capture,
        stack=pair.second.stack,
        trigger=f"unordered:{pair.what}",
        confidence=pair.confidence,
        evidence=pair.evidence,
    )


def _message(session: Session, pair: Unordered) -> str:
    one, other = pair.first, pair.second
    mine, theirs = _stream(session, other), _stream(session, one)
    memory = f" {code(pair.name)}" if pair.name else ""
    if other.replay and one.replay:
        return (
            f"This replay on {mine} uses memory{memory} that the replay{at(session.location(one.stack))} on {theirs} "
            "uses too, and nothing says which comes first."
        )
    if other.replay:
        return (
            f"This replay on {mine} does not wait for {_work(session, one)} on {theirs}, which "
            f"{'writes' if one.writes else 'reads'} the graph's{memory or ' input'}: nothing says which comes first."
        )
    verb = "writes" if other.writes else "reads"
    return (
        f"{_work(session, other, place=False)} on {mine} {verb} the graph's{memory or ' memory'} and does not wait for "
        f"the replay{at(session.location(one.stack))} on {theirs}: nothing says which comes first."
    )


def _work(session: Session, access: Access, *, place: bool = True) -> str:
    location = session.location(access.stack)
    text = find_expression(session, location, lambda node: bool(called(node))).text or access.name
    return code(text) + (at(location) if place else "")


def _stream(session: Session, access: Access) -> str:
    return stream_words(session, access.stream, stream_name(session, access.stack))


def _waits(session: Session, pair: Unordered) -> tuple[str, str]:
    """What has to wait, and for what, as expressions; the general words where a stream has no name in the code."""
    current = "torch.cuda.current_stream()"
    return (
        stream_name(session, pair.second.stack) or current,
        stream_name(session, pair.first.stack) or current,
    )


def _remedy(session: Session, pair: Unordered) -> str:
    waiter, awaited = _waits(session, pair)
    if waiter == awaited:
        return "Let the second stream wait for the first (`wait_stream`, or an event) between the two."
    before = "before the replay" if pair.second.replay else "before it"
    return f"`{waiter}.wait_stream({awaited})` {before}, or an event recorded behind the one and awaited by the other."


def _fix(session: Session, pair: Unordered) -> Fix | None:
    """The wait, put before the replay."""
    from cudagraph_doctor.checkers.code.edit import alone, insert_before

    waiter, awaited = _waits(session, pair)
    location = session.location(pair.second.stack)
    found = find_expression(session, location)
    plain = all(part.isidentifier() for part in awaited.split("."))
    if not pair.second.replay or location is None or found.statement is None or not plain or waiter == awaited:
        return None
    if not alone(found.source, found.statement):
        return None
    return insert_before(found.source, location, found.statement, f"{waiter}.wait_stream({awaited})")
