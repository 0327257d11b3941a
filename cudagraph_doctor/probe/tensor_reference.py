"""Weak references of ours to tensors, which can be found and given up: torch refuses to swap tensors that have any."""

from __future__ import annotations

import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Holder(Protocol):
        """What has such a reference."""

        def let_go(self, reference: TensorRef) -> None:
            """Drop the reference."""


class TensorRef(weakref.ref):  # type: ignore[type-arg]
    """A weak reference to a tensor's Python object. A class of its own: plain ones are shared with the target's."""

    __slots__ = ("holder",)
    holder: Callable[[], Holder | None]
    """Who has it, known weakly: a cycle would leave both to the target's garbage collector."""


def refer(tensor: Any, holder: Holder, died: Callable[[TensorRef], object] | None = None) -> TensorRef:
    """A reference to a tensor for `holder`; `died` is called when the tensor's object dies."""
    reference = TensorRef(tensor, died)
    reference.holder = weakref.ref(holder)
    return reference


def let_go(tensor: Any) -> None:
    """Give up all references of ours to a tensor's object."""
    for reference in weakref.getweakrefs(tensor):
        if type(reference) is TensorRef:
            holder = reference.holder()
            if holder is not None:
                holder.let_go(reference)
