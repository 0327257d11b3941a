import pytest

from cudagraph_doctor.session.memory import captured, flow, touches, uncaptured
from cudagraph_doctor.testing import TraceBuilder
from cudagraph_doctor.trace.events import Tensor


@pytest.fixture
def trace():
    return TraceBuilder()


def tensor(ptr, size=64, *, written=False, at="0", dev="cuda:0", storage=0):
    return Tensor(at=at, ptr=hex(ptr), size=size, dev=dev, written=written, storage=storage)


def only_uncaptured(trace):
    state = trace.session().captures[0]
    (activity,) = uncaptured(state)
    return state, activity


def test_uncaptured_work_whose_result_the_graph_reads_matters(trace):
    side = trace.stream()
    with trace.capture() as capture:
        capture.op("aten::randn", stream=side, results=[tensor(0x1000)])
        capture.op("aten::mm", tensors=(tensor(0x1020, 16),))
    state, activity = only_uncaptured(trace)
    found = flow(state, activity)
    assert [a.name for a in found.read_by] == ["aten::mm"]
    assert found.matters


def test_uncaptured_work_that_reads_what_the_graph_computes_matters(trace):
    side = trace.stream()
    with trace.capture() as capture:
        capture.op("aten::mm", results=[tensor(0x1000)])
        capture.op("aten::sum", stream=side, tensors=(tensor(0x1000),))
    state, activity = only_uncaptured(trace)
    assert [a.name for a in flow(state, activity).reads_from] == ["aten::mm"]


@pytest.mark.parametrize(
    "other",
    [tensor(0x1040), tensor(0xFC0), tensor(0x1000, dev="cuda:1"), tensor(0x1000, storage=8)],
    ids=["behind", "before", "other device", "other storage at the same address"],
)
def test_other_memory_does_not(trace, other):
    side = trace.stream()
    with trace.capture() as capture:
        capture.op("aten::randn", stream=side, results=[tensor(0x1000, storage=7 if other.storage else 0)])
        capture.op("aten::mm", tensors=(other,))
    state, activity = only_uncaptured(trace)
    assert not flow(state, activity).matters


def test_two_that_only_read_the_same_memory_exchange_nothing(trace):
    side = trace.stream()
    with trace.capture() as capture:
        capture.op("aten::mm", tensors=(tensor(0x1000),))
        capture.op("aten::sum", stream=side, tensors=(tensor(0x1000),))
    state, activity = only_uncaptured(trace)
    assert not flow(state, activity).matters


def test_views_allocations_and_refused_calls_are_no_work(trace):
    side = trace.stream()
    with trace.capture() as capture:
        capture.op("aten::view", stream=side, kind="view")
        capture.op("aten::empty", stream=side, kind="alloc")
        capture.op("aten::item", stream=side, raises="RuntimeError: no")
        capture.call("cuStreamQuery", stream=side)
        capture.call("cuLaunchKernel", stream=side, code=1, after=1)
        capture.op("aten::mm")
    state = trace.session().captures[0]
    assert list(uncaptured(state)) == []
    assert [a.name for a in captured(state)] == ["aten::mm"]


def test_the_call_inside_an_uncaptured_operator_is_told_once(trace):
    side = trace.stream()
    with trace.capture() as capture:
        op = capture.op("aten::mm", stream=side)
        capture.call("cuLaunchKernel", stream=side, op=op)
        capture.call("cuLaunchKernel", stream=side, op=0)
    assert [a.name for a in uncaptured(trace.session().captures[0])] == ["aten::mm", "cuLaunchKernel"]


def test_a_kernels_pointers_count_as_read_and_written(trace):
    side = trace.stream()
    with trace.capture() as capture:
        capture.call("cuLaunchKernel", stream=side, ptrs=("0x1010", "0x0", "junk"))
        capture.op("aten::mm", tensors=(tensor(0x1000),))
    state, activity = only_uncaptured(trace)
    assert len(touches(activity)) == 1
    assert flow(state, activity).matters
