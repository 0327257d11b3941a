"""CGD117: the capture ended well with no node in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.wording.words import Words
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Activity, CaptureState, Session

RULE = Rule(
    id="CGD117",
    slug="empty-graph",
    level=Severity.WARNING,
    what="The capture ended well with no node in it.",
    see_also=("CGD113", "CGD201"),
    text="""\
## What it detects

A capture that ended without an error and whose graph holds no node, where nothing else explains it: no operator ran on
the device in the region, or its work went to another device.

## Why it breaks

Replaying an empty graph does nothing: results stay what they were. Usual reasons are a wrong current device, a region
that only ran on the CPU or took a cached result, or a stream of the library's own.

## Bad

```python
x = torch.ones(8, device="cuda:1")
with torch.cuda.graph(g):            # captures on the current device, cuda:0
    y = x + 1
```

## Good

```python
with torch.cuda.device(x.device):
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = x + 1
```

## Evidence needed

The number of nodes of the captured graph, from the driver; the operators of the window and their devices.
""",
    needs=("capture", "driver"),
)


def explain(session: Session, capture: CaptureState) -> Words:
    """What ran in the window instead."""
    elsewhere = other_device(capture)
    if elsewhere is not None:
        device = getattr(elsewhere.record, "device", None)
        return Words(
            message=f"the graph is empty: the work of the region went to cuda:{device}, but the capture is on "
            f"cuda:{capture.begin.device}.",
            remedy=f"Put stream creation, warm-up, capture and replay under `with torch.cuda.device({device}):`.",
            related=tuple(
                p.with_note(f"runs on cuda:{device}") for p in (session.location(elsewhere.stack),) if p is not None
            ),
        )
    ran = sum(1 for op in capture.ops() if getattr(op.record, "kind", "") == "compute")
    did = "no operator ran on the device" if not ran else "none of its operators became a node"
    return Words(
        message=f"the graph is empty: {did} while the stream was capturing, so a replay does nothing.",
        remedy="Check that the region really computes on the GPU here (no cached result, no CPU tensors) and on the "
        "current device and stream.",
    )


def other_device(capture: CaptureState) -> Activity | None:
    """An operator of the window whose work went to another device than the capture's."""
    for op in capture.ops():
        device = getattr(op.record, "device", None)
        if device is not None and device != capture.begin.device and getattr(op.record, "kind", "") == "compute":
            return op
    return None
