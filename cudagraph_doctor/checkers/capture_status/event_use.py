"""CGD103: queries inside the capture, and captured events used on the host."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.edit import guarded, replace_nodes
from cudagraph_doctor.checkers.code.expression import Expression, called, dotted, find_expression
from cudagraph_doctor.checkers.wording.words import Words, at, begin_place, code, graph_name, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.findings import Fix, Location
    from cudagraph_doctor.session.model import Activity, CaptureState, EventMark, Session

RULE = Rule(
    id="CGD103",
    slug="query-in-capture",
    level=Severity.ERROR,
    what="An event or stream query on something the capture forbids (907 on a captured event; 900 on others), or a "
    "captured event used on the host afterwards.",
    see_also=("CGD101", "CGD110"),
    text="""\
## What it detects

`event.query()`, `stream.query()`, `event.synchronize()` or `elapsed_time()` on an event that was recorded inside the
capture, and any query made while a stream captures. Also the late form: after the capture, the host waits for, queries
or times an event whose last record was captured.

## Why it breaks

An event recorded while capturing marks a place in the graph, not a point in time: it never happens on the device, so
the host cannot wait for it (cudaError 907), nor time it afterwards (invalid argument). Queries of other events and
streams are refused with 900, because their answer would depend on work that is only being recorded.

## Bad

```python
with torch.cuda.graph(g):
    y = model(x)
    ready.record()
    ready.synchronize()
```

## Good

```python
timed = torch.cuda.Event(enable_timing=True, external=True)  # becomes a node of the graph
with torch.cuda.graph(g):
    y = model(x)
    timed.record()
g.replay()
done.record()                    # an event of the host's own, behind the replay
done.synchronize()
```

## Evidence needed

Python evidence: records and host uses of `torch.cuda.Event` and `torch.cuda.Stream`, and cuda-bindings' calls. Driver
evidence also sees those of libraries.
""",
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """A query, or a wait for a captured event, inside the capture."""
    location = cause.line(session)
    found = find_expression(session, location, lambda n: called(n) in {"query", "synchronize", "wait", "elapsed_time"})
    subject = code(found.text) if found.text else code(cause.call)
    mark = _mark(session, capture, cause.activity)
    graph = graph_name(session, capture)
    if cause.why == "captured-event":
        recorded = session.location(mark.by.stack) if mark is not None else None
        name = code(_event_name(found)) if _event_name(found) else "the event"
        message = (
            f"{subject} uses {name} on the host, but its last record{at(recorded)} was captured: it marks a place in "
            f"the graph and never happens{refused(cause)}."
        )
        remedy = (
            f"Inside the capture order streams with `wait_event`; wait on the host for an event recorded behind "
            f"{code(graph + '.replay()')}."
        )
        related = (recorded.with_note("recorded here, inside the capture"),) if recorded is not None else ()
    else:
        message = f"{subject} asks the GPU whether it is done while a stream is capturing{refused(cause)}."
        remedy = "Ask outside the captured region, or skip it with `if not torch.cuda.is_current_stream_capturing():`."
        related = ()
    return Words(message, remedy, fix=_skip(found, location), related=(*related, *begin_place(session, capture)))


def late_use(session: Session, capture: CaptureState, mark: EventMark, use: Activity) -> Words:
    """A captured event used on the host after the capture: the line to change is that of the record."""
    where, recorded = session.location(use.stack), session.location(mark.by.stack)
    found = find_expression(session, where, lambda n: called(n) in {"elapsed_time", "query", "synchronize"})
    record = find_expression(session, recorded, lambda n: called(n) in {"record", "record_event"})
    name = _event_name(record) or _event_name(found)
    subject = code(found.text) if found.text else code(use.name)
    event = code(name) if name else "the event"
    problem = "has no time" if "lapsed" in use.name or found.method == "elapsed_time" else "never happens on the device"
    return Words(
        message=f"{event} is recorded inside the capture, so it {problem}, and {subject}{at(where)} fails on the host.",
        remedy=f"Create {event} with `external=True`, which makes it a node of the graph; or record it around "
        f"{code(graph_name(session, capture) + '.replay()')} instead.",
        fix=_external(session, record, {name, *_arguments(found)} - {""}),
        location=recorded,
        related=tuple(p for p in (where.with_note("used on the host here") if where is not None else None,) if p)
        + begin_place(session, capture),
    )


def _mark(session: Session, capture: CaptureState, use: Activity | None) -> EventMark | None:
    event = getattr(use.record, "event", 0) if use is not None else 0
    marks = [
        m for m in session.event_marks.get(event, ()) if m.capture == capture.id and use is not None and m.by.q < use.q
    ]
    return marks[-1] if marks else None


def _event_name(found: Expression) -> str:
    return dotted(found.receiver) if found.receiver is not None else ""


def _arguments(found: Expression) -> list[str]:
    """`end` of `begin.elapsed_time(end)`."""
    return [dotted(a) for a in found.call.args] if found.call is not None else []


def _skip(found: Expression, location: Location | None) -> Fix | None:
    statement = found.statement
    if statement is None or location is None or not isinstance(statement, ast.Expr):
        return None
    return guarded(found.source, location, statement, "not torch.cuda.is_current_stream_capturing()")


def _external(session: Session, record: Expression, names: set[str]) -> Fix | None:
    """`torch.cuda.Event(enable_timing=True)` becomes one with `external=True`, where it is made in the same file."""
    tree = record.source.tree
    changes: dict[ast.Assign, dict[ast.expr, str]] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.Assign) or dotted(node.targets[0]) not in names or called(node.value) != "Event":
            continue
        call = node.value
        assert isinstance(call, ast.Call)
        given = [record.full(a) for a in call.args]
        named = [f"{k.arg}={record.full(k.value)}" for k in call.keywords if k.arg and k.arg != "external"]
        new = f"{record.full(call.func)}({', '.join([*given, *named, 'external=True'])})"
        changes.setdefault(node, {})[call] = new
    if not changes:
        return None
    first = min(changes, key=lambda n: n.lineno)
    near = {
        call: new for node, found in changes.items() for call, new in found.items() if node.lineno - first.lineno < 6
    }
    place = _place_of(session, record, first.lineno)
    return replace_nodes(record.source, place, first, near) if place is not None else None


def _place_of(session: Session, record: Expression, line: int) -> Location | None:
    """A location in the file of an expression."""
    from cudagraph_doctor.checkers.code.text import parsed
    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.frames import show_path, text_of

    for number, source in session.sources.items():
        text = text_of(source)
        if text is not None and parsed(text) is record.source:
            return Location(file=show_path(session.header, source.path), line=line, source=number)
    return None
