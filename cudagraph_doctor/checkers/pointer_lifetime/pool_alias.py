"""CGD407: memory of a graph's pool used outside as if it were its own, or by two graphs at once."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called, find_expression
from cudagraph_doctor.checkers.code.text import source_of
from cudagraph_doctor.checkers.pointer_lifetime.autocast_block import CAST, autocast_block
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.checkers.wording.words import Words, at, begin_place, code, graph_name
from cudagraph_doctor.findings import Confidence, Rule, Severity
from cudagraph_doctor.session.pointers import address_of
from cudagraph_doctor.session.pool_memory import EarlyRead, Overlap, captured_later, early_reads, rewiped
from cudagraph_doctor.session.pool_order import Clash, concurrent, overwritten
from cudagraph_doctor.session.unrecorded import in_part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.checkers.code.text import SourceText
    from cudagraph_doctor.findings import Finding, Location
    from cudagraph_doctor.session.model import CaptureState, Session
    from cudagraph_doctor.trace import events

RULE = Rule(
    id="CGD407",
    slug="graph-pool-alias",
    level=Severity.ERROR,
    what="A tensor created in the capture is used outside as if it were its own (lazily built table), or two graphs "
    "that share a pool run out of order or at the same time.",
    needs=("storages",),
    see_also=("CGD401", "CGD406", "CGD604"),
    text="""\
## What it detects

A tensor that came into being inside of the capture, was stored where the program expects something lasting (a lazily
built table, a workspace), and is used outside of the graph. And graphs that share a memory pool and overlap in it:
replayed at the same time, or so that one overwrites what is still read of the other. The finding says which bytes.

## Why it breaks

Memory allocated in a capture belongs to the graph's pool. Its content is what the last replay left there: nothing at
all before the first one, for a captured kernel is recorded and not run. Another graph of the same pool may put its
intermediate results there, which is safe only while the two run one after the other and nobody reads the rest.

## Bad

```python
def table(self):
    if self._table is None:                     # first use is inside of the capture
        self._table = torch.arange(n, device="cuda") * 0.5
    return self._table
```

## Good

```python
model.table()                                   # built before, in ordinary memory
with torch.cuda.graph(g):
    y = x * model.table()
```

## Evidence needed

The storages that operators of the window brought into being, who refers to them after it, and later work on them; the
pool of each capture, and the streams, events and waits around replays.
""",
)

_NEAR = 40
"""Lines between two replays up to which the text between them says whether the host waited."""
_HOST_READ = re.compile(r"\.(?:item|tolist|cpu|numpy)\(|\.to\(|print\(|float\(|int\(|synchronize")


def findings(session: Session) -> Iterator[Finding]:
    """Yield graphs of one pool that run at once or over each other's outputs, then captured tensors read too early."""
    seen: set[object] = set()
    together = (clash for clash in concurrent(session) if _is_sure(session, clash))
    for clash in (*together, *overwritten(session)):
        place = session.location(clash.later.stack)
        key = (place.file, place.line) if place is not None else clash.second.id
        if key not in seen:
            seen.add(key)
            yield _clash(session, clash)
    for early in early_reads(session):
        cast = early.made is not None and early.made.name == CAST
        cast = cast and autocast_block(session, early.capture.begin.stack) is not None
        place = session.location(early.made.stack) if early.made is not None else None
        key = (place.file, place.line) if place is not None else early.storage.id
        if key not in seen and not cast and _counts(session, early):
            seen.add(key)
            yield _early(session, early)
    for wiped in rewiped(session):
        place = session.location(wiped.made.stack) if wiped.made is not None else None
        key = (place.file, place.line) if place is not None else wiped.storage.id
        if key not in seen and place is not None and built_once(source_of(session, place), place.line):
            seen.add(key)
            yield _wiped(session, wiped)


def not_checked(session: Session) -> str | None:
    """Without a watch outside of captures only graphs that share a pool are looked at."""
    if session.header.backend == "sim":
        return None
    return in_part(session, ("touches",), "graphs replayed at the same time")


def _counts(session: Session, early: EarlyRead) -> bool:
    """Whether the program counts on what it reads: a lazily built thing, or values that go to the host.

    Eager work on an output before the first replay may be a warm-up of what comes behind the graph: its results are
    thrown away.
    """
    made = session.location(early.made.stack) if early.made is not None else None
    if made is not None and built_once(source_of(session, made), made.line):
        return True
    read = early.touch.what == "host-read" or not early.capture.replays
    return read and not captured_later(session, early)


def _is_sure(session: Session, clash: Clash) -> bool:
    """Whether nothing that was not recorded can have ordered two replays: a host that read a result in between."""
    if session.header.backend == "sim":
        return _raced(session, clash.overlap)
    if session.has("touches"):
        return True
    first, second = session.location(clash.earlier.stack), session.location(clash.later.stack)
    if first is None or second is None or first.source != second.source:
        return False
    lines = source_of(session, first).lines[min(first.line, second.line) - 1 : max(first.line, second.line)]
    return len(lines) <= _NEAR and not _HOST_READ.search("\n".join(lines))


