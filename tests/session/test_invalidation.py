import pytest

from cudagraph_doctor.testing import MAIN_THREAD, TraceBuilder, cuda_error
from cudagraph_doctor.trace import events


@pytest.fixture
def trace():
    return TraceBuilder()


def change_of(trace):
    return trace.session().captures[0].change


def test_a_healthy_capture_has_no_change(trace):
    with trace.capture() as capture:
        capture.op("aten::mm")
        capture.call("cuLaunchKernel", stream=capture.stream)
    assert change_of(trace) is None


def test_the_call_across_which_the_status_changed_is_the_cause(trace):
    with trace.capture() as capture:
        capture.op("aten::mm", line=1)
        guilty = capture.call("cuMemAlloc_v2", line=2, code=900)
        capture.op("aten::mm", line=3, raises=cuda_error(901))
    change = change_of(trace)
    assert change.across.q == guilty
    assert change.across.code == 900


def test_whichever_thread_made_it(trace):
    with trace.capture() as capture:
        capture.op("aten::mm")
        guilty = capture.call("cuMemAlloc_v2", code=900, tid=77)
        capture.op("aten::mm", raises=cuda_error(901))
    assert change_of(trace).across.q == guilty
    assert change_of(trace).across.tid == 77


def test_a_call_that_only_overlapped_the_guilty_one_is_not_the_cause(trace):
    """The launch of the capturing thread began before the other thread's call and came back after it, with 901."""
    with trace.capture() as capture:
        capture.call("cuLaunchKernel", code=901, before=1, after=2)
        guilty = capture.call("cuMemAlloc_v2", code=900, tid=77, before=1, after=2)
        capture.status = 2
    assert change_of(trace).across.q == guilty


@pytest.mark.parametrize("code", [0, 901])
def test_an_overlapping_call_alone_is_never_named_for_a_901(trace, code):
    with trace.capture() as capture:
        capture.op("aten::mm")
        capture.call("cuLaunchKernel", code=code, before=1, after=2)
        capture.status = 2
    change = change_of(trace)
    if code == 901:
        assert change.across is None
    else:
        assert change.across.name == "cuLaunchKernel"  # nothing else is known: it may have been an unsafe call


def test_the_innermost_activity_is_named(trace):
    stack = trace.stack(5)
    with trace.capture() as capture:
        op = trace.add(events.Op, name="aten::item", stack=stack, cap=1, before=1, stream=capture.stream, on=1)
        guilty = capture.call("cuStreamSynchronize", stack=stack, code=900, op=op)
        trace.add(events.Outcome, of=op, after=2, exc=cuda_error(900), code=900)
        capture.pycall("torch._C.TensorBase.item", stack=stack, raises=cuda_error(900), before=1)
    change = change_of(trace)
    assert change.across.q == guilty
    assert [outer.name for outer in change.across.enclosing()] == ["aten::item", "torch._C.TensorBase.item"]


def test_without_driver_evidence_the_operator_is_named_and_not_the_call_from_python_around_it(trace):
    stack = trace.stack(5)
    with trace.capture() as capture:
        guilty = capture.op("aten::_local_scalar_dense", stack=stack, raises=cuda_error(900))
        capture.pycall("torch._C.TensorBase.item", stack=stack, raises=cuda_error(900), before=1)
    assert change_of(trace).across.q == guilty


def test_a_refused_call_that_left_the_status_active_is_not_the_cause(trace):
    with trace.capture() as capture:
        capture.call("cuLaunchKernel", code=400, after=1)
        guilty = capture.call("cuMemFree_v2", code=900)
    assert change_of(trace).across.q == guilty


def test_a_refused_call_that_left_the_status_active_alone_is_no_invalidation(trace):
    with trace.capture() as capture:
        capture.call("cuLaunchKernel", code=400, after=1)
    assert change_of(trace) is None
    assert trace.session().captures[0].status == "completed"


def test_a_status_record_names_the_activity_that_did_not_see_it_itself(trace):
    with trace.capture() as capture:
        guilty = trace.add(events.Call, tid=8, api="cudaMalloc", layer="bindings", code=900, cap=capture.id)
        trace.add(events.CaptureStatus, cap=capture.id, before=1, after=2, across=guilty, by="call")
        capture.status = 2
    assert change_of(trace).across.q == guilty


# ── unseen changes ───────────────────────────────────────────────────────────────────────────


