"""CGD503: more registers or threads than a multiprocessor has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.wording.launches import launch_words, shape_of
from cudagraph_doctor.checkers.wording.words import Words, begin_place, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD503",
    slug="out-of-resources",
    level=Severity.ERROR,
    what="Registers times threads (or launch bounds) over what a multiprocessor has (701).",
    needs=("driver", "bindings", "log"),
    see_also=("CGD501", "CGD502"),
    text="""\
## What it detects

A launch in a capture that is refused with 701, because the threads of one block need more registers than a
multiprocessor has, or the block is larger than the function's launch bounds.

## Why it breaks

A block runs on one multiprocessor, whose 65536 registers its threads share: 1024 threads may use 64 each. A launch that
cannot run is refused, and a refused launch invalidates the capture; some are only refused when the graph is made.

## Bad

```python
launch(fn, grid, block=(1024, 1, 1))      # 168 registers a thread
```

## Good

```python
launch(fn, grid, block=(256, 1, 1))       # or compile with a register limit
```

## Evidence needed

Driver evidence has the launch with its shape and its code. With python evidence: launches through cuda-bindings, or the
driver's own error log.
""",
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """The block that does not fit."""
    _, block, _ = shape_of(cause)
    threads = block[0] * block[1] * block[2] if block is not None else 0
    size = f"a block of {threads:,} threads" if threads else "a block"
    return Words(
        message=f"{launch_words(session, cause)} launches {size} that needs more registers than a multiprocessor has"
        f"{refused(cause)}.",
        remedy="Use smaller blocks (65536 registers divided by those of a thread), or compile the kernel with a "
        "register limit (`__launch_bounds__`, `maxrregcount`, in Triton `num_warps`).",
        related=begin_place(session, capture),
    )
