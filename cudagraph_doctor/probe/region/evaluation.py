"""Looks an expression up in a running frame: its value, and the slot that it is in."""

from __future__ import annotations

import sys
import weakref
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from cudagraph_doctor.probe.region.anchors import let_go, locals_of
from cudagraph_doctor.probe.region.bytecode import table_of
from cudagraph_doctor.probe.region.expression import Expression, Kind
from cudagraph_doctor.probe.region.lookup import CONTAINERS, MISSING, OPAQUE, is_key, is_module, item, namespace
from cudagraph_doctor.probe.region.reach import Reach, key_text
from cudagraph_doctor.probe.region.slot import (
    AttributeSlot,
    CellSlot,
    FrameSlot,
    GlobalSlot,
    ItemSlot,
    Slot,
    cell_of,
    module_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

    from cudagraph_doctor.probe.region.anchors import Anchor
    from cudagraph_doctor.probe.region.followed import Followed
    from cudagraph_doctor.probe.region.lookup import Lookup

    Seen = Callable[[Slot, Any, Expression, FrameType], None]

_CODE = frozenset({FunctionType, BuiltinFunctionType, ModuleType, type, MethodType})
"""Types of what a global name or a class mostly stands for: not state, and looked at no further."""
_BEHIND = range(0, 12, 2)
"""How far behind the instruction of a call a frame may say that it is, while the function that it called runs."""
_ARITHMETIC: dict[str, Any] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}  # fmt: skip


