"""A refused launch in words: the kernel and its shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import find_expression, is_call
from cudagraph_doctor.checkers.wording.kernel_names import shown
from cudagraph_doctor.checkers.wording.words import code

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import Session


def launch_words(session: Session, cause: Cause) -> str:
    """`` `scale_rows[(1, n)](x)` (kernel `scale_rows`) `` as the subject of a sentence."""
    found = find_expression(session, cause.line(session), is_call)
    kernel = kernel_of(cause)
    named = code(kernel) if kernel else code(cause.call)
    if not found.text:
        return f"the launch of {named}"
    return code(found.text) + (f" (kernel {named})" if kernel and kernel not in found.text else "")


def kernel_of(cause: Cause) -> str:
    """The kernel's name; empty where it is not known."""
    record = cause.activity.record if cause.activity is not None else None
    return shown(str(getattr(record, "kernel", "") or "")) if record is not None else ""


def shape_of(cause: Cause) -> tuple[tuple[int, int, int] | None, tuple[int, int, int] | None, int]:
    """(grid, block, bytes of dynamic shared memory) as far as they were recorded."""
    record = cause.activity.record if cause.activity is not None else None
    return getattr(record, "grid", None), getattr(record, "block", None), getattr(record, "smem", None) or 0
