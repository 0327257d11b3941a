"""Writes what is known of slots into the trace: `slot` and `slot-change` records."""

from __future__ import annotations

from cudagraph_doctor.probe.liveness.storages import storages_of
from cudagraph_doctor.probe.region.held import Sort

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cudagraph_doctor.probe.context import Context
    from cudagraph_doctor.probe.region.held import Held
    from cudagraph_doctor.probe.region.slot import Slot

MOST_CHANGES = 20_000
"""`slot-change` records of a process; 200 bytes each."""


class SlotRecords:
    """Writes the records of slots."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._storages = storages_of(context)
        self._left = MOST_CHANGES

    def tell(self, slot: Slot, cap: int) -> None:
        """The `slot` record of a slot, once; again with the same id where more is known by now."""
        context, held = self._context, slot.held
        assert held is not None
        if not slot.id:
            slot.id = context.ids.next("slot")
        slot.told = True
        fields: dict[str, Any] = {"id": slot.id, "path": slot.path, "kind": slot.KIND, "cap": cap}
        if not slot.reads:
            fields["read"] = False
        if slot.writes:
            fields["written"] = True
        if slot.first == "write":
            fields["first"] = "write"
        fields.update(self._value(held))
        if held.version is not None:
            fields["version"] = held.version
        role = slot.role or ("module" if held.sort is Sort.MODULE else "")
        if role:
            fields["role"] = role
        left = slot.left
        if left is not None:
            fields["left"] = left.text
            if left.ptr:
                fields["left_ptr"] = hex(left.ptr)
        stacks = context.stacks
        for name, places in (("reads", slot.reads), ("writes", slot.writes)):
            told = [frame for place in places if (frame := stacks.frame_of(*place)) is not None]
            if told:
                fields[name] = told
        if slot.stack:
            fields["stack"] = slot.stack
        context.write("slot", **fields)

    def change(self, slot: Slot, now: Held, executable: int, replay: int, **more: Any) -> None:
        """A look found `now` in a slot."""
        if not self._left:
            return
        self._left -= 1
        fields: dict[str, Any] = {"slot": slot.id, **self._value(now), "exec": executable, "replay": replay, **more}
        self._context.write("slot-change", **fields)

    def _value(self, held: Held) -> dict[str, Any]:
        fields: dict[str, Any] = {"type": held.type} if held.type else {}
        text = held.text
        if text:
            fields["value"] = text
        if held.sort is Sort.TENSOR:
            if held.ptr:
                fields["ptr"] = hex(held.ptr)
            fields["shape"] = held.shape
            storage = self._storages.number(held.impl) if held.impl else 0
            if storage:
                fields["storage"] = storage
        return fields
