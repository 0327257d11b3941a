import pytest

from cudagraph_doctor.testing import TraceBuilder, cuda_error
from cudagraph_doctor.trace import events


@pytest.fixture
def trace():
    return TraceBuilder()


def statuses(trace):
    return [state.status for state in trace.session().captures]


def test_completed_knows_its_nodes(trace):
    with trace.capture() as capture:
        capture.op("aten::mm")
        capture.end(nodes=5)
    state = trace.session().captures[0]
    assert (state.status, state.nodes, state.began) == ("completed", 5, True)


def test_a_begin_that_was_refused_is_failed(trace):
    trace.begin_capture(refused=cuda_error(901))
    state = trace.session().captures[0]
    assert (state.status, state.began) == ("failed", False)


def test_a_capture_that_an_exception_left_is_failed_though_its_end_went_well(trace):
    with trace.capture() as capture:
        capture.end(passing="RuntimeError: Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture")
    state = trace.session().captures[0]
    assert state.status == "failed"
    assert state.change is None


def test_never_ended_is_unfinished_while_running_and_abandoned_after(trace):
    trace.begin_capture().op("aten::mm")
    assert statuses(trace) == ["unfinished"]
    trace.seal(signal="SIGKILL")
    assert statuses(trace) == ["abandoned"]


def test_activities_of_every_thread_are_in_the_window_and_nothing_else(trace):
    trace.call("cuMemAlloc_v2")
    with trace.capture() as capture:
        capture.op("aten::mm")
        trace.call("cuMemAlloc_v2", tid=77)
    trace.call("cuMemFree_v2")
    session = trace.session()
    assert [a.name for a in session.captures[0].activities] == ["aten::mm", "cuMemAlloc_v2"]
    assert [a.name for a in session.outside] == ["cuMemAlloc_v2", "cuMemFree_v2"]


def test_a_capture_whose_begin_was_torn_is_taken_in_late(trace):
    with trace.capture() as capture:
        capture.op("aten::mm", line=3)
        capture.op("aten::item", line=4, raises=cuda_error(900))
    trace.records = [r for r in trace.records if not isinstance(r, events.Capture)]
    state = trace.session().captures[0]
    assert state.backfilled
    assert state.status == "failed"
    assert state.change.across.name == "aten::item"


def test_an_end_whose_outcome_was_torn_closes_with_the_next_begin_of_its_thread(trace):
    with trace.capture() as capture:
        capture.op("aten::mm")
    torn = next(r for r in reversed(trace.records) if isinstance(r, events.Outcome))
    trace.records.remove(torn)
    with trace.capture() as capture:
        capture.op("aten::relu")
    first, second = trace.session().captures
    assert [a.name for a in first.activities] == ["aten::mm"]
    assert [a.name for a in second.activities] == ["aten::relu"]


def test_records_told_about_a_capture_reach_it(trace):
    with trace.capture() as capture:
        capture.gc("start")
        capture.log("Returning 900", code=900)
        trace.add(events.Limit, what="NCCL", reason="not simulated", cap=capture.id, fatal=True)
        trace.exception(events.Link(type="RuntimeError", message="x"), where="raised")
    trace.add(events.State, cap=capture.id, stream_current=True, sticky=0)
    trace.exception(events.Link(type="RuntimeError", message="y"), where="capture-exit", cap=capture.id)
    state = trace.session().captures[0]
    assert len(state.gcs) == len(state.logs) == len(state.limits) == 1
    assert [e.chain[0].message for e in state.exceptions] == ["x", "y"]
    assert state.state.stream_current


@pytest.mark.parametrize(("before", "status"), [(1, "completed"), (2, "failed")])
def test_a_capture_that_somebody_unseen_ended_is_over(trace, before, status):
    with trace.capture() as capture:
        capture.op("aten::mm")
        if before == 2:
            capture.op("aten::item", raises=cuda_error(900))
            capture.op("aten::mm", raises=cuda_error(901))
        trace.add(events.CaptureStatus, cap=capture.id, before=before, after=0, by="op")
        trace.call("cuMemAlloc_v2")
        capture.abandon()
    session = trace.session()
    assert session.captures[0].status == status
    assert session.captures[0].ended_unseen
    assert [a.name for a in session.outside] == ["cuMemAlloc_v2"]


def test_begins_without_ends_do_not_pile_up(trace):
    for _ in range(400):
        trace.begin_capture()
    trace.call("cuMemAlloc_v2")
    session = trace.session()
    assert len(session.captures) == 400
    assert sum(len(state.activities) for state in session.captures) < 300 * 256


# ── retries ──────────────────────────────────────────────────────────────────────────────────


def test_a_later_good_capture_of_the_same_line_is_the_retry(trace):
    with trace.capture(line=10) as capture:
        capture.op("aten::item", raises=cuda_error(900))
    with trace.capture(line=30):
        pass
    with trace.capture(line=10):
        pass
    failed, other, again = trace.session().captures
    assert failed.retry is again
    assert other.retry is None


def test_failing_that_one_of_the_same_function(trace):
    with trace.capture(line=10, function="capture_step") as capture:
        capture.op("aten::item", raises=cuda_error(900))
    with trace.capture(line=14, function="capture_step"):
        pass
    failed, again = trace.session().captures
    assert failed.retry is again


def test_another_line_of_the_module_is_no_retry_and_neither_is_an_earlier_or_a_failed_one(trace):
    with trace.capture(line=10):
        pass
    for line in (10, 10, 20):
        with trace.capture(line=line) as capture:
            capture.op("aten::item", raises=cuda_error(900))
    with trace.capture(line=14):
        pass
    assert [state.retry for state in trace.session().captures] == [None] * 5


# ── intentions without an outcome ────────────────────────────────────────────────────────────


def test_the_newest_intention_names_the_fatal_call_of_each_thread(trace):
    with trace.capture() as capture:
        capture.op("aten::mm")
        capture.op("aten::topk", line=7, returns=False)
        capture.call("cuLaunchKernel", code=None, line=7)
        capture.call("cuMemAlloc_v2", code=None, tid=9)
        capture.abandon()
    trace.seal(signal="SIGSEGV")
    unreturned = trace.session().unreturned
    assert [(a.tid, a.name) for a in unreturned] == [
        (1000, "aten::topk"),
        (1000, "cuLaunchKernel"),
        (9, "cuMemAlloc_v2"),
    ]
    assert unreturned[1].inside is unreturned[0]
    assert not unreturned[0].returned


def test_an_end_that_never_came_back_is_named(trace):
    with trace.capture() as capture:
        capture.end(returns=False)
    assert [a.name for a in trace.session().unreturned] == ["torch.cuda.CUDAGraph.capture_end"]


def test_what_came_back_is_not_named(trace):
    with trace.capture() as capture:
        q = trace.add(events.Op, name="aten::cond", cap=capture.id)
        capture.op("aten::lost", returns=False)
        trace.add(events.Outcome, of=q)
    trace.replay(capture.graph)
    assert trace.session().unreturned == []


def test_a_replay_begun_in_its_slot_and_not_done_is_named_with_the_line_of_the_first(trace):
    with trace.capture() as capture:
        pass
    trace.replay(capture.graph, exec=capture.exec, line=20)
    trace.add(events.Replay, exec=capture.exec, count=4, done=3, total=True, tid=1000)
    trace.seal(signal="SIGKILL")
    session = trace.session()
    assert session.unreturned[-1].kind == "replay"
    assert session.location(session.unreturned[-1].stack).line == 20
