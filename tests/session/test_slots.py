"""Slots: equal values, families, and what was bound to something else."""

import pytest

from cudagraph_doctor.session.slots import UNKNOWN, equal, kin, plain, rebound
from cudagraph_doctor.testing import TraceBuilder
from cudagraph_doctor.trace import events


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1", "True", True),
        ("2", "2.0", True),
        ("'a'", "'b'", False),
        ("torch.float16", "torch.float32", False),
        ("x" * 9, "x" * 9, True),
        ("[", "]", False),
    ],
)
def test_equal_values(one, other, same):
    assert equal(one, other) is same


def test_what_shows_no_value_is_unknown():
    assert plain("torch.float16") is UNKNOWN
    assert plain("len 3") is UNKNOWN


def session(*changes, role=""):
    trace = TraceBuilder(source="for n in sizes:\n    with graph(g):\n        y = f(n)\n")
    for number in (1, 2):
        with trace.capture(line=2) as capture:
            capture.end(nodes=1)
        trace.add(
            events.Slot,
            id=number,
            cap=capture.id if not role else 1,
            path=f"w{number if role else ''}",
            kind="global",
            ptr=hex(0x1000 * number),
            storage=number,
            role=role,
        )
    for fields in changes:
        trace.add(events.SlotChange, **fields)
    return trace.session()


def test_the_same_slot_of_captures_at_one_line_is_a_family():
    found = session()
    assert [state.record.id for state in kin(found.slots[1])] == [2]


def test_a_storage_whose_slot_holds_another_tensor():
    found = session({"slot": 1, "ptr": "0x9000"})
    assert rebound(found, 1) is found.slots[1]
    assert rebound(found, 0, "0x1000") is found.slots[1]
    assert rebound(found, 2) is None


def test_what_the_region_left_and_what_was_handed_over_are_no_rebinding():
    assert rebound(session({"slot": 1, "ptr": "0x1000"}), 1) is None
    assert rebound(session({"slot": 1, "ptr": "0x9000", "given": "args[0]"}), 1) is None


def test_a_weight_that_came_back_to_its_address_moved_with_the_others():
    found = session({"slot": 1, "ptr": "0x9000"}, role="parameter")
    assert rebound(found, 2) is found.slots[2]
