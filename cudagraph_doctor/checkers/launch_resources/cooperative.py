"""CGD504: a cooperative grid or a cluster that cannot be resident."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.wording.launches import launch_words, shape_of
from cudagraph_doctor.checkers.wording.words import Words, begin_place, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD504",
    slug="cooperative-or-cluster-limit",
    level=Severity.ERROR,
    what="Cooperative grid or cluster larger than can be resident (720, 912).",
    needs=("driver", "bindings", "log"),
    see_also=("CGD501", "CGD503"),
    text="""\
## What it detects

A cooperative launch or one with clusters in a capture that is refused with 720 or 912.

## Why it breaks

The blocks of a cooperative grid wait for each other, so all of them must be resident at once; the blocks of a cluster
must fit one cluster of multiprocessors. A grid that is larger is refused, and invalidates the capture.

## Bad

```python
launch_cooperative(fn, grid=(4096, 1, 1), block=(1024, 1, 1))
```

## Good

```python
blocks = blocks_per_multiprocessor(fn, 1024) * multiprocessors
launch_cooperative(fn, grid=(blocks, 1, 1), block=(1024, 1, 1))
```

## Evidence needed

Driver evidence has the launch with its shape and its code. With python evidence: launches through cuda-bindings, or the
driver's own error log.
""",
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """The grid that cannot be resident."""
    grid, *_ = shape_of(cause)
    size = f" of {grid[0] * grid[1] * grid[2]:,} blocks" if grid is not None else ""
    return Words(
        message=f"{launch_words(session, cause)} launches a grid{size} that cannot be resident at "
        f"once{refused(cause)}.",
        remedy="Launch at most as many blocks as `cuOccupancyMaxActiveBlocksPerMultiprocessor` allows times the number "
        "of multiprocessors; the kernel loops over the rest.",
        related=begin_place(session, capture),
    )
