import pytest

from cudagraph_doctor.testing import TraceBuilder, cuda_error
from cudagraph_doctor.trace import events


@pytest.fixture
def trace():
    return TraceBuilder()


def replays(trace):
    return [state.replays for state in trace.session().captures]


def test_replays_told_one_by_one_are_counted(trace):
    with trace.capture() as capture:
        pass
    for _ in range(3):
        trace.replay(capture.graph, exec=capture.exec)
    assert replays(trace) == [3]


def test_a_total_holds_what_was_told_apart(trace):
    with trace.capture() as capture:
        pass
    trace.replay(capture.graph, exec=capture.exec, first=True)
    trace.add(events.Replay, exec=capture.exec, count=40, done=40, total=True)
    assert replays(trace) == [40]


def test_each_executable_graph_counts_for_the_capture_it_came_from(trace):
    with trace.capture() as one:
        pass
    with trace.capture(graph=one.graph) as two:  # reset, and captured again
        pass
    trace.add(events.Replay, exec=one.exec, count=5, done=5, total=True)
    trace.add(events.Replay, exec=two.exec, count=7, done=7, total=True)
    assert replays(trace) == [5, 7]


def test_a_replay_of_a_graph_whose_capture_failed_hangs_under_that_capture(trace):
    with trace.capture() as capture:
        capture.op("aten::item", raises=cuda_error(900))
    trace.replay(capture.graph, raises="RuntimeError: Called CUDAGraph::replay without a preceding successful capture.")
    state = trace.session().captures[0]
    assert len(state.failed_replays) == 1
    assert "preceding successful capture" in state.failed_replays[0].exc.message


def test_after_a_good_capture_of_the_same_object_failed_the_replay_belongs_to_the_failed_one(trace):
    with trace.capture() as good:
        pass
    with trace.capture(graph=good.graph) as bad:
        bad.op("aten::item", raises=cuda_error(900))
    trace.replay(good.graph, raises="RuntimeError: no")
    first, second = trace.session().captures
    assert (len(first.failed_replays), len(second.failed_replays)) == (0, 1)


def test_a_replay_told_as_an_intention_is_complete_with_its_outcome(trace):
    with trace.capture() as capture:
        pass
    q = trace.add(events.Replay, exec=capture.exec, graph=capture.graph, first=True)
    trace.add(events.Outcome, of=q, code=700, exc=cuda_error(700))
    session = trace.session()
    assert session.replays[-1].code == 700
    assert session.captures[0].failed_replays[0].done == 0
    assert session.unreturned == []


def test_nodes_come_from_the_graph_where_it_was_walked(trace):
    with trace.capture() as capture:
        pass
    trace.add(events.Graph, id=capture.graph, cap=capture.id, nodes=220)
    assert trace.session().captures[0].nodes == 220
