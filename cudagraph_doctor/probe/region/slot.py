"""A slot of the target's Python state: where it is, how it is found again, and what was in it.

Nothing is held that the target could miss: the object that has an attribute is known by a weak reference, a frame by
its name (`anchors`), a container by the slot that it is in.
"""

from __future__ import annotations

import sys
import weakref
from abc import ABC, abstractmethod

from cudagraph_doctor.probe.region.anchors import let_go, locals_of
from cudagraph_doctor.probe.region.held import weak
from cudagraph_doctor.probe.region.lookup import GONE, MISSING, OPAQUE, Lookup, item, namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType, FunctionType, ModuleType
    from typing import Any

    from cudagraph_doctor.probe.region.anchors import Anchor
    from cudagraph_doctor.probe.region.held import Held

MOST_PLACES = 8
"""Places told at which a region reads, or writes, one slot."""


class Look:
    """One look at slots: the running frames that have names, and what was found so far. Holds it only until `close`."""

    def __init__(self, running: dict[int, FrameType], lookup: Lookup) -> None:
        self._running = running
        self._variables: dict[int, dict[str, Any]] = {}
        self._values: dict[int, Any] = {}
        self.lookup = lookup

    def value(self, slot: Slot) -> Any:
        """What is in a slot; MISSING, OPAQUE, or GONE where it is out of reach."""
        key = id(slot)
        try:
            return self._values[key]
        except KeyError:
            found = self._values[key] = slot.find(self)
            return found

    def variables(self, name: Anchor) -> tuple[FrameType, dict[str, Any]] | None:
        """The frame of that name, and its local variables; None if it does not run here."""
        frame = self._running.get(id(name))
        if frame is None:
            return None
        found = self._variables.get(id(name))
        if found is None:
            found = self._variables[id(name)] = locals_of(frame)
        return frame, found

    def close(self) -> None:
        """The look is over."""
        self._values.clear()
        for name in list(self._variables):
            variables = self._variables.pop(name)
            let_go(self._running[name], variables)
        self._running.clear()


class Slot(ABC):
    """One slot. Subclasses know how it is found again."""

    __slots__ = (
        "first", "held", "id", "last", "left", "name", "parent", "path", "reads", "role", "stack", "told", "uses",
        "version", "writes",
    )  # fmt: skip
    KIND = ""

    def __init__(self, name: Any, path: str, parent: Slot | None = None) -> None:
        self.name = name
        self.path = path
        self.parent = parent
        self.id = 0
        self.first = ""
        """`read` or `write`; empty until the region touches it."""
        self.held: Held | None = None
        """What the region found in it."""
        self.left: Held | None = None
        """What it held when the region ended, where the region wrote it."""
        self.last: Held | None = None
        """What the last look found."""
        self.reads: list[tuple[CodeType, int, str]] = []
        """Code object, offset and module of the instructions that read it."""
        self.writes: list[tuple[CodeType, int, str]] = []
        self.uses = 0
        """Bits of `Use`: what the region did with what it held."""
        self.stack = 0
        self.role = ""
        self.version: int | None = None
        """Version counter of the tensor that the region found, as last seen."""
        self.told = False

    @abstractmethod
    def find(self, look: Look) -> Any:
        """What is in it now; MISSING, OPAQUE, or GONE where it is out of reach."""


class GlobalSlot(Slot):
    """A name of a module."""

    __slots__ = ("module",)
    KIND = "global"

    def __init__(self, name: str, path: str, module: ModuleType) -> None:
        super().__init__(name, path)
        self.module = weakref.ref(module)

    def find(self, look: Look) -> Any:
        """See `Slot.find`."""
        module = self.module()
        return GONE if module is None else namespace(module).get(self.name, MISSING)


class FrameSlot(Slot):
    """A local variable of a function that runs, or a global name of code that is of no module."""

    __slots__ = ("anchor", "scope")

    def __init__(self, name: str, path: str, anchor: Anchor, kind: str) -> None:
        super().__init__(name, path)
        self.anchor = anchor
        self.scope = kind

    @property
    def KIND(self) -> str:  # type: ignore[override]  # noqa: N802
        """`local`, `cell` or `global`."""
        return self.scope

    def find(self, look: Look) -> Any:
        """See `Slot.find`."""
        found = look.variables(self.anchor)
        if found is None:
            return GONE
        frame, variables = found
        if self.scope == "global":
            space = frame.f_globals
            return space.get(self.name, MISSING) if type(space) is dict else OPAQUE
        return variables.get(self.name, MISSING)


class CellSlot(Slot):
    """A variable of an enclosing function, by a function that shares it."""

    __slots__ = ("function",)
    KIND = "cell"

    def __init__(self, name: str, path: str, function: FunctionType) -> None:
        super().__init__(name, path)
        self.function = weakref.ref(function)

    def find(self, look: Look) -> Any:
        """See `Slot.find`."""
        function = self.function()
        return GONE if function is None else cell_of(function, self.name)


class AttributeSlot(Slot):
    """An attribute of an object."""

    __slots__ = ("owner",)
    KIND = "attribute"

    def __init__(self, name: str, path: str, owner: Any, parent: Slot | None) -> None:
        super().__init__(name, path, parent)
        self.owner = weak(owner)

    def find(self, look: Look) -> Any:
        """See `Slot.find`."""
        owner = self.owner() if self.owner is not None else None
        parent = self.parent
        if parent is not None and (owner is None or parent.KIND in {"attribute", "item"}):
            # `engine.config` may be another object by now. A plain name says less: a loop binds it again and again.
            there = look.value(parent)
            if there is not MISSING and there is not OPAQUE and there is not GONE and there is not None:
                owner = there
        return GONE if owner is None else look.lookup.attribute(owner, self.name)


class ItemSlot(Slot):
    """An element of a list, a tuple or a dictionary that another slot holds."""

    __slots__ = ()
    KIND = "item"

    def find(self, look: Look) -> Any:
        """See `Slot.find`."""
        parent = self.parent
        assert parent is not None
        container = look.value(parent)
        if container is MISSING or container is OPAQUE or container is GONE:
            return container
        return item(container, self.name)


def cell_of(function: FunctionType, name: str) -> Any:
    """What the cell of a function's free variable holds."""
    try:
        position = function.__code__.co_freevars.index(name)
        return (function.__closure__ or ())[position].cell_contents
    except ValueError:
        return MISSING
    except IndexError:
        return GONE


def module_of(space: dict[str, Any]) -> ModuleType | None:
    """The module whose globals a dictionary is."""
    name = space.get("__name__")
    module = sys.modules.get(name) if type(name) is str else None
    try:
        return module if module is not None and namespace(module) is space else None
    except (AttributeError, TypeError):
        return None
