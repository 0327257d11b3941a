"""Looks at the slots of a captured region before its replays, and tells what is another thing than before."""

from __future__ import annotations

import sys
from time import monotonic_ns

from cudagraph_doctor.probe.liveness.host_memory import version_of
from cudagraph_doctor.probe.region.anchors import anchored
from cudagraph_doctor.probe.region.held import Held, Sort
from cudagraph_doctor.probe.region.lookup import CONTAINERS, GONE, OPAQUE
from cudagraph_doctor.probe.region.region import changes, counts
from cudagraph_doctor.probe.region.slot import Look, Slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType
    from typing import Any

    from cudagraph_doctor.probe.context import Context
    from cudagraph_doctor.probe.region.held import Holding
    from cudagraph_doctor.probe.region.lookup import Lookup
    from cudagraph_doctor.probe.region.records import SlotRecords

ALWAYS = 4
"""Replays, the first ones, before each of which is a look; then before each power of two."""
SHARE = 100
"""Between two of these a look may take one part in so many of the time: where replays are slow, changes show soon."""


class RegionWatch:
    """The slots of one captured region, looked at before replays of its graph."""

    __slots__ = ("_looks", "always", "cap", "due", "next", "replays", "slots", "told")

    def __init__(self, cap: int, slots: list[Slot], looks: Looks, *, always: bool) -> None:
        self.cap = cap
        self._looks = looks
        self.slots = slots
        self.replays = 0
        """Replays that have begun."""
        self.next = 1
        """Number of the replay before which the next look is, at the latest."""
        self.due = 0
        """CLOCK_MONOTONIC from which on the next look may be."""
        self.told = False
        self.always = always

    def look(self, executable: int) -> None:
        """Look at all slots, before the replay that has just been counted."""
        self._looks.look(self, executable, self.replays)

    def looked(self, began: int, replay: int) -> None:
        """A look is over: when the next one is."""
        now = monotonic_ns()
        self.next = replay + 1 if replay < ALWAYS or self.always else 1 << replay.bit_length()
        self.due = now + SHARE * (now - began)


class Looks:
    """Makes the looks, and settles what a region left when it ended."""

    def __init__(self, context: Context, holding: Holding, lookup: Lookup, records: SlotRecords) -> None:
        self._context = context
        self._holding = holding
        self._lookup = lookup
        self._records = records

    def settle(self, slots: Iterable[Slot], cap: int, frame: FrameType) -> RegionWatch:
        """A region has ended: what it left in the slots that it wrote, and which slots are looked at from now on."""
        look = Look(anchored(frame), self._lookup)
        kept = []
        try:
            with self._holding.quiet():
                for slot in slots:
                    held = slot.held
                    if not slot.first or held is None:
                        continue
                    if slot.writes or held.sort in {Sort.CONTAINER, Sort.TENSOR}:
                        self._settle(slot, held, look)
                    slot.last = slot.left if slot.left is not None else held
                    if _is_watched(slot):
                        kept.append(slot)
        finally:
            look.close()
        return RegionWatch(cap, kept, self, always=bool(self._context.config.get("deep")))

    def _settle(self, slot: Slot, held: Held, look: Look) -> None:
        if slot.writes or (held.sort is Sort.CONTAINER and counts(slot)):
            value = look.value(slot)
            if value is OPAQUE or value is GONE:
                return
            left = self._holding.of(value)
            if slot.writes or changes(slot, left):
                slot.left = left
        elif held.sort is Sort.TENSOR:
            tensor = held.object()
            if tensor is not None:
                slot.version = version_of(tensor)

    # ── before a replay ─────────────────────────────────────────────────────────────────────────
    def look(self, watch: RegionWatch, executable: int, replay: int) -> None:
        """Look at all slots before a replay of their graph."""
        began = monotonic_ns()
        if not watch.told:
            watch.told = True
            for slot in watch.slots:
                if _is_told(slot):
                    self._records.tell(slot, watch.cap)
        look = Look(anchored(sys._getframe(1)), self._lookup)
        try:
            with self._holding.quiet():
                for slot in watch.slots:
                    value = look.value(slot)
                    if value is OPAQUE or value is GONE:
                        continue
                    last = slot.last
                    assert last is not None
                    if last.sort is Sort.PLAIN and value is last.plain:
                        continue
                    self._compare(watch, slot, last, value, executable, replay)
        finally:
            look.close()
        watch.looked(began, replay)

    def _compare(self, watch: RegionWatch, slot: Slot, last: Held, value: Any, executable: int, replay: int) -> None:
        holding = self._holding
        if (
            last.sort is Sort.TENSOR
            and last.object() is value
            and holding.place(value) == last.ptr
            and not last.content
        ):
            slot.version = version_of(value)
            return
        if last.sort is Sort.CONTAINER and not counts(slot) and type(value) in CONTAINERS:
            return
        now = holding.of(value)
        if last.same(now):
            slot.last = now
            return
        if now.sort is Sort.OTHER and last.sort is Sort.OTHER and now.type == last.type and slot.KIND != "attribute":
            slot.last = now  # a function made anew, an object of the next step: says nothing by itself
            return
        if not slot.told:
            self._records.tell(slot, watch.cap)
        slot.last = now
        more: dict[str, Any] = {}
        captured = slot.held
        if captured is not None and captured.sort is Sort.TENSOR:
            more["refreshed"] = self._refreshed(slot, captured)
        self._records.change(slot, now, executable, replay, **more)

    def _refreshed(self, slot: Slot, captured: Held) -> bool | None:
        """Whether the tensor that the graph uses was written since the last look."""
        tensor = captured.object()
        if tensor is None:
            return None if captured.ref is None else False  # given up for the target's sake: see tensor_reference
        version, slot.version = slot.version, version_of(tensor)
        if version is None or slot.version is None:
            return None
        return slot.version != version


def _is_watched(slot: Slot) -> bool:
    """Whether a later look at the slot can tell anything."""
    held = slot.held
    assert held is not None
    if slot.first == "write" and slot.KIND in {"local", "cell"} and held.sort in {Sort.MISSING, Sort.OTHER}:
        return bool(slot.left is not None and slot.left.sort is not Sort.OTHER)
    return held.sort is not Sort.OTHER or bool(slot.writes) or slot.KIND == "attribute"


def _is_told(slot: Slot) -> bool:
    """Whether a slot is told before anything has changed in it."""
    held = slot.held
    assert held is not None
    if slot.writes or slot.left is not None:
        return True
    if held.sort is Sort.CONTAINER:
        return counts(slot)
    if held.sort is Sort.TENSOR:
        return True
    return held.sort is Sort.PLAIN
