"""Replay slots: 64 bytes each, in a file that the kernel keeps."""

from __future__ import annotations

import os
import struct

from cudagraph_doctor.probe.slots import Slots


def units(path: str) -> list[tuple[int, ...]]:
    with open(path, "rb") as file:
        return list(struct.iter_unpack("<8Q", file.read()))


def test_slot_is_in_the_file_as_soon_as_it_is_written(tmp_path) -> None:
    slots = Slots(str(tmp_path / "s.slots"))
    slot = slots.open(9)
    slot[1] += 1
    assert units(slots.path)[slots.index(9)][:3] == (9, 1, 0)
    assert units(slots.path)[0][3] == 1


def test_same_graph_has_the_same_slot(tmp_path) -> None:
    slots = Slots(str(tmp_path / "s.slots"))
    slots.open(9)[1] = 5
    slots.open(10)
    assert slots.open(9)[1] == 5
    assert slots.index(10) == 2


def test_more_slots_than_one_chunk(tmp_path) -> None:
    slots = Slots(str(tmp_path / "s.slots"))
    for number in range(1, 2501):
        slots.open(number)[1] = number
    found = units(slots.path)
    assert [unit[1] for unit in found[1:2501]] == list(range(1, 2501))
    assert os.path.getsize(slots.path) == 3 * 64 * 1024


def test_without_a_file_the_slots_still_work() -> None:
    slots = Slots("/proc/no/such.slots")
    slots.open(1)[1] += 1
    slots.lost(2, 28)
    assert not slots.persistent
    assert slots.open(1)[1] == 1
    assert slots.head[1] == 2


def test_held_slot_moves_to_the_childs_file(tmp_path) -> None:
    slots = Slots(str(tmp_path / "parent.slots"))
    slot = slots.open(3)
    slot[1] = 7
    child = os.fork()
    if child == 0:
        slots.move_to(str(tmp_path / "child.slots"))
        slot[1] += 1
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert units(str(tmp_path / "child.slots"))[1][:2] == (3, 1)
    assert units(str(tmp_path / "parent.slots"))[1][:2] == (3, 7)
