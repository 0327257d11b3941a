"""CGD404: memory that the graph writes, a cache or a table, was made anew after the capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.pointer_lifetime import rebound_words as words_of
from cudagraph_doctor.checkers.pointer_lifetime.rebinding import Kind, Rebinding, rebindings
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.checkers.wording.words import Words, code
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding
    from cudagraph_doctor.session.model import Session

RULE = Rule(
    id="CGD404",
    slug="buffer-reallocated",
    level=Severity.ERROR,
    what="A state buffer (KV cache, mask table) grew or was re-created after the capture.",
    needs=("region",),
    see_also=("CGD401", "CGD402", "CGD604"),
    text="""\
## What it detects

A tensor that the graph writes (a cache, a mask table, a recurrent state) and whose name, attribute or element holds
another tensor at a later replay: it was grown with `torch.cat`, made anew for a request, or reset by a new `zeros`.

## Why it breaks

The graph goes on writing into the old allocation, and reading from it. The program looks into the new one, where
nothing arrives.

## Bad

```python
with torch.cuda.graph(g):
    cache.index_copy_(0, slot, k_new)
cache = torch.cat([cache, torch.zeros_like(cache)])      # room for more
g.replay()                                               # writes into the old one
```

## Good

```python
cache = torch.zeros(MAX_TOKENS, dim, device="cuda")      # its largest size, before the capture
with torch.cuda.graph(g):
    cache.index_copy_(0, slot, k_new)
cache.zero_()                                            # a new request: in place
g.replay()
```

## Evidence needed

The region watch: what the region read, which captured operator writes it, and looks before replays at what is there.
""",
)


def findings(session: Session) -> Iterator[Finding]:
    """Yield the buffers that were made anew, those of one store together."""
    for found in rebindings(session) if session.slots else ():
        if found.kind is Kind.STATE:
            yield _finding(session, found)


def _finding(session: Session, found: Rebinding) -> Finding:
    place = words_of.store_line(session, found)
    before, after = found.state.record.shape, found.change.shape
    grown = f" (shape {tuple(after)} in place of {tuple(before)})" if after and after != before else ""
    old = words_of.old_work(session, found)
    name = code(found.state.path)
    graph = words_of.graph_of(session, found)
    remedy = (
        f"Make {name} at its largest size before the capture and never anew, or capture again after it grew."
        if grown
        else f"Reset {name} in place (`{found.state.path}.zero_()`, `{found.state.path}.copy_(...)`) before "
        f"`{graph}.replay()`, or capture again."
    )
    words = Words(
        message=f"{words_of.slots(found)} {'are' if len(found.paths) > 1 else 'is'} made anew{grown}; "
        f"{old or 'the graph'} still writes into the memory of the capture in every replay{words_of.since(found)}"
        f"{words_of.in_graphs(found)}.",
        remedy=remedy,
        location=place,
        related=words_of.related(session, found, place),
    )
    return finding(
        session,
        RULE,
        words,
        capture=found.state.capture,
        stack=found.change.stack or found.state.record.stack,
        trigger=f"reallocated:{found.state.record.kind}",
        confidence=words_of.sureness(found),
        evidence=(found.state.record.q, found.change.q),
        count=found.graphs,
    )
