"""Recognises a running frame again at a replay, without keeping it alive.

A frame has no weak references, and its identity is given again. But what stands in its `f_trace` stays there, without
any effect while nothing traces: an object of ours in it is the frame's name.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

_OPTIMISED = 1
"""Flag of a code object whose frames keep their locals outside of a dictionary."""
_OWN_REFERENCES = 4
"""To the dictionary of a frame's locals: the frame's, the caller's variable, the one here, and the question's."""
_SNAPSHOT = sys.version_info < (3, 13)
"""`f_locals` is a dictionary that the frame then keeps, with all values in it."""


class Anchor:
    """The name of one frame."""

    __slots__ = ("__weakref__", "tracer")

    def __init__(self) -> None:
        self.tracer: Callable[[FrameType, str, Any], object] | None = None
        """Told of the frame's events while a window is traced (Python 3.11)."""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Anchor:
        """As a trace function of the frame. A debugger may call what it finds in `f_trace`: nothing happens."""
        if self.tracer is not None:
            self.tracer(frame, event, argument)
        return self


def anchor(frame: FrameType) -> Anchor | None:
    """The name of a frame, given to it now if it has none; None where somebody else traces it."""
    found = frame.f_trace
    if type(found) is Anchor:
        return found
    if found is not None:
        return None
    found = Anchor()
    frame.f_trace = found
    return found


def anchored(frame: FrameType | None) -> dict[int, FrameType]:
    """The frames from `frame` outwards that have names, by the identity of the name."""
    found = {}
    while frame is not None:
        name = frame.f_trace
        if type(name) is Anchor:
            found[id(name)] = frame
        frame = frame.f_back
    return found


def locals_of(frame: FrameType) -> dict[str, Any]:
    """The local variables of a frame. Must be handed to `let_go` where that would keep them alive."""
    found: Any = frame.f_locals
    return found if type(found) is dict else dict(found) if not _SNAPSHOT else {}


def let_go(frame: FrameType, variables: dict[str, Any]) -> None:
    """Empties the dictionary that a frame keeps since `locals_of`, unless the target has it, too.

    Not in a trace function: the interpreter puts the dictionary's values back into the frame when that returns.
    """
    if _SNAPSHOT and frame.f_code.co_flags & _OPTIMISED and sys.getrefcount(variables) <= _OWN_REFERENCES:
        variables.clear()
