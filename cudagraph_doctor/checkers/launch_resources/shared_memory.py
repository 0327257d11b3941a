"""CGD502: more dynamic shared memory than the function or the device allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.wording.launches import launch_words, shape_of
from cudagraph_doctor.checkers.wording.words import Words, begin_place, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD502",
    slug="shared-memory-limit",
    level=Severity.ERROR,
    what="Dynamic shared memory without opt-in, or over the device's limit.",
    needs=("driver", "bindings", "log"),
    see_also=("CGD501", "CGD503"),
    text="""\
## What it detects

A launch in a capture that is refused because it asks for more dynamic shared memory than its function may use, or than
the device has. Triton's `OutOfResources` is the same, found before the launch.

## Why it breaks

Without opting in a function may use 48 KiB of dynamic shared memory, whatever the device has. The driver refuses a
launch that asks for more (1), and a refused launch invalidates the capture.

## Bad

```python
launch(fn, grid, block, shared=96 * 1024)
```

## Good

```python
driver.cuFuncSetAttribute(fn, MAX_DYNAMIC_SHARED_SIZE_BYTES, 96 * 1024)   # once, before the capture
launch(fn, grid, block, shared=96 * 1024)
```

## Evidence needed

Driver evidence has the launch with its shared memory and its code. With python evidence: launches through
cuda-bindings, the driver's own error log, or Triton's exception.
""",
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """How much was asked for."""
    *_, asked = shape_of(cause)
    amount = f"{asked:,} bytes of dynamic shared memory" if asked else "more shared memory"
    if cause.why == "out-of-resources":
        return Words(
            message=f"{launch_words(session, cause)} needs more shared memory than the device has: "
            f"{cause.exc.message if cause.exc is not None else ''}",
            remedy="Use smaller tiles or fewer stages (`num_stages`), and run the kernel once before the capture.",
            related=begin_place(session, capture),
        )
    return Words(
        message=f"{launch_words(session, cause)} asks for {amount}, more than its function may use{refused(cause)}.",
        remedy="Raise the function's limit before the capture (`cuFuncSetAttribute`, "
        "`CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`), up to the device's opt-in limit; or ask for at most "
        "48 KiB.",
        related=begin_place(session, capture),
    )
