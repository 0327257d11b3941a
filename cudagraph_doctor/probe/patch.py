"""Puts a wrapper in the place of a function, once, so that it looks like what it wraps."""

from __future__ import annotations

import functools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]

_MARK = "_cudagraph_doctor_wraps"


def patch(owner: Any, name: str, wrap: Wrap) -> bool:
    """Replaces `owner.name` by `wrap(original)`; False where it is missing or wrapped already.

    The wrapper has the original's name, documentation and signature (`inspect.signature` follows `__wrapped__`).
    """
    original = getattr(owner, name, None)
    if original is None or getattr(original, _MARK, False):
        return False
    wrapper: Any = wrap(original)
    functools.update_wrapper(wrapper, original)
    setattr(wrapper, _MARK, True)
    setattr(owner, name, wrapper)
    return True
