"""CGD109: a stream joined the capture and was not joined back before its end."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.edit import insert_after, insert_before
from cudagraph_doctor.checkers.code.expression import Expression, called, dotted, find_expression
from cudagraph_doctor.checkers.wording.stream_names import stream_name, waiting_stream
from cudagraph_doctor.checkers.wording.words import Words, at, begin_place, code, refused, stream_words
from cudagraph_doctor.findings import Confidence, Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.findings import Fix, Location
    from cudagraph_doctor.session.model import CaptureState, Fork, Session

RULE = Rule(
    id="CGD109",
    slug="fork-not-joined",
    level=Severity.ERROR,
    what="A stream joined the capture and was not joined back before its end (904).",
    see_also=("CGD110", "CGD113"),
    text="""\
## What it detects

A second stream that waited for the capturing one, and by that became part of the capture, got work, and was not waited
for again before the capture ended.

## Why it breaks

A graph needs one end that everything leads to. Work on a forked stream that nothing waits for has none, so ending the
capture fails with cudaError 904. The traceback shows the end of the capture, not the fork.

## Bad

```python
with torch.cuda.graph(g):
    side.wait_stream(torch.cuda.current_stream())   # fork
    with torch.cuda.stream(side):
        v = x @ wv
    k = x @ wk
```

## Good

```python
with torch.cuda.graph(g):
    side.wait_stream(torch.cuda.current_stream())   # fork
    with torch.cuda.stream(side):
        v = x @ wv
    k = x @ wk
    torch.cuda.current_stream().wait_stream(side)   # join
```

## Evidence needed

Python evidence: waits between torch streams, records and waits of events, and the code with which the end failed.
Driver evidence also sees forks made by libraries.
""",
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """The fork by its stream's name, and the join that is missing."""
    fork = next((f for f in capture.forks if not f.joined), None)
    location = cause.line(session)
    if fork is None:
        return Words(
            message=f"the capture ended while a stream that had joined it still had work of its own{refused(cause)}.",
            remedy="Let the capturing stream wait for every stream that was forked from it before the capture ends.",
            related=begin_place(session, capture),
            confidence=Confidence.LIKELY,
        )
    found = find_expression(session, location, lambda n: "wait" in called(n).lower())
    name = waiting_stream(found) or stream_name(session, fork.last_work.stack if fork.last_work is not None else 0)
    stream = stream_words(session, fork.stream, name)
    last = session.location(fork.last_work.stack) if fork.last_work is not None else None
    origin = session.location(capture.end.stack) if capture.end is not None else None
    related = (
        *((last.with_note(f"last work captured on {name or 'it'}"),) if last is not None and last != location else ()),
        *((origin.with_note("the capture ends here"),) if origin is not None else ()),
    )
    join = f"torch.cuda.current_stream().wait_stream({name or 'side'})"
    others = sum(not f.joined for f in capture.forks) - 1
    more = f" ({others} more streams are not joined either)" if others > 0 else ""
    return Words(
        message=f"{stream} joined the capture here and was never joined back: its work{at(last)} leads nowhere when "
        f"the capture ends{refused(cause)}{more}.",
        remedy=f"Let the capturing stream wait for {stream} before the capture ends: {code(join)}.",
        fix=_join(session, capture, found, location, fork, name) if location is not None else None,
        related=related,
    )


def _join(
    session: Session, capture: CaptureState, found: Expression, location: Location, fork: Fork, name: str
) -> Fix | None:
    """The join, put behind the last statement that can give the stream work."""
    statement = found.statement
    if statement is None or not name:
        return None
    code_ = _raw_join(found, session, capture, name) or f"torch.cuda.current_stream().wait_stream({name})"
    block = _block_with_work(session, found, fork, location)
    following = block[block.index(_holder(found, block, statement)) + 1 :]
    end = next((s for s in following if isinstance(s, (ast.Return, ast.Raise)) or _ends_capture(s)), None)
    if end is not None:
        return insert_before(found.source, location, end, code_)
    return insert_after(found.source, location, block[-1], code_)


def _raw_join(found: Expression, session: Session, capture: CaptureState, name: str) -> str:
    """The join in the runtime's own calls, for code that forks with `cudaStreamWaitEvent`."""
    call = found.call
    if call is None or "StreamWaitEvent" not in called(call):
        return ""
    module = dotted(call.func).rpartition(".")[0]
    prefix = f"{module}." if module else ""
    kind = "cuda" if called(call).startswith("cuda") else "cu"
    begin = find_expression(session, session.location(capture.begin.stack), lambda n: "BeginCapture" in called(n))
    origin = begin.full(begin.call.args[0]) if begin.call is not None and begin.call.args else "origin"
    create = "EventCreateWithFlags" if kind == "cuda" else "EventCreate"
    return "\n".join(
        [
            f"_, joined = {prefix}{kind}{create}(2)  # 2: without timing",
            f"{prefix}{kind}EventRecord(joined, {name})",
            f"{prefix}{kind}StreamWaitEvent({origin}, joined, 0)",
        ]
    )


def _block_with_work(session: Session, found: Expression, fork: Fork, location: Location) -> list[ast.stmt]:
    """The innermost list of statements that holds the fork and the last work of its stream, if that is in this file."""
    source, statement = found.source, found.statement
    assert statement is not None
    block = source.block_of(statement)
    work = session.location(fork.last_work.stack) if fork.last_work is not None else None
    inside = work is not None and work.file == location.file and work.function == location.function
    node: ast.AST = statement
    while inside and work is not None and not any(_covers(s, work.line) for s in block):
        above = source.enclosing(node, ast.stmt)
        if not isinstance(above, ast.stmt) or isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            break
        node, block = above, source.block_of(above)
    # A fork made inside `with torch.cuda.stream(side):` must be joined outside of it.
    while (
        (above := source.parents.get(block[0])) is not None and _switches_stream(above) and isinstance(above, ast.stmt)
    ):
        block = source.block_of(above)
    return block


def _holder(found: Expression, block: list[ast.stmt], statement: ast.stmt) -> ast.stmt:
    """The statement of a block that is, or holds, another."""
    around = [statement, *(a for a in found.source.ancestors(statement) if isinstance(a, ast.stmt))]
    return next(s for s in around if s in block)


def _covers(statement: ast.stmt, line: int) -> bool:
    return statement.lineno <= line <= (statement.end_lineno or statement.lineno)


def _switches_stream(node: ast.AST) -> bool:
    return isinstance(node, (ast.With, ast.AsyncWith)) and any(
        called(item.context_expr) == "stream" for item in node.items
    )


def _ends_capture(statement: ast.stmt) -> bool:
    return any(called(n) == "capture_end" or "EndCapture" in called(n) for n in ast.walk(statement))
