"""CGD401: memory that a graph uses was freed, or moved away, before a replay."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import find_expression
from cudagraph_doctor.checkers.code.text import source_of
from cudagraph_doctor.checkers.pointer_lifetime.illegal_access import illegal_access
from cudagraph_doctor.checkers.pointer_lifetime.provenance import Provenance, keeping, provenance, related_places
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.checkers.wording.words import Words, at, begin_place, code, graph_name
from cudagraph_doctor.findings import Confidence, Rule, Severity
from cudagraph_doctor.session.deaths import Death, deaths
from cudagraph_doctor.session.slots import rebound
from cudagraph_doctor.session.storages import GENERAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding
    from cudagraph_doctor.session.model import Session

RULE = Rule(
    id="CGD401",
    slug="freed-while-graph-alive",
    level=Severity.ERROR,
    what="Memory that a node of the graph uses was freed before a replay (reused, cached or unmapped); names the node, "
    "the allocation, who freed it and who owns it now.",
    needs=("storages",),
    see_also=("CGD402", "CGD403", "CGD404", "CGD405", "CGD407", "CGD409"),
    text="""\
## What it detects

A storage from before the capture that work of the graph reads or writes, and that was dead, or lived at another
address, when the graph was replayed. The finding names the line that made it, the work that uses it, the line that
freed it where that is known, and who has the address now. Memory that is the graph's own (made inside of the capture)
is CGD407; casts that autocast cached are CGD409; a tensor that was replaced by another one is CGD402 to CGD404.

## Why it breaks

A graph holds addresses, not tensors: it keeps nothing alive. When the last Python reference to a captured input goes,
the caching allocator takes its block back and gives it to the next tensor of that size. Replay then calculates with
somebody else's numbers, or overwrites them, without an error. If the block went back to the driver (`empty_cache()`),
the replay ends in an illegal memory access (cudaError 700), reported at some later synchronisation.

## Bad

```python
def build():
    bias = torch.full((1024,), 2.0, device="cuda")   # a local: gone when build() returns
    with torch.cuda.graph(g):
        out = x + bias
    return g, out
```

## Good

```python
class Head:
    def __init__(self, x):
        self.bias = torch.full((1024,), 2.0, device="cuda")   # lives as long as the graph
        with torch.cuda.graph(self.graph):
            self.out = x + self.bias
```

## Evidence needed

