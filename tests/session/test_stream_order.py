"""Which work outside of captures comes before which."""

import pytest

from cudagraph_doctor.session.stream_order import StreamOrder
from cudagraph_doctor.testing import TraceBuilder
from cudagraph_doctor.trace import events


@pytest.fixture
def work():
    class Work:
        def __init__(self):
            self.trace = TraceBuilder()
            self.main, self.side = self.trace.stream(), self.trace.stream()
            self.event = self.trace.next_id("event")

        def on(self, stream, what="write"):
            return self.trace.add(events.Touch, storage=1, what=what, stream=stream)

        def before(self, first, second):
            return StreamOrder(self.trace.session()).before(first, second)

    return Work()


def test_one_stream_is_in_order(work):
    assert work.before(work.on(work.main), work.on(work.main))


def test_two_streams_are_not(work):
    assert not work.before(work.on(work.side), work.on(work.main))


def test_a_wait_for_the_stream_orders_what_was_before_it(work):
    first = work.on(work.side)
    work.trace.wait_stream(work.main, work.side)
    late = work.on(work.side)
    last = work.on(work.main)
    assert work.before(first, last)
    assert not work.before(late, last)


def test_an_event_carries_what_was_before_its_record(work):
    first = work.on(work.side)
    work.trace.record(work.event, work.side)
    late = work.on(work.side)
    work.trace.wait(work.main, work.event)
    last = work.on(work.main)
    assert work.before(first, last)
    assert not work.before(late, last)


def test_order_is_handed_on_through_a_third_stream(work):
    third = work.trace.stream()
    first = work.on(work.side)
    work.trace.wait_stream(third, work.side)
    work.trace.wait_stream(work.main, third)
    assert work.before(first, work.on(work.main))


@pytest.mark.parametrize("call", ["cuCtxSynchronize", "cuStreamSynchronize"])
def test_what_the_host_waited_for_comes_before_what_it_launches(work, call):
    first = work.on(work.side)
    work.trace.call(call, stream=work.side if "Stream" in call else 0)
    assert work.before(first, work.on(work.main))


def test_a_host_read_waits_for_its_stream_alone(work):
    first = work.on(work.side)
    work.on(work.main, "host-read")
    assert not work.before(first, work.on(work.main))
    work.on(work.side, "host-read")
    assert work.before(first, work.on(work.main))


def test_a_blocking_stream_waits_for_the_default_stream(work):
    legacy = work.trace.next_id("stream")
    blocking = work.trace.next_id("stream")
    work.trace.add(events.Stream, id=legacy, handle="0x0", kind="legacy")
    work.trace.add(events.Stream, id=blocking, handle="0x77", blocking=True)
    assert work.before(work.on(blocking), work.on(legacy))
    assert not work.before(work.on(work.side), work.on(legacy))


def test_of_work_that_is_not_known_nothing_is_claimed(work):
    assert work.before(work.on(0), work.on(work.main))
