import pytest

from cudagraph_doctor.testing import TraceBuilder, cuda_error
from cudagraph_doctor.trace import events
from cudagraph_doctor.trace.decode import decode_line


def test_what_is_written_is_what_a_reader_reads():
    trace = TraceBuilder(source="x\n", rank=3)
    event, side = trace.event(external=True), trace.stream(blocking=True, device=1)
    trace.thread(9, "worker", daemon=True)
    with trace.capture(mode="relaxed", line=2) as capture:
        capture.op("aten::mm", line=3, values=(("1", "2"),))
        capture.record(event)
        capture.wait(side, event)
        capture.pycall("torch._C._cuda_synchronize", line=4, raises=cuda_error(900))
        capture.gc("start", generation=2)
        capture.log("Returning 900", api="cuCtxSynchronize", code=900)
    trace.replay(capture.graph, raises="RuntimeError: no")
    trace.seal(signal="SIGABRT", core=True)
    assert [decode_line(line) for line in trace.encode().splitlines()] == trace.records


def test_numbers_and_times_rise():
    trace = TraceBuilder()
    trace.call("cuMemAlloc_v2")
    trace.skip_time(1.5)
    trace.call("cuMemAlloc_v2")
    numbers = [record.q for record in trace.records]
    assert numbers == list(range(1, len(numbers) + 1))
    assert trace.records[-1].t - trace.records[-2].t > 1_500_000_000


def test_stacks_and_sources_are_written_once():
    trace = TraceBuilder()
    assert trace.stack(4) == trace.stack(4) != trace.stack(5)
    assert trace.source("cwd:a.py") == trace.source("cwd:a.py")
    assert sum(isinstance(record, events.Stack) for record in trace.records) == 2
    assert trace.stack(None) == 0


def test_the_status_is_kept():
    trace = TraceBuilder()
    with trace.capture() as capture:
        capture.op("aten::mm")
        capture.call("cuLaunchKernel", code=400, after=1)
        capture.call("cuMemAlloc_v2", code=900)
        capture.op("aten::mm", raises=cuda_error(901))
    told = [(r.before, getattr(r, "after", None)) for r in trace.records if isinstance(r, events.Op | events.Call)]
    assert told == [(1, None), (1, 1), (1, 2), (2, None)]
    end = next(r for r in trace.records if isinstance(r, events.CaptureEnd))
    assert end.before == 2
    assert trace.records[-1].code == 901


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ("ValueError: a: b", "ValueError", "a: b"),
        (("ValueError", "a"), "ValueError", "a"),
        ("KeyboardInterrupt", "KeyboardInterrupt", ""),
        (cuda_error(906), "torch.AcceleratorError", "CUDA error: operation would make the legacy stream depend on"),
    ],
)
def test_errors_in_their_short_forms(given, kind, message):
    trace = TraceBuilder()
    trace.call("cuMemAlloc_v2", raises=given)
    exc = trace.records[-1].exc
    assert exc.type == kind
    assert exc.message.startswith(message)


def test_a_mode_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="no such capture mode"):
        TraceBuilder().begin_capture(mode="strict")
