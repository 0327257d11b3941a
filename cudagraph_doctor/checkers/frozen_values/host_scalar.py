"""CGD601: a Python number is in the graph as the number it was, and changes between steps."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.frozen_values import saying
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, graph_name
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.frozen_values.frozen import Frozen
    from cudagraph_doctor.session.model import Session

RULE = Rule(
    id="CGD601",
    slug="host-scalar-frozen",
    level=Severity.ERROR,
    what="A Python number (position, length, temperature, step) was baked into the graph and changes between steps.",
    needs=("region",),
    see_also=("CGD602", "CGD603", "CGD604"),
    text="""\
## What it detects

A number, text or other plain value of the host that the captured region read (a global, a local of a function that is
still running, an attribute, an element of a list or a dictionary), that went into a captured operator or kernel, and
that is another one before a later replay. Named are the variable, the value in the graph and the value now, the line
that used it and the line that changed it. Values that reach no captured work (counters, names of log lines, loop
variables that are over) are not reported, nor is a slot with which one graph was captured for each of its values.

## Why it breaks

A capture records operators with the arguments that they have at that moment. A Python number is part of the recorded
call; assigning a new one to the variable later changes nothing in the graph.

## Bad

```python
pos = 0
with torch.cuda.graph(g):
    cache[pos] = k_new                 # row 0, for ever
for pos in range(4):
    g.replay()
```

## Good

```python
pos_dev = torch.zeros(1, dtype=torch.long, device="cuda")
with torch.cuda.graph(g):
    cache.index_copy_(0, pos_dev, k_new)
for pos in range(4):
    pos_dev.fill_(pos)
    g.replay()
```

## Evidence needed

The region watch: what the region read, and looks at it before replays. `proven` where a recorded argument of an
operator is the value, `likely` where the program's text leads from the variable to one.
""",
)


def explain(session: Session, found: Frozen) -> Words:
    """The variable, its value then and now, and the device tensor to put in its place."""
    then, now = saying.was_and_is(found)
    place = saying.main_line(session, found)
    path, graph = found.state.path, _graph(session, found)
    where = f"{code(_text(session, found))} was captured" if _text(session, found) else "the region was captured"
    if found.change is None:
        what = (
            f"{code(path)} was {then} when {where}; the region advances it in Python to {now}, which no replay does: "
            f"every replay uses {then}{saying.in_graphs(found)} again."
        )
    else:
        what = (
            f"{code(path)} was {then} when {where} and is {now}{saying.since(found)}: every replay still uses "
            f"{then}{saying.in_graphs(found)}."
        )
    return Words(
        message=what,
        remedy=_remedy(found, graph),
        location=place,
        related=(
            *saying.read_lines(session, found, place),
            *saying.store_lines(session, found),
            *begin_place(session, found.state.capture),
        ),
    )


def _graph(session: Session, found: Frozen) -> str:
    return graph_name(session, found.state.capture) if found.state.capture is not None else "graph"


def _text(session: Session, found: Frozen) -> str:
    """The expression that took the value, as written; empty where it is long or not known."""
    text = session.text(found.use.source)
    node = found.use.node
    if text is None or not isinstance(node, ast.expr):
        return ""
    written = ast.unparse(node)
    return written if len(written) <= 60 else ""


def _remedy(found: Frozen, graph: str) -> str:
    path = found.state.path
    device = saying.device_name(path)
    if "param_groups" in path:
        return (
            f"Give the optimizer a tensor on the device for it (`lr=torch.tensor({found.state.record.value}, "
            'device="cuda")` with `capturable=True`), which schedulers fill in place; or step the optimizer outside of '
            "the graph."
        )
    if found.state.is_tensor:
        return (
            f"Keep it on the device: `{device} = {path}.cuda()` before the capture, use that in the region, and call "
            f"`{device}.copy_({path})` before `{graph}.replay()`."
        )
    if found.state.record.type in {"str", "NoneType", "tuple"}:
        return f"Capture one graph for each value of {code(path)} and choose by it, or capture again after a change."
    if found.state.record.type == "bool":
        return (
            f"Capture one graph for each value of {code(path)}, or make it a tensor on the device and use it in "
            "`torch.where`."
        )
    made = 'torch.zeros(1, dtype=torch.long, device="cuda")' if _is_index(found) else 'torch.zeros((), device="cuda")'
    use = "with `index_copy_`, `index_select` or `scatter_`" if _is_index(found) else "in its place"
    return (
        f"Keep {code(path)} on the device: `{device} = {made}` before the capture, used {use} in the region, and "
        f"`{device}.fill_({path})` before `{graph}.replay()`."
    )


def _is_index(found: Frozen) -> bool:
    return isinstance(found.use.node, ast.Subscript)
