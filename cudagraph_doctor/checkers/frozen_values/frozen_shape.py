"""CGD603: a size computed from a number of the host is in the graph as it was."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.frozen_values import saying
from cudagraph_doctor.checkers.frozen_values.values import LENGTH
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.frozen_values.frozen import Frozen
    from cudagraph_doctor.session.model import Session

RULE = Rule(
    id="CGD603",
    slug="shape-frozen",
    level=Severity.ERROR,
    what="A grid or size computed from a dynamic length was baked in.",
    needs=("region",),
    see_also=("CGD601", "CGD602", "CGD404"),
    text="""\
## What it detects

A number of the host that the captured region used as a size, as the bound of a slice, as a grid, or as the number of
turns of a loop that launches, and that is another one before a later replay. A size for which one graph was captured
for each value (buckets) is not reported.

## Why it breaks

Grids, extents and the number of launches are fixed when the work is captured. With a longer length every replay leaves
the rest out; with a shorter one it works on what was left over.

## Bad

```python
with torch.cuda.graph(g):
    scores = q @ keys[:length].t()       # 4 keys, for ever
length = 40
g.replay()
```

## Good

```python
length_dev = torch.zeros(1, dtype=torch.long, device="cuda")
cols = torch.arange(keys.shape[0], device="cuda")
with torch.cuda.graph(g):
    scores = (q @ keys.t()).masked_fill(cols >= length_dev, float("-inf"))
length_dev.fill_(40)
g.replay()
```

or one graph for each bucket of lengths, chosen before the replay.

## Evidence needed

The region watch: what the region read, and looks at it before replays. `proven` where a recorded size is the value.
""",
)


def explain(session: Session, found: Frozen) -> Words:
    """The length, what depends on it, and the bucket or mask to use."""
    then, now = saying.was_and_is(found)
    place = saying.main_line(session, found)
    path = found.state.path
    kept = _what(found, then)
    return Words(
        message=f"{code(path)} was {then} when {_where(found)} was captured and is {now}{saying.since(found)}: {kept}"
        f"{saying.in_graphs(found)}.",
        remedy=_remedy(found),
        location=place,
        related=(
            *saying.read_lines(session, found, place),
            *saying.store_lines(session, found),
            *begin_place(session, found.state.capture),
        ),
    )


def _remedy(found: Frozen) -> str:
    path = found.state.path
    name = path.rpartition(".")[2]
    if LENGTH.fullmatch(found.state.record.value):
        return f"Capture again after {code(path)} changed, or one graph for each number of its elements, chosen by it."
    device = saying.device_name(path)
    return (
        f"Capture one graph per bucket of {code(name)} and replay the smallest that fits; or work on the whole padded "
        "buffer in the region and mask with a length on the device "
        f'(`torch.arange(size, device="cuda") < {device}`), set with `{device}.fill_({path})` before the replay.'
    )


def _where(found: Frozen) -> str:
    node = found.use.node
    if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
        return "this loop"
    written = ast.unparse(node) if isinstance(node, ast.expr) else ""
    return code(written) if 0 < len(written) <= 60 else "the region"


def _what(found: Frozen, then: str) -> str:
    if isinstance(found.use.node, (ast.For, ast.AsyncFor, ast.While)):
        return f"every replay does the turns of the capture, those for {then}"
    return f"every replay still works on the extent for {then}"
