"""CGD118: a component refuses capture by design."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called, dotted, find_expression
from cudagraph_doctor.checkers.code.text import source_of
from cudagraph_doctor.checkers.invalidation.texts import first_line
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD118",
    slug="not-capturable-state",
    level=Severity.ERROR,
    what="A component refuses capture by design (optimizer with capturable=False, checkpoint with preserve_rng_state, "
    "hooks in make_graphed_callables).",
    see_also=("CGD107",),
    text="""\
## What it detects

A component that says itself that it cannot be captured as it is: an optimizer made without `capturable=True`,
activation checkpointing that saves random state, modules with hooks given to `make_graphed_callables`, or any library
that raises such an error.

## Why it breaks

The component does something on the host at every step (counts steps, saves random state, calls a hook) that a replay
would skip, so it refuses. The CUDA capture itself is not at fault and stays active.

## Bad

```python
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
with torch.cuda.graph(g):
    loss(model(x)).backward()
    opt.step()
```

## Good

```python
opt = torch.optim.Adam(model.parameters(), lr=torch.tensor(1e-3, device="cuda"), capturable=True)
with torch.cuda.graph(g):
    loss(model(x)).backward()
    opt.step()
```

## Evidence needed

Python evidence: the component's own error and the line that led to it.
""",
)


def explain(session: Session, capture: CaptureState | None, cause: Cause) -> Words:
    """The component's refusal, with what makes it capturable."""
    location = cause.line(session)
    found = find_expression(session, location, lambda n: bool(called(n)))
    subject = code(found.text) if found.text else "a component"
    said = first_line(cause.exc.message).rstrip(".") if cause.exc is not None else "it cannot be captured"
    related = begin_place(session, capture)
    if cause.why == "optimizer":
        owner = dotted(found.receiver) if found.receiver is not None else ""
        made = _made(session, location, owner)
        kind = made[1] if made is not None else "the optimizer"
        related = (*((made[0].with_note(f"{owner} is made here"),) if made is not None else ()), *related)
        return Words(
            message=f"{subject} refuses to be captured: {code(owner) if owner else 'the optimizer'} was made without "
            "`capturable=True`.",
            remedy=f'Make it with {code(kind + "(…, capturable=True)")}, and with `lr=torch.tensor(…, device="cuda")` '
            "if the learning rate changes between replays.",
            related=related,
        )
    if cause.why == "checkpoint":
        remedy = (
            "Call `torch.utils.checkpoint.checkpoint(…, preserve_rng_state=False, use_reentrant=False)` inside a "
            "capture; random operators then draw anew when recomputed."
        )
    elif cause.why == "hooks":
        remedy = "Register the hooks after `make_graphed_callables`, or remove them: a replay does not call them."
    else:
        remedy = "Leave this call out of the captured region, or use the component's capturable form if it has one."
    return Words(f"{subject} refuses to be captured: {said}.", remedy, related=related)


def _made(session: Session, location: Location | None, owner: str) -> tuple[Location, str] | None:
    """Where the owner is assigned in the same file, and the class that is called there."""
    from dataclasses import replace

    source = source_of(session, location)
    for node in ast.walk(source.tree) if source.tree is not None and owner and location is not None else ():
        if isinstance(node, ast.Assign) and dotted(node.targets[0]) == owner and isinstance(node.value, ast.Call):
            assert location is not None
            line = source.lines[node.lineno - 1].strip()
            place = replace(
                location, line=node.lineno, end_line=None, column=None, end_column=None, code=line, function=None
            )
            return place, dotted(node.value.func) or "the optimizer"
    return None
