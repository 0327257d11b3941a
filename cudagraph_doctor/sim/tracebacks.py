"""Keeps the simulated device's frames out of what the target prints: on a GPU all of this is C++, which has none.

A wrapper that catches an exception finds its own entry on top of the traceback. It takes that off and goes on with a
bare `raise`, which adds none. On the way of a call that returns nothing of this runs.
"""

from __future__ import annotations

import functools
import os
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

_OURS = os.path.dirname(__file__) + os.sep
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_CALLED_AGAIN = os.path.join("torch", "_ops.py")
"""Where a kernel of ours calls the next operator."""
_BUGS = (AssertionError, AttributeError, KeyError, NameError)
"""No kernel of PyTorch raises these: what raises them is a mistake here, whose frames must be seen."""


def hide(error: BaseException) -> None:
    """Take our frames off the top of an exception's traceback; follow it with a bare `raise`."""
    if isinstance(error, _BUGS):
        return
    frames = error.__traceback__
    while frames is not None:
        name = frames.tb_frame.f_code.co_filename
        if not name.startswith(_OURS) and not name.endswith(_CALLED_AGAIN):
            break
        frames = frames.tb_next
    BaseException.with_traceback(error, frames)  # not the method of the target's class


def unseen(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, with no frame of ours in the tracebacks that pass through it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            hide(error)
            raise

    return functools.update_wrapper(call, function) if hasattr(function, "__name__") else call


def unseen_methods(cls: type) -> type:
    """Let the methods of a class that stands for one of C++ be `unseen`."""
    for name, value in list(vars(cls).items()):
        if isinstance(value, types.FunctionType) and name != "__del__":
            setattr(cls, name, staticmethod(unseen(value)) if name == "__new__" else unseen(value))
    return cls


def warn(message: str) -> None:
    """A warning at the innermost frame that is not ours, as C++ warnings are attributed."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    module = frame.f_globals.get("__name__", "<unknown>")
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, UserWarning, frame.f_code.co_filename, frame.f_lineno, module, registry)
