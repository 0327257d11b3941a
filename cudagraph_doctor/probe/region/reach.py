"""How objects and containers were reached: the same one may be read under another name in a function further in.

`layer(x)` in a loop over `model.layers` runs `forward` with a `self`; what the region reads of it is called
`model.layers[3].scale`. Known only while the region runs, and by identity: nothing is kept alive.
"""

from __future__ import annotations

import weakref

from cudagraph_doctor.probe.region.held import plain_text
from cudagraph_doctor.probe.region.lookup import CONTAINERS, MISSING, is_key, is_module
from cudagraph_doctor.probe.region.slot import ItemSlot, Slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from cudagraph_doctor.probe.region.lookup import Lookup

MOST_ELEMENTS = 64
"""Elements of a container through which others are reached."""
MOST_MODULES = 20_000
_DEPTH = 2
"""Containers in a container."""
_MISSING_TYPES = (int, float, bool, str, type(None))


class Reach:
    """The ways to objects and containers, by their identity."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._containers: dict[int, tuple[int, int, Slot]] = {}
        """Identity → length, identity of the type (to notice another one in its place), slot."""
        self._objects: dict[int, tuple[weakref.ref[Any], str]] = {}

    def slot_of(self, container: Any) -> Slot | None:
        """The slot that holds a container."""
        known = self._containers.get(id(container))
        return known[2] if known is not None and known[1] == id(type(container)) else None

    def path_of(self, owner: Any) -> str:
        """The path by which an object was reached; empty if it was not."""
        known = self._objects.get(id(owner))
        return known[1] if known is not None and known[0]() is owner else ""

    def learn(self, value: Any, slot: Slot, depth: int = _DEPTH) -> None:
        """A slot holds an object or a container: what is in it can be reached through it."""
        kind = type(value)
        if kind in CONTAINERS:
            if id(value) in self._containers and depth == _DEPTH:
                return
            self._containers.setdefault(id(value), (len(value), id(kind), slot))
            if depth:
                for key, inner in elements(value, MOST_ELEMENTS):
                    if type(inner) not in _MISSING_TYPES and is_key(key):
                        self._learn_inner(inner, key, slot, depth)
        elif is_module(value):
            self._learn_module(value, slot.path)
        else:
            self._learn_object(value, slot.path)

    def clear(self) -> None:
        """The region is over."""
        self._containers.clear()
        self._objects.clear()

    def _learn_inner(self, inner: Any, key: Any, slot: Slot, depth: int) -> None:
        if type(inner) in CONTAINERS:
            self.learn(inner, ItemSlot(key, f"{slot.path}[{key_text(key)}]", slot), depth - 1)
        elif is_module(inner):
            self._learn_module(inner, f"{slot.path}[{key_text(key)}]")
        else:
            self._learn_object(inner, f"{slot.path}[{key_text(key)}]")

    def _learn_object(self, value: Any, path: str) -> bool:
        known = self._objects.get(id(value))
        if known is not None and known[0]() is value:
            return False
        try:
            self._objects[id(value)] = weakref.ref(value), path
        except TypeError:
            return False
        return True

    def _learn_module(self, module: Any, path: str) -> None:
        waiting = [(module, path)]
        while waiting and len(self._objects) < MOST_MODULES:
            here, name = waiting.pop()
            if not self._learn_object(here, name):
                continue
            children = self._lookup.attribute(here, "_modules")
            if type(children) is dict or type(children).__name__ == "OrderedDict":
                for key, child in list(dict.items(children)):
                    if child is not None and is_module(child):
                        inner = f"{name}[{key}]" if key.isdecimal() else f"{name}.{key}"
                        waiting.append((child, inner))


def elements(container: Any, most: int) -> Iterable[tuple[Any, Any]]:
    """Keys and values of a container, the first ones; nothing of the target's runs."""
    if issubclass(type(container), dict):
        pairs: Any = list(zip(dict.keys(container), dict.values(container), strict=False))
    elif type(container) in {set, frozenset}:
        return []
    else:
        pairs = list(enumerate(container))
    return list(pairs[:most])


def key_text(key: Any) -> str:
    """A key as it is written: `3`, `"mask"`."""
    if type(key) is str and '"' not in key and "\\" not in key:
        return f'"{key}"'
    return plain_text(key) if key is not MISSING else "…"
