"""Keeps equal parts of records once: a program that captures again says the same of the same weights.

A trace of a million records names a few thousand tensors. Records are immutable to everybody else, so that sharing
changes nothing but memory (measured: a quarter of it is left).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import force_setattr

if TYPE_CHECKING:
    from cudagraph_doctor.trace import events

_LIMIT = 1 << 17
"""Values remembered at most: where nothing repeats, remembering costs memory and gains none."""


_PARTS = ("at", "dev", "dtype", "shape")
"""What tensors have in common that are not equal."""


class SharedValues:
    """The values that were seen, each as the object that stands for all of its equals."""

    def __init__(self) -> None:
        self._parts: dict[object, object] = {}
        self._tensors: dict[events.Tensor, events.Tensor] = {}
        self._lists: dict[tuple[events.Tensor, ...], tuple[events.Tensor, ...]] = {}

    def share_name(self, record: events.Op) -> None:
        """Replaces the name of an operator by its equal."""
        force_setattr(record, "name", self._parts.setdefault(record.name, record.name))

    def share_tensors(self, record: events.Op | events.Outcome) -> None:
        """Replaces the tensors of a record by their equals."""
        tensors = record.tensors
        known = self._lists.get(tensors)
        if known is None:
            if max(len(self._lists), len(self._tensors), len(self._parts)) >= _LIMIT:
                self._lists.clear()
                self._tensors.clear()
                self._parts.clear()
            known = tuple([self._tensor(tensor) for tensor in tensors])
            self._lists[known] = known
        force_setattr(record, "tensors", known)

    def _tensor(self, tensor: events.Tensor) -> events.Tensor:
        known = self._tensors.setdefault(tensor, tensor)
        if known is tensor:  # a new one
            for name in _PARTS:
                part = getattr(tensor, name)
                force_setattr(tensor, name, self._parts.setdefault(part, part))
        return known
