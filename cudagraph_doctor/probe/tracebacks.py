"""Keeps the recorder's frames out of the tracebacks that the target prints itself.

A wrapper that catches an exception finds its own entry on top of the traceback. It takes that off and goes on with a
bare `raise`, which adds none (`exception_unwind` in CPython's ceval.c; a `raise error` would). On the way of a call
that returns nothing of this runs.
"""

from __future__ import annotations

import os

from cudagraph_doctor.probe.frames import OURS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

DISPATCHED = os.path.join("torch", "_ops.py")
"""Where torch calls an operator again for a dispatch mode: this frame is there only because ours is."""


def hide(error: BaseException) -> None:
    """Takes the entries of the recorder off the top of an exception's traceback; follow it with a bare `raise`."""
    frames = error.__traceback__
    ours = False
    while frames is not None:
        name = frames.tb_frame.f_code.co_filename
        if not name.startswith(OURS) and not (ours and name.endswith(DISPATCHED)):
            break
        ours = True
        frames = frames.tb_next
    BaseException.with_traceback(error, frames)  # not the method of the target's class


def hiding(wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """A wrapper that calls `wrapper` and hides all frames of ours on the way out, for calls that are not many."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return wrapper(*args, **kwargs)
        except BaseException as error:
            hide(error)
            raise

    return call
