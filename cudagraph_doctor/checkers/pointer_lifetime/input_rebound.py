"""CGD402: the program bound another tensor where it should have copied into the captured one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called
from cudagraph_doctor.checkers.code.text import source_of
from cudagraph_doctor.checkers.pointer_lifetime import rebound_words as words_of
from cudagraph_doctor.checkers.pointer_lifetime.rebinding import Kind, Rebinding, rebindings
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.checkers.wording.words import Words, code
from cudagraph_doctor.findings import Rule, Severity
from cudagraph_doctor.session.frames import place as place_of
from cudagraph_doctor.session.unrecorded import in_part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding, Location
    from cudagraph_doctor.session.model import Session

RULE = Rule(
    id="CGD402",
    slug="input-rebound",
    level=Severity.ERROR,
    what="The caller bound a new tensor (or container element) instead of copying into the captured one: every replay "
    "reads the old memory.",
    needs=("region",),
    see_also=("CGD401", "CGD403", "CGD404"),
    text="""\
## What it detects

A name, attribute or element through which the captured region got a tensor, and which holds another tensor at a later
replay, while the graph still reads the first one and nobody writes into that. Also an element of a container that the
replaying function was handed anew and did not copy, while it copied others. A slot whose captured tensor the program
keeps refreshing, and one for whose every tensor a graph was captured, are not reported.

## Why it breaks

The graph holds the address of the first tensor. `x = batch` changes what the name `x` means in Python; the graph does
not know names.

## Bad

```python
with torch.cuda.graph(g):
    y = x @ w
for batch in batches:
    x = batch
    g.replay()
```

## Good

```python
with torch.cuda.graph(g):
    y = x @ w
for batch in batches:
    x.copy_(batch)
    g.replay()
```

## Evidence needed

The region watch: what the region read, looks before replays at what is there now, and whether the captured tensor was
written since. `proven` where its version counter says that it was not and the store was seen.
""",
)


def findings(session: Session) -> Iterator[Finding]:
    """Yield the inputs that were bound to other tensors."""
    for found in rebindings(session) if session.slots else ():
        if found.kind is Kind.INPUT:
            yield _finding(session, found)


def not_checked(session: Session) -> str | None:
    """Nested inputs that were not copied show only where it is known what a replaying function was handed."""
    return in_part(session, ("handed",), "slots that captured regions read")


def _finding(session: Session, found: Rebinding) -> Finding:
    given = bool(found.change.given)
    place = _refresh_line(session, found) if given else words_of.store_line(session, found)
    return finding(
        session,
        RULE,
        _not_copied(session, found, place) if given else _bound_anew(session, found, place),
        capture=found.state.capture,
        stack=found.change.stack or found.state.record.stack,
        trigger=f"rebound:{found.state.record.kind}",
        confidence=words_of.sureness(found),
        evidence=(found.state.record.q, found.change.q),
        count=found.graphs,
    )


def _bound_anew(session: Session, found: Rebinding, place: Location | None) -> Words:
    old = words_of.old_work(session, found)
    here = "" if found.store.place is None else " here, as it seems" if found.store.guess else " here"
    return Words(
        message=f"{words_of.slots(found)} {'are' if len(found.paths) > 1 else 'is'} bound to another tensor{here}; "
        f"{old or 'the graph'} still reads the one of the capture in every replay{words_of.since(found)}"
        f"{words_of.in_graphs(found)}.",
        remedy=f"Copy into the captured tensor: {words_of.copied(session, found)}, before "
        f"`{words_of.graph_of(session, found)}.replay()`.",
        fix=words_of.copy_in_place(session, found),
        location=place,
        related=words_of.related(session, found, place),
    )


def _not_copied(session: Session, found: Rebinding, place: Location | None) -> Words:
    path, given = found.state.path, found.change.given
    return Words(
        message=f"The new {code(given)} is not copied into {code(path)}, which the graph reads: what is copied here "
        f"leaves it out, and every replay{words_of.since(found)} sees the value of the capture.",
        remedy=f"Copy every tensor of the arguments, also inside of dictionaries, lists and dataclasses: "
        f"`{path}.copy_({given})` before `{words_of.graph_of(session, found)}.replay()`.",
        location=place,
        related=words_of.related(session, found, place),
    )


def _refresh_line(session: Session, found: Rebinding) -> Location | None:
    """The statement of the replaying function that decides what is copied: the test around its `copy_`, else that."""
    place = session.location(found.change.stack)
    source = source_of(session, place)
    statement = source.statement_at(place.line) if place is not None else None
    scope = source.enclosing(statement, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module) if statement else None
    copies = [
        node
        for node in ast.walk(scope or ast.Module([], []))
        if isinstance(node, ast.Call) and called(node) == "copy_" and place is not None and node.lineno <= place.line
    ]
    if not copies or place is None or place.source is None:
        return place
    copy = max(copies, key=lambda node: node.lineno)
    line = copy.lineno
    for above in source.ancestors(copy):
        if above is scope:
            break
        if isinstance(above, ast.If):
            line = above.lineno
            break
    return place_of(session, (place.source, line, place.function or "", None, None, None))
