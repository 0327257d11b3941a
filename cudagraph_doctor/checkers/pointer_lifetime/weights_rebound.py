"""CGD403: parameters or buffers were replaced after the capture."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called
from cudagraph_doctor.checkers.pointer_lifetime import rebound_words as words_of
from cudagraph_doctor.checkers.pointer_lifetime.rebinding import Kind, Rebinding, rebindings
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.checkers.wording.words import Words, code
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.checkers.code.expression import Expression
    from cudagraph_doctor.findings import Finding
    from cudagraph_doctor.session.model import Session

RULE = Rule(
    id="CGD403",
    slug="weights-rebound",
    level=Severity.ERROR,
    what="Parameters or buffers were replaced after the capture (reload, LoRA, .to()).",
    needs=("region",),
    see_also=("CGD402", "CGD404", "CGD401"),
    text="""\
## What it detects

Parameters, registered buffers or whole modules that the captured region used and that are other tensors at a later
replay: `load_state_dict(assign=True)`, `.to()`, `param.data = ...`, an adapter that wraps a layer. One finding for one
store, with the list of what it replaced. Updates in place (`copy_`, the optimizer, `load_state_dict` as it is by
default) keep the address and are not reported.

## Why it breaks

The graph holds the addresses that the weights had at capture. Every replay calculates with the old ones, which may be
anybody's memory by then.

## Bad

```python
with torch.cuda.graph(g):
    y = layer(x)
layer.load_state_dict(adapter, assign=True)
g.replay()                                   # still the base weights
```

## Good

```python
layer.load_state_dict(adapter)               # copies into the captured parameters
g.replay()
```

or capture again after the weights were replaced.

## Evidence needed

The region watch: which parameters and buffers the region read, and looks at their addresses before replays. The line is
exact where a setter of `torch.nn.Module` or a watched store did it.
""",
)

_MOVES = frozenset({"to", "cuda", "cpu", "half", "float", "double", "bfloat16", "_apply", "to_empty", "type"})


def findings(session: Session) -> Iterator[Finding]:
    """Yield the weights that were replaced, those of one store together."""
    for found in rebindings(session) if session.slots else ():
        if found.kind is Kind.WEIGHT:
            yield _finding(session, found)


def _finding(session: Session, found: Rebinding) -> Finding:
    place = words_of.store_line(session, found)
    how, remedy = _cause(words_of.store(session, found), found)
    how = f"As it seems, {how}" if found.store.guess and not how.startswith("Something") else how
    old = words_of.old_work(session, found)
    module = found.state.record.role == "module"
    what = "another module" if module else "other tensors" if len(found.paths) > 1 else "another tensor"
    words = Words(
        message=f"{how} {words_of.slots(found)} by {what}; {old or 'the graph'} still uses the weights of the capture "
        f"in every replay{words_of.since(found)}{words_of.in_graphs(found)}.",
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
        trigger="weights-rebound",
        confidence=words_of.sureness(found),
        evidence=(found.state.record.q, found.change.q),
        count=found.graphs,
    )


def _cause(store: Expression, found: Rebinding) -> tuple[str, str]:
    """What replaced the weights, and what to do instead."""
    again = "or capture again afterwards"
    path = found.state.path
    name = store.method
    if name == "load_state_dict":
        return (
            f"{code(store.text)} replaces",
            f"Leave out `assign=True`, so that the values are copied into the captured parameters, {again}.",
        )
    if name in _MOVES:
        return f"{code(store.text)} replaces", f"Move and convert the model before the capture, {again}."
    statement = store.statement
    if isinstance(statement, ast.Assign):
        target = store.show(statement.targets[0])
        if target.endswith(".data"):
            value = store.show(statement.value, 40)
            return (
                f"{code(store.show(statement))} replaces the memory of",
                f"Copy into it: `{target}.copy_({value})`, {again}.",
            )
        if found.state.record.role != "module" and re.fullmatch(r"[\w.\[\]\"']+", target):
            return (
                f"{code(store.show(statement))} replaces",
                f"Copy into the captured parameter under `torch.no_grad()`: `{target}.copy_(...)`, {again}.",
            )
        return f"{code(store.show(statement))} replaces", f"Replace layers before the capture, {again}."
    if called(store.node):
        return f"{code(store.text)} replaces", f"Let it copy into the captured parameters in place, {again}."
    return "Something replaced", f"Copy into the captured tensor (`{path}.data.copy_(...)`), {again}."
