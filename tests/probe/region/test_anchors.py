"""A frame is recognised again by what stands in its `f_trace`, and nothing in it is kept alive."""

from __future__ import annotations

import sys
import weakref
from types import FrameType

from cudagraph_doctor.probe.region.anchors import Anchor, anchor, anchored, let_go, locals_of


class Thing:
    """Something that a local variable may hold."""


def _frame() -> FrameType:
    return sys._getframe(1)


def test_a_frame_keeps_its_name() -> None:
    frame = _frame()
    name = anchor(frame)
    assert isinstance(name, Anchor)
    assert anchor(frame) is name
    assert anchored(_frame())[id(name)] is frame


def test_another_frame_of_the_same_code_has_none() -> None:
    def named() -> int:
        name = anchor(_frame())
        return id(name)

    first = named()
    assert first not in anchored(_frame())


def test_the_frame_of_a_tracer_is_left_alone() -> None:
    frame = _frame()

    def tracer(*_: object) -> None:
        return None

    frame.f_trace = tracer
    try:
        assert anchor(frame) is None
        assert frame.f_trace is tracer
    finally:
        frame.f_trace = None


def test_locals_die_when_the_target_drops_them() -> None:
    def run() -> bool:
        thing = Thing()
        gone = weakref.ref(thing)
        frame = _frame()
        variables = locals_of(frame)
        assert variables["thing"] is thing
        let_go(frame, variables)
        del variables, thing
        return gone() is None

    assert run()


def test_a_dictionary_that_the_target_keeps_is_not_emptied() -> None:
    def run() -> dict[str, object]:
        number = 7
        kept = locals()
        frame = _frame()
        variables = locals_of(frame)
        let_go(frame, variables)
        return {**kept, "seen": number}

    assert run()["number"] == 7
