"""CGD102: a copy from host memory to the device inside the capture that is not pinned, or blocks."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.capture_status.host_copy_fix import fix_for, host_operand, index_of, source_operand
from cudagraph_doctor.checkers.code.expression import Expression, called, find_expression
from cudagraph_doctor.checkers.code.reads import is_upload
from cudagraph_doctor.checkers.invalidation.operators import host_side
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import CaptureState, Session
    from cudagraph_doctor.trace import events

RULE = Rule(
    id="CGD102",
    slug="host-to-device-copy-in-capture",
    level=Severity.ERROR,
    what="A copy from CPU to GPU inside the capture whose host side is not pinned, or is pinned but blocking "
    "(torch.tensor(..., device='cuda'), a Python list as index, a CPU scalar operand, copy_ without non_blocking).",
    see_also=("CGD101", "CGD405"),
    text="""\
## What it detects

A copy from host to device memory inside the captured region: `torch.tensor(value, device="cuda")`, a Python list or a
CPU tensor as index, a CPU scalar tensor as operand, `.cuda()`, `.to("cuda")`, or `x.copy_(staging)` without
`non_blocking=True`.

## Why it breaks

The graph would keep the address of ordinary host memory, which is gone or changed at the next replay. torch 2.11 and
newer refuse such a copy with a Python error; older versions captured it and replayed garbage. A copy from pinned
memory may be captured, but without `non_blocking=True` it ends in a wait for the stream (cudaError 900).

## Bad

```python
with torch.cuda.graph(g):
    pos = torch.tensor([step], device="cuda")
    rows = hidden[[0, 2, 3]]
```

## Good

```python
pos = torch.tensor([step], device="cuda")       # made once, before the capture
index = torch.tensor([0, 2, 3], device="cuda")
with torch.cuda.graph(g):
    rows = hidden[index]
pos.fill_(step)                                 # refreshed before each replay
g.replay()
```

## Evidence needed

Python evidence: the operator that copies, with the device and pinning of both sides, and torch's refusal or the change
of the capture's status across it.
""",
)


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """The copy in the user's words."""
    location = cause.line(session)
    found = find_expression(session, location, is_upload)
    host = host_side(cause.op) if cause.op is not None else None
    pinned = host is not None and host.pinned
    what, remedy = _pinned(found, cause) if pinned else _unpinned(found, cause, host)
    return Words(
        message=f"{what}{refused(cause)}.",
        remedy=remedy,
        fix=fix_for(session, capture, found, location, host) if location is not None else None,
        related=begin_place(session, capture),
    )


def _pinned(found: Expression, cause: Cause) -> tuple[str, str]:
    subject = code(found.text) if found.text else code(cause.trigger)
    source = source_operand(found)
    return (
        f"{subject} copies from pinned memory and then waits for the stream, which is capturing",
        (
            f"Pass `non_blocking=True`, and keep {code(source) if source else 'the pinned buffer'} alive and unchanged "
            "until each replay has run."
        ),
    )


def _unpinned(found: Expression, cause: Cause, host: events.Tensor | None) -> tuple[str, str]:
    node, text = found.node, found.text
    if isinstance(node, ast.Subscript):
        return _index(found, node)
    if isinstance(node, ast.Call) and called(node) in {"tensor", "as_tensor", "new_tensor", "from_numpy", "asarray"}:
        if _constant(node) and not _target(found):
            return (
                f"{code(text)} makes a CPU tensor and copies it to the GPU from memory that is not pinned",
                f"Pass the number {code(found.show(node.args[0]))} itself: operators take Python numbers as they are.",
            )
        name = _target(found)
        return (
            f"{code(text)} makes a CPU tensor and copies it to the GPU from memory that is not pinned",
            (
                f"Make {code(name) if name else 'the tensor'} once, before the capture; before each replay bring it up "
                f"to date in place ({code((name or 'tensor') + '.fill_(…)')} or "
                f"{code((name or 'tensor') + '.copy_(…)')})."
            ),
        )
    if isinstance(node, ast.Call) and called(node) == "copy_":
        source = source_operand(found) or "the source"
        return (
            f"{code(text)} copies from {code(source)}, host memory that is not pinned",
            (
                f"Do the copy before {code('replay()')}, outside the capture; or pin {code(source)} once "
                "(`.pin_memory()`), pass `non_blocking=True` and keep it alive with the graph."
            ),
        )
    if isinstance(node, ast.Call) and called(node) in {"cuda", "to"}:
        subject = found.show(found.receiver)
        return (
            f"{code(text)} copies {code(subject)} to the GPU from memory that is not pinned",
            (
                f"Make the CUDA copy of {code(subject)} once, before the capture, and update it with `copy_()` before "
                "each replay."
            ),
        )
    subject = code(text) if text else code(cause.trigger)
    operand = host_operand(found, host)
    if operand is not None:
        name = code(found.show(operand))
        return (
            f"operand {name} of {subject} is a CPU tensor that is not pinned, and is copied to the GPU",
            f"Make {name} a CUDA tensor before the capture, or a plain Python number if it never changes.",
        )
    return (
        f"{subject} takes a value from host memory that is not pinned and copies it to the GPU",
        "Make the operand a CUDA tensor before the capture (or a plain Python number, if it never changes).",
    )


def _index(found: Expression, node: ast.Subscript) -> tuple[str, str]:
    index = index_of(node)
    what = code(found.show(index)) if index is not None else code(found.show(node.slice))
    base = code(found.show(node.value))
    if isinstance(node.ctx, ast.Store) and index is None:
        value = getattr(found.statement, "value", None)
        return (
            (
                f"the value {code(found.show(value))} assigned to {code(found.text)} becomes a CPU tensor that is "
                "copied from memory that is not pinned"
            ),
            "Assign a CUDA tensor, or use `fill_`, `index_fill_` or `masked_fill_`, which take the number itself.",
        )
    kind = "index list" if isinstance(index, ast.List) else "index"
    return (
        f"{kind} {what} becomes a CPU tensor that is copied to the GPU from memory that is not pinned",
        f"Make the index a CUDA tensor once, before the capture, and index {base} with that tensor.",
    )


def _constant(node: ast.Call) -> bool:
    """It makes a tensor of one number."""
    return bool(node.args) and isinstance(node.args[0], ast.Constant)


def _target(found: Expression) -> str:
    statement = found.statement
    if (
        isinstance(statement, ast.Assign)
        and statement.value is found.node
        and isinstance(statement.targets[0], ast.Name)
    ):
        return statement.targets[0].id
    return ""
