"""What one captured region reads and writes, gathered while its window is open."""

from __future__ import annotations

from cudagraph_doctor.probe.region.anchors import anchor, let_go, locals_of
from cudagraph_doctor.probe.region.bytecode import table_of
from cudagraph_doctor.probe.region.evaluation import Evaluation
from cudagraph_doctor.probe.region.expression import NAMES, Access, Expression, Kind, Table, Use
from cudagraph_doctor.probe.region.held import Held, Sort
from cudagraph_doctor.probe.region.lookup import OPAQUE, is_tensor, role_in_module
from cudagraph_doctor.probe.region.reach import elements
from cudagraph_doctor.probe.region.slot import MOST_PLACES, AttributeSlot, Slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from cudagraph_doctor.probe.region.anchors import Anchor
    from cudagraph_doctor.probe.region.followed import Followed
    from cudagraph_doctor.probe.region.held import Holding
    from cudagraph_doctor.probe.region.lookup import Lookup

MOST_SLOTS = 20_000
"""Slots of one region."""
MOST_READ_BY_LOOPS = 512
"""Elements of a container that a loop, or a call that got it, may have read."""
_LENGTH, _CHANGED = 1 << Use.LENGTH, 1 << Use.CHANGED
_ELEMENTS = 1 << Use.ELEMENTS | 1 << Use.HANDED
_COUNTED = _LENGTH | 1 << Use.ELEMENTS


class Region:
    """The slots of one window. Its methods run inside events of the target: they must be quick, and guarded outside."""

    def __init__(self, window: Any, lookup: Lookup, followed: Followed, holding: Holding, stacks: Any) -> None:
        self.window = window
        self._followed = followed
        self._holding = holding
        self._stacks = stacks
        self.entered: dict[int, Anchor] = {}
        """Frames that ran when the window opened, by their identity → their names."""
        self.refused = 0
        """Frames that could not be named, because somebody traces them."""
        self.full = False
        self._seen_accesses: set[tuple[int, int]] = set()
        lookup.forget()
        self._evaluation = Evaluation(self.entered, lookup, followed, self._seen)
        self.slots = self._evaluation.slots

    # ── the window opens and closes ─────────────────────────────────────────────────────────────
    def enter(self, frame: FrameType | None) -> list[FrameType]:
        """Name the frames of followed code that run now; they are alive at a replay, perhaps."""
        found = []
        while frame is not None:
            if self._followed.code(frame.f_code, frame.f_globals) in {"user", "third_party"}:
                name = anchor(frame)
                if name is not None:
                    self.entered[id(frame)] = name
                    found.append(frame)
                else:
                    self.refused += 1
            frame = frame.f_back
        return found

    def left(self, frame: FrameType) -> None:
        """A frame returned: its identity may be given again."""
        self.entered.pop(id(frame), None)

    def close(self) -> None:
        """The window is over: forget what only counts inside."""
        self._evaluation.reach.clear()
        self._seen_accesses.clear()
        self.entered.clear()

    # ── instructions ────────────────────────────────────────────────────────────────────────────
    def table(self, code: CodeType, space: Any) -> Table | None:
        """The table of a code object that is followed; None for others."""
        return table_of(code) if self._followed.code(code, space) else None

    def access(self, access: Access, frame: FrameType, *, keep: bool) -> bool:
        """An instruction that reads or writes a slot is about to run.

        Args:
            access: what it does.
            frame: the frame that runs it.
            keep: the frame's locals may stay in its dictionary (a trace function must leave them there).

        Returns:
            Whether it need not be seen again in this window: all that it could tell is known.
        """
        if self.full or (access.local and id(frame) not in self.entered):
            return False
        expression = access.expression
        root = expression.root
        variables = locals_of(frame)
        try:
            fixed = not access.writes and _is_fixed(expression)
            if fixed:
                key = (id(expression), id(variables.get(root.name)) if root.kind in _CARRIED else 0)
                if key in self._seen_accesses:
                    return root.kind is Kind.GLOBAL
                self._seen_accesses.add(key)
            if access.writes:
                self._write(expression, frame, variables)
            else:
                self._evaluation.read(expression, frame, variables)
            if len(self.slots) > MOST_SLOTS:
                self.full = True
        finally:
            if not keep:
                let_go(frame, variables)
        return fixed and root.kind is Kind.GLOBAL

    def _seen(self, slot: Slot, value: Any, expression: Expression, frame: FrameType) -> None:
        """A slot is read on the way."""
        if not slot.first:
            slot.first = "read"
            slot.held = self._holding.of(value)
            slot.stack = self._stacks.of(frame)
            if type(slot) is AttributeSlot and slot.held.sort is Sort.TENSOR and slot.owner is not None:
                slot.role = role_in_module(slot.owner(), slot.name)
        if len(slot.reads) < MOST_PLACES:
            _add(slot.reads, frame, expression.offset)
        held = slot.held
        if held is None or held.sort is Sort.PLAIN:
            return
        uses = 0
        for use in expression.uses:
            uses |= 1 << use
        slot.uses |= uses
        if held.sort is not Sort.TENSOR:
            self._evaluation.reach.learn(value, slot)
            if held.sort is Sort.CONTAINER and uses & _ELEMENTS:
                self._all_elements(slot, value, frame, expression, counted=bool(uses & 1 << Use.ELEMENTS))

    def _all_elements(
        self, slot: Slot, container: Any, frame: FrameType, expression: Expression, *, counted: bool
    ) -> None:
        """A loop, or a call, reads the elements: tensors, and in a loop plain values."""
        for key, value in elements(container, MOST_READ_BY_LOOPS):
            if is_tensor(value) or (counted and self._holding.is_plain(value)):
                inner = self._evaluation.element(container, key, slot, None)
                if inner is not None and not inner.first:
                    inner.first, inner.held, inner.stack = "read", self._holding.of(value), slot.stack
                    _add(inner.reads, frame, expression.offset)

    def _write(self, expression: Expression, frame: FrameType, variables: dict[str, Any]) -> None:
        value, slot = self._evaluation.place(expression, frame, variables)
        if slot is None or value is OPAQUE:
            return
        if not slot.first:
            slot.first = "write"
            slot.held = self._holding.of(value)
            slot.stack = self._stacks.of(frame)
        if len(slot.writes) < MOST_PLACES:
            _add(slot.writes, frame, expression.offset)


_CARRIED = frozenset({Kind.LOCAL, Kind.FREE, Kind.NAME})


def _is_fixed(expression: Expression) -> bool:
    """Whether it names the same slot as long as its root is the same object."""
    here: Expression | None = expression
    while here is not None:
        if here.kind is Kind.ITEM and here.parts[0].kind is not Kind.CONSTANT:
            return False
        if here.base is None:
            return here.kind in NAMES
        here = here.base
    return False


def _add(places: list[tuple[CodeType, int, str]], frame: FrameType, offset: int) -> None:
    code = frame.f_code
    for known in places:
        if known[0] is code and known[1] == offset:
            return
    name = frame.f_globals.get("__name__") if type(frame.f_globals) is dict else None
    places.append((code, offset, name if type(name) is str else ""))


def counts(slot: Slot) -> bool:
    """Whether the length of the container in a slot matters to the region."""
    return bool(slot.uses & (_COUNTED | _CHANGED))


def changes(slot: Slot, left: Held | None) -> bool:
    """Whether the region changed the container in a slot by a method of it."""
    return bool(
        slot.uses & _CHANGED
        and slot.held is not None
        and left is not None
        and left.sort is Sort.CONTAINER
        and slot.held.sort is Sort.CONTAINER
        and left.length != slot.held.length
    )