class Evaluation:
    """Evaluates expressions in the frames of one region, and keeps its slots.

    Args:
        anchors: names of the frames that were running when the region began, by the identity of the frame.
        lookup: reads attributes.
        followed: decides which modules' globals count.
        seen: told of each slot that is read on the way, with what was in it.
    """

    def __init__(self, anchors: dict[int, Anchor], lookup: Lookup, followed: Followed, seen: Seen) -> None:
        self._anchors = anchors
        self._lookup = lookup
        self._followed = followed
        self._seen = seen
        self.slots: dict[tuple[Any, ...], Slot] = {}
        self.reach = Reach(lookup)
        self._functions: dict[tuple[int, int], weakref.ref[FunctionType] | None] = {}

    # ── reading ─────────────────────────────────────────────────────────────────────────────────
    def read(self, expression: Expression, frame: FrameType, variables: dict[str, Any]) -> tuple[Any, Slot | None]:
        """The value of an expression, and its slot if it is in one. Every slot on the way counts as read."""
        value, slot = self._value(expression, frame, variables)
        if slot is not None and value is not MISSING:
            self._seen(slot, value, expression, frame)
        return value, slot

    def place(self, expression: Expression, frame: FrameType, variables: dict[str, Any]) -> tuple[Any, Slot | None]:
        """The same for an expression that is about to be assigned to: only what is on the way to it is read."""
        return self._value(expression, frame, variables)

    def _value(self, expression: Expression, frame: FrameType, variables: dict[str, Any]) -> tuple[Any, Slot | None]:
        kind = expression.kind
        if kind is Kind.ATTRIBUTE:
            return self._attribute(expression, frame, variables)
        if kind is Kind.LOCAL:
            value = variables.get(expression.name, MISSING)
            anchor = self._anchor(frame)
            return value, self._frame_slot(expression.name, anchor, "local") if anchor is not None else None
        if kind is Kind.ITEM:
            return self._item(expression, frame, variables)
        if kind is Kind.CONSTANT:
            return expression.value, None
        if kind is Kind.GLOBAL:
            return self._global(expression.name, frame)
        if kind is Kind.NAME:
            if frame.f_locals is frame.f_globals:
                return self._global(expression.name, frame)
            value = variables.get(expression.name, MISSING)
            return self._global(expression.name, frame) if value is MISSING else (value, None)
        if kind is Kind.FREE:
            return self._free(expression.name, frame, variables)
        if kind is Kind.ARITHMETIC:
            return self._arithmetic(expression, frame, variables), None
        return OPAQUE, None

    # ── names ───────────────────────────────────────────────────────────────────────────────────
    def _global(self, name: str, frame: FrameType) -> tuple[Any, Slot | None]:
        space = frame.f_globals
        if type(space) is not dict:
            return OPAQUE, None
        value = space.get(name, MISSING)
        if value is MISSING:
            value = frame.f_builtins.get(name, MISSING)
            if value is not MISSING:
                return value, None
        elif type(value) in _CODE:
            return value, None
        return value, self._in_space(space, name)

    def _in_space(self, space: dict[str, Any], name: str) -> Slot | None:
        key = ("G", id(space), name)
        slot = self.slots.get(key)
        if slot is None:
            module = module_of(space)
            if module is not None:
                if not self._followed.module(module, space):
                    return None
                slot = GlobalSlot(name, name, module)
            else:
                anchor = self._of_space(space)
                if anchor is None:
                    return None
                slot = FrameSlot(name, name, anchor, "global")
            self.slots[key] = slot
        return slot

    def _anchor(self, frame: FrameType) -> Anchor | None:
        """The name of a frame that ran when the region began: its identity alone may be another one's by now."""
        known = self._anchors.get(id(frame))
        found: Any = frame.f_trace
        return known if found is known else None

    def _of_space(self, space: dict[str, Any]) -> Anchor | None:
        """A running frame with these globals: those of code made by `exec` belong to no module."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_globals is space and id(frame) in self._anchors:
                return self._anchors[id(frame)]
            frame = frame.f_back
        return None

    def _frame_slot(self, name: str, anchor: Anchor, kind: str) -> Slot:
        key = ("L", id(anchor), name)
        slot = self.slots.get(key)
        if slot is None:
            slot = self.slots[key] = FrameSlot(name, name, anchor, kind)
        return slot

    def _free(self, name: str, frame: FrameType, variables: dict[str, Any]) -> tuple[Any, Slot | None]:
        value = variables.get(name, MISSING)
        code = frame.f_code
        outer = frame.f_back
        while outer is not None:  # the function whose variable it is, if it runs
            inner = outer.f_code
            if id(outer) in self._anchors and name in inner.co_cellvars and _has_inside(inner, code):
                return value, self._frame_slot(name, self._anchors[id(outer)], "cell")
            outer = outer.f_back
        anchor = self._anchor(frame)
        if anchor is not None:
            return value, self._frame_slot(name, anchor, "cell")
        function = self._function(frame)
        if function is None:
            return value, None
        key = ("C", id(function), name)
        slot = self.slots.get(key)
        if slot is None:
            slot = self.slots[key] = CellSlot(name, name, function)
        return value, slot

    def _function(self, frame: FrameType) -> FunctionType | None:
        """The function that a frame runs: what its caller's call evaluates to."""
        code, caller = frame.f_code, frame.f_back
        key = (id(code), id(caller.f_code) if caller is not None else 0)
        known = self._functions.get(key)
        if known is not None:
            found = known()
            if found is not None and found.__code__ is code and self._shares(found, frame):
                return found
        if caller is None:
            return None
        calls = table_of(caller.f_code).calls
        call = next((calls[caller.f_lasti - back] for back in _BEHIND if caller.f_lasti - back in calls), None)
        if call is None:
            return None
        variables = locals_of(caller)
        try:
            value, _ = self._value(call.parts[0], caller, variables)
        finally:
            let_go(caller, variables)
        if type(value) is MethodType:
            value = value.__func__
        if type(value) is FunctionType and value.__code__ is code:
            self._functions[key] = weakref.ref(value)
            return value
        return None

    @staticmethod
    def _shares(function: FunctionType, frame: FrameType) -> bool:
        """Whether a function of the same code is the very one: its cells hold what the frame's hold."""
        variables = frame.f_locals
        return all(cell_of(function, name) is variables.get(name, MISSING) for name in function.__code__.co_freevars)

    # ── attributes and elements ─────────────────────────────────────────────────────────────────
    def _attribute(
        self, expression: Expression, frame: FrameType, variables: dict[str, Any]
    ) -> tuple[Any, Slot | None]:
        base = expression.base
        assert base is not None
        owner, parent = self.read(base, frame, variables)
        if owner is MISSING or owner is OPAQUE:
            return OPAQUE, None
        name = expression.name
        value = self._lookup.attribute(owner, name)
        if value is OPAQUE:
            return OPAQUE, None
        kind = type(owner)
        if issubclass(kind, ModuleType):
            return value, (self._in_space(namespace(owner), name) if type(value) not in _CODE else None)
        if issubclass(kind, type) and type(value) in _CODE:
            return value, None
        key = ("A", id(owner), name)
        slot: Any = self.slots.get(key)
        if slot is None or (slot.owner is not None and slot.owner() is not owner):
            slot = AttributeSlot(name, f"{self._path(base, parent, owner)}.{name}", owner, parent)
            if slot.owner is None and parent is None:
                return value, None
            self.slots[key] = slot
        return value, slot

    def _item(self, expression: Expression, frame: FrameType, variables: dict[str, Any]) -> tuple[Any, Slot | None]:
        base = expression.base
        assert base is not None
        container, parent = self.read(base, frame, variables)
        if container is MISSING or container is OPAQUE:
            return OPAQUE, None
        key, _ = self.read(expression.parts[0], frame, variables)
        if not is_key(key):
            return OPAQUE, None
        value = item(container, key)
        if value is OPAQUE:
            return OPAQUE, None
        return value, self.element(container, key, parent, base)

    def element(self, container: Any, key: Any, parent: Slot | None, base: Expression | None) -> Slot | None:
        """The slot of an element of a container; None where the container is not found again."""
        if is_module(container):  # a ModuleList: its children are attributes
            return None
        if type(key) is int and key < 0 and type(container) in CONTAINERS:
            key += len(container)
        if parent is None:
            parent = self.reach.slot_of(container)
            if parent is None:
                return None
        place = ("I", id(parent), type(key), key)
        slot = self.slots.get(place)
        if slot is None:
            slot = self.slots[place] = ItemSlot(key, f"{parent.path}[{key_text(key)}]", parent)
        return slot

    def _path(self, base: Expression, parent: Slot | None, owner: Any) -> str:
        """How an object is called: as it was first reached, else as it is called here."""
        if parent is not None and parent.KIND != "local":
            return parent.path
        return self.reach.path_of(owner) or (parent.path if parent is not None else text_of(base))

    def _arithmetic(self, expression: Expression, frame: FrameType, variables: dict[str, Any]) -> Any:
        parts = [self.read(part, frame, variables)[0] for part in expression.parts]
        if expression.name == "tuple":
            return tuple(parts) if all(is_key(part) for part in parts) else OPAQUE
        if not all(type(part) is int for part in parts):
            return OPAQUE
        if len(parts) == 1:
            return -parts[0] if expression.name == "-" else ~parts[0]
        operation = _ARITHMETIC.get(expression.name)
        try:
            return operation(*parts) if operation is not None else OPAQUE
        except ZeroDivisionError:
            return OPAQUE


def text_of(expression: Expression) -> str:
    """An expression as it is written, without what only its values would tell."""
    kind = expression.kind
    if kind is Kind.ATTRIBUTE and expression.base is not None:
        return f"{text_of(expression.base)}.{expression.name}"
    if kind is Kind.ITEM and expression.base is not None:
        key = expression.parts[0]
        return f"{text_of(expression.base)}[{key_text(key.value) if key.kind is Kind.CONSTANT else text_of(key)}]"
    if kind is Kind.CONSTANT:
        return key_text(expression.value) if is_key(expression.value) else "…"
    if kind is Kind.RESULT:
        return f"{text_of(expression.parts[0])}()"
    return expression.name or "…"


def _has_inside(outer: CodeType, inner: CodeType) -> bool:
    """Whether the code of a function lies inside another one's."""
    return any(
        constant is inner or (isinstance(constant, type(inner)) and _has_inside(constant, inner))
        for constant in outer.co_consts
    )
