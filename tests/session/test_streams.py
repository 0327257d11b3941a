import pytest

from cudagraph_doctor.testing import TraceBuilder, cuda_error


@pytest.fixture
def trace():
    return TraceBuilder()


def forks(trace):
    state = trace.session().captures[0]
    return {fork.stream: fork for fork in state.forks}


def fork(trace, capture, side):
    event = trace.event()
    capture.record(event)
    return capture.wait(side, event)


def join(trace, capture, side, into=None):
    event = trace.event()
    capture.record(event, side)
    capture.wait(into or capture.stream, event)


def test_waiting_for_captured_work_joins_a_stream_to_the_capture(trace):
    side = trace.stream()
    with trace.capture() as capture:
        wait = fork(trace, capture, side)
        work = capture.op("aten::mm", stream=side)
        join(trace, capture, side)
        capture.end(raises=cuda_error(904))  # ended badly: nothing may be concluded from the end
    found = forks(trace)[side]
    assert found.by.q == wait
    assert found.last_work.q == work
    assert found.joined


def test_work_without_a_wait_by_the_origin_is_not_joined(trace):
    side = trace.stream()
    with trace.capture() as capture:
        fork(trace, capture, side)
        capture.op("aten::mm", stream=side)
        capture.end(raises=cuda_error(904))
    assert not forks(trace)[side].joined


def test_work_after_the_join_is_not_joined(trace):
    side = trace.stream()
    with trace.capture() as capture:
        fork(trace, capture, side)
        capture.op("aten::mm", stream=side)
        join(trace, capture, side)
        late = capture.op("aten::relu", stream=side)
        capture.end(raises=cuda_error(904))
    found = forks(trace)[side]
    assert not found.joined
    assert found.last_work.q == late


def test_a_stream_without_work_of_its_own_needs_no_join(trace):
    side = trace.stream()
    with trace.capture() as capture:
        fork(trace, capture, side)
        capture.op("aten::view", stream=side, kind="view")
        capture.end(raises=cuda_error(904))
    assert forks(trace)[side].joined


def test_joining_through_another_stream_counts(trace):
    one, two = trace.stream(), trace.stream()
    with trace.capture() as capture:
        fork(trace, capture, one)
        fork(trace, capture, two)
        capture.op("aten::mm", stream=two)
        join(trace, capture, two, into=one)
        capture.op("aten::mm", stream=one)
        join(trace, capture, one)
        capture.end(raises=cuda_error(904))
    assert {stream: f.joined for stream, f in forks(trace).items()} == {one: True, two: True}


def test_a_fork_of_a_fork(trace):
    one, two = trace.stream(), trace.stream()
    with trace.capture() as capture:
        fork(trace, capture, one)
        event = trace.event()
        capture.record(event, one)
        capture.wait(two, event)
        capture.op("aten::mm", stream=two)
        join(trace, capture, one)
        capture.end(raises=cuda_error(904))
    assert {stream: f.joined for stream, f in forks(trace).items()} == {one: True, two: False}


def test_wait_stream_is_a_record_and_a_wait(trace):
    side = trace.stream()
    with trace.capture() as capture:
        capture.wait_stream(side, capture.stream)
        capture.op("aten::mm", stream=side)
        capture.wait_stream(capture.stream, side)
        capture.end(raises=cuda_error(904))
    assert forks(trace)[side].joined


def test_the_same_wait_seen_at_two_layers_is_one(trace):
    side, event = trace.stream(), trace.event()
    with trace.capture() as capture:
        capture.call("cuEventRecord", event=event, stream=capture.stream)
        capture.record(event)
        capture.call("cuStreamWaitEvent", event=event, stream=side)
        capture.wait(side, event)
        capture.end(raises=cuda_error(904))
    assert list(forks(trace)) == [side]


def test_a_wait_for_an_event_recorded_outside_joins_nothing(trace):
    side, event = trace.stream(), trace.event()
    trace.record(event, side)
    with trace.capture() as capture:
        capture.wait(side, event)
    session = trace.session()
    assert session.captures[0].forks == []
    assert [mark.capture for mark in session.event_marks[event]] == [0]


def test_an_event_knows_in_which_capture_it_was_recorded_last(trace):
    event = trace.event()
    with trace.capture() as capture:
        capture.record(event)
    trace.record(event, capture.stream)
    assert [mark.capture for mark in trace.session().event_marks[event]] == [capture.id, 0]


def test_an_external_event_carries_no_capture_to_who_waits(trace):
    side, event = trace.stream(), trace.event(external=True)
    with trace.capture() as capture:
        capture.record(event)
        capture.wait(side, event)
    session = trace.session()
    assert session.captures[0].forks == []
    assert session.event_marks[event][0].external


def test_a_refused_wait_joins_nothing(trace):
    side, event = trace.stream(), trace.event()
    with trace.capture() as capture:
        capture.record(event)
        capture.wait(side, event, code=900, after=1)
    assert trace.session().captures[0].forks == []


def test_a_stream_that_captures_without_a_wait_that_was_seen_is_taken_in(trace):
    side = trace.stream()
    with trace.capture() as capture:
        work = capture.op("aten::mm", stream=side, on=1)
        capture.end(raises=cuda_error(904))
    found = forks(trace)[side]
    assert found.by.q == found.last_work.q == work
    assert not found.joined


def test_a_capture_that_ended_well_had_everything_joined(trace):
    """The driver refuses to end one that had not: a join that was not seen must have been there."""
    side = trace.stream()
    with trace.capture() as capture:
        capture.op("aten::mm", stream=side, on=1)
    assert forks(trace)[side].joined


def test_a_stream_belongs_to_the_capture_only_while_it_is_open(trace):
    side = trace.stream()
    with trace.capture() as capture:
        fork(trace, capture, side)
    with trace.capture() as second:
        event = trace.event()
        second.record(event, side)
    session = trace.session()
    assert session.captures[1].forks == []
    assert session.event_marks[event][0].capture == 0