def _clash(session: Session, clash: Clash) -> Finding:
    one, other = _named(session, clash)
    shared = clash.overlap
    mine, theirs = session.location(shared.first.stack), session.location(shared.second.stack)
    memory = f"{shared.size:,} bytes of their shared pool ({_work(session, mine)} and {_work(session, theirs)})"
    before = session.location(clash.earlier.stack)
    if clash.read is None:
        message = (
            f"This replay of {other} may run at the same time as the replay of {one}{at(before)}: both graphs use "
            f"{memory}, and no event or wait orders the two streams."
        )
        remedy = (
            "Let the second stream wait for the first between the two replays (`wait_stream`, or an event), or "
            "capture them with a pool each."
        )
    else:
        read = session.location(clash.read.stack)
        message = (
            f"This replay of {other} overwrites the output of {one}, which is read{at(read)} afterwards: the graphs "
            f"use the same {memory}."
        )
        remedy = f"Copy the output (`clone()`) before {other} is replayed, or capture the graphs with a pool each."
    return finding(
        session,
        RULE,
        Words(
            message=message,
            remedy=remedy,
            related=tuple(
                place.with_note(note)
                for place, note in (
                    (before, "the other replay"),
                    (session.location(clash.read.stack) if clash.read is not None else None, "the output is read here"),
                    (mine, "captured; writes there"),
                    (theirs, "captured; uses the same bytes"),
                    (session.location(clash.second.begin.stack), "the capture begins here"),
                )
                if place is not None
            ),
        ),
        capture=clash.second,
        stack=clash.later.stack,
        trigger="pool:concurrent" if clash.read is None else "pool:overwritten",
        confidence=Confidence.PROVEN if clash.read is not None or _raced(session, shared) else Confidence.LIKELY,
        evidence=(clash.earlier.q, clash.later.q, *((clash.read.q,) if clash.read is not None else ())),
    )


def _raced(session: Session, shared: Overlap) -> bool:
    """Whether the simulated device saw the two replays meet in that memory."""
    spans = [(address_of(race.ptr) or 0, race.size) for race in session.races]
    return any(start < shared.start + shared.size and shared.start < start + size for start, size in spans)


def _named(session: Session, clash: Clash) -> tuple[str, str]:
    """The graphs as the replays' lines call them, else as the captures do."""
    return _graph(session, clash.earlier, clash.first), _graph(session, clash.later, clash.second)


def _graph(session: Session, replay: events.Replay, capture: CaptureState) -> str:
    found = find_expression(session, session.location(replay.stack), lambda n: called(n) == "replay")
    name = found.show(found.receiver) if found.method == "replay" else ""
    return code(name or graph_name(session, capture))


def _work(session: Session, place: Location | None) -> str:
    found = find_expression(session, place, lambda n: isinstance(n, (ast.BinOp, ast.Call)))
    return f"{code(found.text)}{at(place)}" if found.text else f"captured work{at(place)}"


def _early(session: Session, early: EarlyRead) -> Finding:
    graph = graph_name(session, early.capture)
    made = session.location(early.made.stack) if early.made is not None else None
    read = session.location(early.touch.stack)
    source = find_expression(session, made)
    statement = source.statement
    target = source.show(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
    name = code(target) if target else "a tensor"
    return finding(
        session,
        RULE,
        Words(
            message=f"{name} is made inside of the capture of {code(graph)}: its kernel was recorded, not run. "
            f"{_work(session, read)} reads it before any replay has filled it.",
            remedy=f"Build {name} before the capture, by a warm-up call outside of it: then it has memory of its own "
            "and its contents.",
            location=made,
            related=(
                *((read.with_note("read outside of the graph, before its first replay"),) if read is not None else ()),
                *begin_place(session, early.capture),
            ),
        ),
        capture=early.capture,
        stack=early.touch.stack,
        trigger="pool:read-before-replay",
        confidence=Confidence.PROVEN,
        evidence=(early.storage.record.q, early.touch.q),
    )


def _wiped(session: Session, wiped: EarlyRead) -> Finding:
    graph = graph_name(session, wiped.capture)
    made = session.location(wiped.made.stack) if wiped.made is not None else None
    write = session.location(wiped.touch.stack)
    source = find_expression(session, made)
    target = source.show(source.statement.targets[0]) if isinstance(source.statement, ast.Assign) else ""
    name = code(target) if target else "A tensor"
    return finding(
        session,
        RULE,
        Words(
            message=f"{name} is built on first use, which is inside of the capture of {code(graph)}: each replay "
            f"builds it anew, over what {_work(session, write)} has put into it.",
            remedy=f"Build {name} before the capture, by a warm-up call outside of it.",
            location=made,
            related=(
                *((write.with_note("eager code writes into it"),) if write is not None else ()),
                *begin_place(session, wiped.capture),
            ),
        ),
        capture=wiped.capture,
        stack=wiped.touch.stack,
        trigger="pool:rebuilt-by-replay",
        confidence=Confidence.LIKELY,
        evidence=(wiped.storage.record.q, wiped.touch.q),
    )


def built_once(source: SourceText, line: int) -> bool:
    """Whether a statement runs only where something does not exist yet: `if x is None:`, `if key not in cache:`."""
    statement = source.statement_at(line)
    for node in source.ancestors(statement) if statement is not None else ():
        if isinstance(node, ast.If):
            tests = [part for part in ast.walk(node.test) if isinstance(part, (ast.Compare, ast.UnaryOp))]
            if any(_absent(part) for part in tests):
                return True
    return False


def _absent(test: ast.Compare | ast.UnaryOp) -> bool:
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    none = any(isinstance(c, ast.Constant) and c.value is None for c in test.comparators)
    return isinstance(test.ops[0], ast.NotIn) or (isinstance(test.ops[0], ast.Is) and none)