Weak references to the storages that captured operators use, looked at before each replay. Memory that is not torch's
is followed by the calls that free it (driver evidence, cuda-bindings). The nodes' own pointers are read where the graph
can be walked: torch 2.8 and newer, or the native probe.
""",
)

_NAMED = 3
"""Tensors named one by one."""


def findings(session: Session) -> Iterator[Finding]:
    """Yield storages that were gone at a replay, one for each statement that let go of them."""
    groups: dict[object, list[tuple[Death, Provenance]]] = {}
    for death in deaths(session):
        if _is_mine(session, death):
            story = provenance(session, death.storage, death.use, death.found)
            cause = story.cause or session.location(death.use.activity.stack)
            key = (cause.file, cause.line) if cause is not None else death.capture.id
            groups.setdefault(key, []).append((death, story))
    for group in groups.values():
        yield _finding(session, group)


def not_checked(session: Session) -> str | None:
    """The allocator tells nothing of its memory, or a graph was captured beside torch."""
    found = session.capabilities.get("allocator")
    if found is not None and found.state == "unavailable":
        return found.why
    if any(capture.begin.api.startswith("cu") for capture in session.captures):
        return "a capture was begun by CUDA's own API: memory that is not torch's is not followed"
    return None


def _is_mine(session: Session, death: Death) -> bool:
    """By the precedence of pointers: autocast's casts, rebound slots, the graph's own memory, host memory go before."""
    storage = death.storage
    if storage.on_host or storage.record.inside or storage.cached_cast:
        return False
    # Memory of another graph's pool stays that graph's, whatever became of the tensor.
    pooled = storage.record.pool not in {"", GENERAL} and death.last.now != "unmapped"
    if pooled and storage.record.pool in {graph.pool for graph in session.graphs.values()}:
        return False
    return rebound(session, storage.id, storage.record.ptr) is None


def _finding(session: Session, group: list[tuple[Death, Provenance]]) -> Finding:
    death, story = max(group, key=lambda one: _harm(one[0]))
    graph = graph_name(session, death.capture)
    names = list(dict.fromkeys(code(one.name) for _, one in group if one.name))
    count = len({one.storage.id for one, _ in group})
    crash = illegal_access(session) if death.last.now == "unmapped" else None
    harmful = _harm(death) > 0 or crash is not None
    cause = story.cause
    return finding(
        session,
        RULE,
        Words(
            message=f"{_subject(names, count, death)} {_fate(session, death, story)} before replay {death.replay} of "
            f"{code(graph)}, which still {_verb(session, death)}. {_now(death)}",
            remedy=_remedy(death, story, names, graph),
            location=cause,
            related=(*related_places(session, story, death.use), *begin_place(session, death.capture)),
        ),
        capture=death.capture,
        stack=death.use.activity.stack,
        trigger="freed" if not death.found.moved else "moved",
        confidence=Confidence.PROVEN if death.certain else Confidence.POSSIBLE,
        evidence=(death.storage.record.q, death.use.activity.q, death.found.q),
        level=Severity.ERROR if harmful else Severity.WARNING,
        consequences=(crash,) if crash is not None else (),
    )


def _harm(death: Death) -> int:
    return {"unmapped": 2, "reused": 1}.get(death.last.now, 1 if death.found.moved else 0)


def _subject(names: list[str], count: int, death: Death) -> str:
    if not names:
        return f"{count} captured tensors" if count > 1 else f"A captured tensor of {death.storage.record.size:,} bytes"
    more = count - min(len(names), _NAMED)
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _fate(session: Session, death: Death, story: Provenance) -> str:
    if death.found.moved:
        return "moved to other memory"
    place = story.dropped
    if place is None:
        return "lost its last reference and was freed"
    if story.deliberate:
        text = find_expression(session, place).statement
        said = source_of(session, place).segment(text).partition("\n")[0] if text is not None else ""
        return f"was freed by {code(said)}{at(place)}" if said else f"was freed{at(place)}"
    return f"was freed with its scope{at(place)}"


def _verb(session: Session, death: Death) -> str:
    place = session.location(death.use.activity.stack)
    text = find_expression(session, place, lambda n: isinstance(n, (ast.BinOp, ast.Call))).text
    writes = death.use.tensor is not None and death.use.tensor.written
    verb = "writes to its address" if writes else "reads its address"
    return f"{verb} in {code(text)}{at(place)}" if text else f"{verb}{at(place)}"


def _now(death: Death) -> str:
    last = death.last
    since = f" (seen at replay {last.replay})" if last.replay > death.replay else ""
    if last.now == "reused":
        return f"That memory belongs to {last.owner or 'another tensor'} now{since}: the graph works with its contents."
    if last.now == "unmapped":
        return f"That memory was given back to the driver{since}: the replay is an illegal access (cudaError 700)."
    if death.found.moved:
        return "The graph goes on with what the old memory holds."
    if last.now == "cached":
        return "The allocator keeps that memory for the next tensor of its size: until then the old contents remain."
    return "Who has that memory now is not known."


def _remedy(death: Death, story: Provenance, names: list[str], graph: str) -> str:
    what = ", ".join(names[:_NAMED]) or "the tensor"
    if story.deliberate and not death.found.moved:
        return (
            f"Keep {what} as long as {code(graph)} is replayed: leave out this line, or reset the graph before it and "
            "capture again afterwards."
        )
    if death.found.moved:
        return f"Change {what} in place with `copy_()`, or capture again after it has moved."
    keeper = keeping(graph, story.name) if len(names) == 1 else ""
    stored = f" ({code(keeper)})" if keeper else ""
    return f"Keep a reference to {what} as long as {code(graph)} is replayed: store it beside the graph{stored}."
