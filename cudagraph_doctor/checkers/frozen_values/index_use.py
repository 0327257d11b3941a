"""Which memory the captured work uses as indices: positions, slot numbers, block tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.session.model import Activity, CaptureState
    from cudagraph_doctor.trace.events import Tensor

_INTO = frozenset({"index_copy", "index_add", "index_fill", "index_put", "_index_put_impl", "scatter", "scatter_add"})
"""Operators that write where an index says, without their final `_`."""
_FROM = frozenset({"index", "index_select", "gather", "embedding", "take", "take_along_dim"})
"""Operators that read where an index says."""
_LISTED = frozenset({"index_put", "_index_put_impl", "index"})
"""Those of them that take a list of indices as second argument."""
_WHOLE = ("int64", "int32", "int16")


class Memory:
    """One storage, known by its id or its address, and what is calculated from it."""

    def __init__(self, storage: int, ptr: str) -> None:
        self._ids = {storage} - {0}
        self._starts = {ptr} - {""}

    def holds(self, tensor: Tensor) -> bool:
        """Whether a tensor lies in it, or was calculated from it."""
        return tensor.storage in self._ids if tensor.storage else tensor.ptr in self._starts

    def take(self, tensor: Tensor) -> None:
        """Counts a tensor as calculated from it."""
        if tensor.storage:
            self._ids.add(tensor.storage)
        self._starts.add(tensor.ptr)


def index_uses(capture: CaptureState, storage: int, ptr: str) -> Iterator[tuple[Activity, Tensor, Tensor]]:
    """Operators that use a storage, or whole numbers calculated from it, as index.

    Yields:
        The operator, its index, and what it reads or writes with it (its first tensor).
    """
    memory = Memory(storage, ptr)
    for activity in capture.ops():
        tensors: tuple[Tensor, ...] = getattr(activity.record, "tensors", ())
        mine = [tensor for tensor in tensors if memory.holds(tensor)]
        if not mine:
            continue
        for tensor in mine:
            if tensors[0] is not tensor and _is_index(activity, tensor):
                yield activity, tensor, tensors[0]
        for result in activity.outcome.tensors if activity.outcome is not None else ():
            if result.dtype in _WHOLE:
                memory.take(result)


def writes_by_index(activity: Activity) -> bool:
    """Whether an operator writes where an index says."""
    name, own = _name(activity)
    if own:
        return name in _INTO
    return any(tensor.written for tensor in getattr(activity.record, "tensors", ()))


def _is_index(activity: Activity, tensor: Tensor) -> bool:
    if tensor.dtype not in _WHOLE:
        return False
    name, own = _name(activity)
    if not own:
        return True  # an extension's operator: whole numbers beside the memory that it writes are its table
    if name not in _INTO | _FROM:
        return False
    if name in _LISTED:
        return tensor.at.startswith("1.")
    return tensor.at in {"1", "2", "index", "indices"} and not tensor.written


def _name(activity: Activity) -> tuple[str, bool]:
    """Plain name of an operator, without `_`, and whether it is torch's own."""
    space, _, name = activity.name.rpartition("::")
    return name.partition(".")[0].rstrip("_"), space in {"aten", ""}
