import pytest

from cudagraph_doctor.session.memory import Touch, WindowMemory, is_work, touches
from cudagraph_doctor.testing import TraceBuilder
from cudagraph_doctor.trace.events import Tensor


@pytest.fixture
def trace():
    return TraceBuilder()


def tensor(ptr, size=64, *, written=False, at="0", dev="cuda:0", storage=0):
    return Tensor(at=at, ptr=hex(ptr), size=size, dev=dev, written=written, storage=storage)


def at(start, size=1, storage=0):
    return Touch(start, size, reads=True, writes=True, storage=storage)


def memory_of(trace):
    return WindowMemory(trace.session().captures[0])


def name(activity):
    return activity.name if activity is not None else None


def test_the_first_captured_reader_and_writer_of_memory_is_found(trace):
    with trace.capture() as capture:
        capture.op("aten::mm", tensors=(tensor(0x1000),), results=[tensor(0x2000)])
        capture.op("aten::relu_", tensors=(tensor(0x2000, written=True),))
        capture.op("aten::sum", tensors=(tensor(0x2000),))
    memory = memory_of(trace)
    assert name(memory.reader([at(0x1010)])) == "aten::mm"
    assert name(memory.writer([at(0x1010)])) is None
    assert name(memory.writer([at(0x2010, 8)])) == "aten::mm"
    assert name(memory.reader([at(0x2010, 8)])) == "aten::sum"
    assert name(memory.reader([at(0x2010), at(0x1010)])) == "aten::mm"


@pytest.mark.parametrize(
    ("start", "size", "met"),
    [
        (0x1000, 1, True),
        (0x103F, 1, True),
        (0x1040, 1, False),
        (0xFFF, 1, False),
        (0xFFF, 2, True),
        (0x0F00, 0x1000, True),
    ],
)
def test_memory_meets_where_the_ranges_share_a_byte(trace, start, size, met):
    with trace.capture() as capture:
        capture.op("aten::mm", tensors=(tensor(0x1000), tensor(0x9000, 4)))
    assert (memory_of(trace).reader([at(start, size)]) is not None) == met


def test_a_small_range_inside_a_large_one_that_begins_far_below(trace):
    with trace.capture() as capture:
        capture.op("aten::big", tensors=(tensor(0x1000, 0x10000),))
        for number in range(20):
            capture.op("aten::small", tensors=(tensor(0x2000 + number * 16, 4),))
    assert name(memory_of(trace).reader([at(0x8000)])) == "aten::big"


def test_ids_of_storages_decide_where_both_have_one(trace):
    with trace.capture() as capture:
        capture.op("aten::mm", tensors=(tensor(0x1000, storage=7),))
    memory = memory_of(trace)
    assert memory.reader([at(0x1000, storage=8)]) is None  # another life of the same address
    assert memory.reader([at(0x9000, storage=7)]) is not None
    assert memory.reader([at(0x1000)]) is not None


def test_only_captured_work_counts(trace):
    side = trace.stream()
    with trace.capture() as capture:
        capture.op("aten::view", kind="view", tensors=(tensor(0x1000),))
        capture.op("aten::item", raises="RuntimeError: no", tensors=(tensor(0x2000),))
        capture.op("aten::mm", stream=side, tensors=(tensor(0x3000),))
        capture.op("aten::mm", tensors=(tensor(0x4000, dev="cpu"),))
        capture.call("cuStreamQuery", stream=capture.stream, ptr="0x5000")
    memory = memory_of(trace)
    assert [memory.reader([at(start)]) for start in range(0x1000, 0x6000, 0x1000)] == [None] * 5


def test_a_kernels_pointers_count_as_read_and_written_junk_and_its_functions_handle_as_nothing(trace):
    with trace.capture() as capture:
        capture.call(
            "cuLaunchKernel", stream=capture.stream, ptrs=("0x1010", "0x0", "junk", "0x" + "f" * 40), ptr="0x2000"
        )
    (call,) = trace.session().captures[0].activities
    assert is_work(call)
    assert [(touch.start, touch.reads, touch.writes) for touch in touches(call)] == [
        (0x1010, True, True),
    ]
    assert memory_of(trace).writer([at(0x1000, 0x20)]) is not None
