"""CGD501: grid or block dimensions over the device's limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.invalidation.refused_launch import exceeded
from cudagraph_doctor.checkers.wording.launches import launch_words, shape_of
from cudagraph_doctor.checkers.wording.words import Words, begin_place, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD501",
    slug="grid-or-block-limit",
    level=Severity.ERROR,
    what="Grid or block dimensions over the device's limit.",
    needs=("driver", "bindings", "log"),
    see_also=("CGD502", "CGD503"),
    text="""\
## What it detects

A launch in a capture that is refused because its grid or its block is larger than a device takes, or empty.

## Why it breaks

`grid.x` may go up to 2147483647, `grid.y` and `grid.z` only up to 65535; a block has at most 1024 threads, 64 in z. The
driver refuses such a launch (1), and a refused launch invalidates the capture: everything behind it fails with 901.

## Bad

```python
kernel[(1, requests)](x)          # grid.y = 70000
```

## Good

```python
kernel[(requests, 1)](x)          # the large dimension on grid.x
```

## Evidence needed

Driver evidence has the launch with its shape and its code. With python evidence: launches through cuda-bindings, or the
driver's own error log, which says which dimension it was.
""",
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """The dimension, its value and its limit."""
    grid, block, _ = shape_of(cause)
    found = exceeded(grid, block)
    if found is not None:
        what, value, limit = found
        why = f"asks for {what} = {value:,}, which must be between 1 and {limit:,}"
        remedy = (
            "Put the large dimension on grid.x (limit 2,147,483,647), or loop over tiles in the kernel."
            if what.startswith("grid.") and value
            else "Skip the launch where there is no work."
            if not value
            else "Use smaller blocks and more of them."
        )
    else:
        said = cause.log.message if cause.log is not None and not cause.log.message.startswith("Returning") else ""
        why = "has arguments that the driver refuses" + (f": {said}" if said else "")
        remedy = "Check grid, block and shared memory of the launch against the device's limits."
    return Words(
        message=f"{launch_words(session, cause)} {why}{refused(cause)}.",
        remedy=remedy,
        related=begin_place(session, capture),
    )
