"""CGD602: Python control flow that was decided at capture would go another way now."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.frozen_values import saying
from cudagraph_doctor.checkers.frozen_values.known_values import value_then_and_now
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code
from cudagraph_doctor.findings import Rule, Severity
from cudagraph_doctor.session.slots import UNKNOWN

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.frozen_values.frozen import Frozen
    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import Session

RULE = Rule(
    id="CGD602",
    slug="host-branch-frozen",
    level=Severity.ERROR,
    what="Host control flow taken at capture time differs from what a later step would take.",
    needs=("region",),
    see_also=("CGD601", "CGD603"),
    text="""\
## What it detects

A test (`if`, a conditional expression, `match`) in the captured region on a value of the host that is another one
before a later replay, so that the test would now go the other way. Both branches are named. A test whose result stays
the same (`n > 0`) is not reported; one that guards nothing which launches (logging, statistics) is a note at most.

## Why it breaks

Python runs once, at capture. The graph holds the work of the branch that was taken; the other one is not in it.

## Bad

```python
options = {"penalty": False}
with torch.cuda.graph(g):
    if options["penalty"]:
        scores = scores - 100.0 * seen
    token = scores.argmax(-1)
options["penalty"] = True
g.replay()                               # still without the penalty
```

## Good

```python
penalty = torch.zeros((), device="cuda")
with torch.cuda.graph(g):
    scores = scores - 100.0 * penalty * seen
    token = scores.argmax(-1)
penalty.fill_(1.0)
g.replay()
```

or one graph for each value, chosen by it.

## Evidence needed

The region watch: what the region read, where a test used it, and looks at it before replays.
""",
)


def explain(session: Session, found: Frozen) -> Words:
    """The test, both of its branches, and the value that decides between them."""
    then, now = saying.was_and_is(found)
    place = saying.main_line(session, found)
    if not found.state.record.value:
        return _another_function(session, found, place)
    taken, other = _branches(session, found)
    path = found.state.path
    training = found.state.name == "training"
    what = (
        f"{code(path)} was {then} when {_test(found)} was captured and is {now}{saying.since(found)}: every replay "
        f"runs what {then} chose{saying.in_graphs(found)}"
    )
    both = f", {taken}; it never runs {other}" if taken and other else f", {taken}" if taken else ""
    both = both or (f" and never {other}" if other else "")
    if training and len(found.others):
        both += f" (and so for `training` of {len(found.others)} more modules)"
    return Words(
        message=f"{what}{both}.",
        remedy=_remedy(path, training=training),
        location=place,
        related=(
            *saying.read_lines(session, found, place),
            *saying.store_lines(session, found),
            *begin_place(session, found.state.capture),
        ),
    )


def _another_function(session: Session, found: Frozen, place: Location | None) -> Words:
    """The region called a function through a slot that holds another one now."""
    path = found.state.path
    return Words(
        message=f"{code(path)} is another function{saying.since(found)} than when "
        f"{code(ast.unparse(found.use.node))} was captured: every replay runs what the first one launched"
        f"{saying.in_graphs(found)}.",
        remedy=f"Capture one graph for each function that {code(path)} may hold and choose by it, or capture again "
        "after it was set.",
        location=place,
        related=(*saying.store_lines(session, found), *begin_place(session, found.state.capture)),
    )


def _remedy(path: str, *, training: bool) -> str:
    if training:
        return "Call `train()` or `eval()` before the capture and leave the mode alone, or capture one graph a mode."
    return (
        f"Capture one graph for each value of {code(path)} and choose by it before the replay, or decide on the "
        "device: a tensor as flag, with `torch.where` or a multiplication by 0 or 1."
    )


def _test(found: Frozen) -> str:
    node = found.use.node
    kind = {ast.If: "`if`", ast.IfExp: "conditional expression", ast.Match: "`match`"}.get(type(node))
    return f"this {kind}" if kind is not None else "the region"


def _branches(session: Session, found: Frozen) -> tuple[str, str]:
    """The branch in the graph and the one that is not, by their first lines; empty where they are not known."""
    use = found.use
    node = use.node
    if not isinstance(node, (ast.If, ast.IfExp)):
        return "", ""
    now = found.change.value if found.change is not None else found.state.record.left
    then, _ = value_then_and_now(session, found.state, use, now)
    if then is UNKNOWN:
        return "", ""
    body, orelse = _first(node.body), _first(node.orelse)
    return (body, orelse) if then else (orelse, body)


def _first(part: list[ast.stmt] | ast.expr) -> str:
    """The first line of a branch, as code."""
    if isinstance(part, list):
        if not part:
            return ""
        text, more = ast.unparse(part[0]).partition("\n")[0], len(part) > 1
    else:
        text, more = ast.unparse(part), False
    text = text if len(text) <= 60 else text[:59].rstrip() + "…"
    return code(text) + (" …" if more else "")