def unseen(trace, *logs, between=lambda capture: None):
    with trace.capture() as capture:
        capture.op("aten::mm", line=1)
        good = trace.records[-1].q
        between(capture)
        capture.invalidated_unseen(since=good, threads=((77, trace.stack(40)),))
        for log in logs:
            capture.log(**log)
        capture.op("aten::add", line=3, raises=cuda_error(901))
    return change_of(trace)


def test_an_unseen_change_lies_between_two_looks(trace):
    change = unseen(trace)
    assert change.across is None
    assert [a.name for a in change.between] == ["aten::mm", "aten::add"]
    assert change.record.threads == ((77, 2),)


def test_the_log_up_to_the_first_echo_is_the_witness(trace):
    change = unseen(
        trace,
        {"message": "API call conflicts"},
        {"message": "Returning 900 from cuMemAlloc_v2", "api": "cuMemAlloc_v2", "code": 900, "thread": 77},
        {"message": "Returning 901 from cuLaunchKernel", "api": "cuLaunchKernel", "code": 901, "thread": MAIN_THREAD},
        {
            "message": "Returning 900 from cuCtxSynchronize",
            "api": "cuCtxSynchronize",
            "code": 900,
            "thread": MAIN_THREAD,
        },
    )
    assert [log.api for log in change.logs] == ["", "cuMemAlloc_v2"]


def test_a_refused_call_in_the_gap_is_the_cause_if_nothing_shows_it_left_the_capture_active(trace):
    def other_thread(capture):
        trace.add(events.Call, tid=77, api="cudaMalloc", layer="bindings", code=900)

    change = unseen(trace, between=other_thread)
    assert change.across.name == "cudaMalloc"
    assert change.across.tid == 77


def test_a_refused_call_in_the_gap_that_left_it_active_is_not(trace):
    def other_thread(capture):
        trace.add(events.Call, tid=77, api="cudaMalloc", layer="bindings", code=900, cap=capture.id, before=1, after=1)

    assert unseen(trace, between=other_thread).across is None


def test_an_operator_that_raised_901_is_the_cause_unless_the_log_names_another_thread(trace):
    """A library inside the operator may have swallowed the refused call; but so may another thread have made it."""
    with trace.capture() as capture:
        capture.op("aten::linalg_svd", breaks=True, raises=cuda_error(901))
    assert change_of(trace).across.name == "aten::linalg_svd"

    trace = TraceBuilder()
    with trace.capture() as capture:
        capture.op("aten::linalg_svd", breaks=True, raises=cuda_error(901))
        capture.log("Returning 900", api="cuMemAlloc_v2", code=900, thread=77)
    change = change_of(trace)
    assert change.across is None
    assert change.logs[0].thread == 77


def test_start_up_noise_of_another_thread_in_the_log_acquits_nobody(trace):
    with trace.capture() as capture:
        capture.op("aten::item", raises=cuda_error(900))
        capture.log("Returning 201", api="cuCtxGetDevice_v2", code=201, thread=77)
    assert change_of(trace).across.name == "aten::item"


def test_an_end_that_finds_the_capture_invalidated_is_a_change_nobody_saw(trace):
    with trace.capture() as capture:
        capture.op("aten::mm")
        capture.status = 2
    change = change_of(trace)
    assert change.across is None
    assert change.record.by == "end"


def test_an_end_that_fails_for_its_own_reason_is_no_invalidation(trace):
    with trace.capture() as capture:
        capture.op("aten::mm")
        capture.end(raises=cuda_error(904))
    state = trace.session().captures[0]
    assert state.change is None
    assert state.status == "failed"


def test_two_open_captures_are_kept_apart(trace):
    one = trace.begin_capture(mode="thread_local")
    two = trace.begin_capture(mode="thread_local", tid=9)
    two.call("cuMemAlloc_v2", code=900)
    one.op("aten::mm")
    two.end()
    one.end()
    first, second = trace.session().captures
    assert first.change is None
    assert second.change.across.name == "cuMemAlloc_v2"
    assert (first.status, second.status) == ("completed", "failed")


def test_one_call_may_invalidate_two_captures(trace):
    one, two = trace.begin_capture(), trace.begin_capture(tid=9)
    q = one.call("cuMemAlloc_v2", code=900, tid=77)
    trace.add(events.CaptureStatus, cap=two.id, before=1, after=2, across=q, by="call")
    two.status = 2
    one.end()
    two.end()
    assert [state.change.across.q for state in trace.session().captures] == [q, q]
