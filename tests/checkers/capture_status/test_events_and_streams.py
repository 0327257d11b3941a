"""CGD103, 109, 110, 111, 112: events, forks, waits, ends and the default stream."""

import pytest

from cudagraph_doctor.testing import cuda_error
from cudagraph_doctor.trace import events

EVENTS = """
import torch
begin = torch.cuda.Event(enable_timing=True)
end = torch.cuda.Event(enable_timing=True)
with torch.cuda.graph(g):
    begin.record()
    y = x + 1
    end.record()
    begin.synchronize()
    other.query()
g.replay()
print(begin.elapsed_time(end))
"""


def test_host_wait_for_an_event_of_the_capture(script, finds):
    s = script(EVENTS)
    event = s.trace.event()
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.record(event, stack=s.at("begin.record()"))
        stack = s.at("begin.synchronize()")
        capture.call("cuEventSynchronize", layer="torch", event=event, stack=stack, raises=cuda_error(907))
    finding = finds(s, "CGD103", line=s.line("begin.synchronize()"), confidence="proven")
    assert "`begin.synchronize()` uses `begin` on the host" in finding.message
    assert any(place.line == s.line("begin.record()") for place in finding.related)


def test_query_in_the_capture(script, finds, fixed):
    s = script(EVENTS)
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.call(
            "cuEventQuery", layer="torch", event=s.trace.event(), stack=s.at("other.query()"), raises=cuda_error(900)
        )
    finding = finds(s, "CGD103", line=s.line("other.query()"))
    assert "asks the GPU whether it is done" in finding.message
    assert "        other.query()" in fixed(s, finding)


def test_host_wait_for_an_event_from_before_the_capture_is_a_sync(script, finds):
    s = script(EVENTS)
    event = s.trace.event()
    s.trace.record(event, s.trace.stream())
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.call(
            "cuEventSynchronize", layer="torch", event=event, stack=s.at("begin.synchronize()"), raises=cuda_error(900)
        )
    finds(s, "CGD101", line=s.line("begin.synchronize()"))


def late(s, *, external=False, again=False):
    event = s.trace.event(external=external, timing=True)
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.record(event, stack=s.at("begin.record()"))
        capture.end(nodes=1)
    if again:
        s.trace.record(event, s.trace.stream(), line=s.line("g.replay()"))
    stack = s.at("begin.elapsed_time(end)")
    error = None if external or again else cuda_error(1)
    s.trace.call("cuEventElapsedTime", layer="torch", event=event, stack=stack, raises=error)
    s.trace.exception(events.Link("torch.AcceleratorError", "CUDA error: invalid argument", code=1))
    s.trace.seal(1)
    return s


def test_captured_event_timed_afterwards_blames_its_record(script, finds, fixed):
    s = late(script(EVENTS))
    finding = finds(s, "CGD103", line=s.line("begin.record()"), level="error")
    assert finding.related[0].line == s.line("elapsed_time")
    assert finding.consequences[0].message.endswith("CUDA error: invalid argument")
    assert "begin = torch.cuda.Event(enable_timing=True, external=True)" in fixed(s, finding)
    assert "end = torch.cuda.Event(enable_timing=True, external=True)" in fixed(s, finding)


@pytest.mark.parametrize("how", [{"external": True}, {"again": True}])
def test_external_and_rerecorded_events_may_be_timed(script, quiet, how):
    quiet(late(script(EVENTS), **how))


FORK = """
import torch
side = torch.cuda.Stream()
def qkv():
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        v = x @ wv
    k = x @ wk
    return k, v
with torch.cuda.graph(g):
    k, v = qkv()
"""


def forked(s, *, joined=False, code=904):
    side = s.trace.stream()
    with s.trace.capture(line=s.line("with torch.cuda.graph(g)")) as capture:
        stack = s.at("side.wait_stream(torch.cuda.current_stream())", "qkv")
        capture.wait_stream(side, capture.stream, stack=stack)
        capture.op("aten::mm", line=s.line("v = x @ wv"), function="qkv", stream=side, on=1)
        capture.op("aten::mm", line=s.line("k = x @ wk"), function="qkv")
        if joined:
            capture.wait_stream(capture.stream, side, line=s.line("return k, v"))
            capture.end(nodes=2)
        else:
            capture.end(raises=cuda_error(code))
    return s


def test_fork_that_is_not_joined_blames_the_fork(script, finds, fixed):
    s = forked(script(FORK))
    finding = finds(s, "CGD109", line=s.line("side.wait_stream"), confidence="proven")
    assert finding.message.startswith("`side` joined the capture here and was never joined back")
    assert "cudaError 904" in finding.message
    text = fixed(s, finding)
    assert "    torch.cuda.current_stream().wait_stream(side)\n    return k, v\n" in text


def test_fork_in_the_block_itself_is_joined_at_its_end(script, finds, fixed):
    s = script(
        """
        with torch.cuda.graph(g):
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                v = x @ wv
            k = x @ wk
        g.replay()
        """
    )
    side = s.trace.stream()
    with s.trace.capture(line=s.line("with torch.cuda.graph(g)")) as capture:
        capture.wait_stream(side, capture.stream, stack=s.at("self.side.wait_stream(torch.cuda.current_stream())"))
        capture.op("aten::mm", line=s.line("v = x @ wv"), stream=side, on=1)
        capture.end(raises=cuda_error(904))
    text = fixed(s, finds(s, "CGD109"))
    assert "    k = x @ wk\n    torch.cuda.current_stream().wait_stream(self.side)\ng.replay()" in text


def test_fork_with_runtime_calls_is_joined_with_runtime_calls(script, finds, fixed):
    s = script(
        """
        from cuda.bindings import runtime as rt
        rt.cudaStreamBeginCapture(main, mode)
        rt.cudaEventRecord(forked, main)
        rt.cudaStreamWaitEvent(worker, forked, 0)
        rt.cudaMemsetAsync(kv, 1, 64, worker)
        rt.cudaStreamEndCapture(main)
        """
    )
    worker, event = s.trace.stream(), s.trace.event()
    capture = s.trace.begin_capture(stack=s.at("rt.cudaStreamBeginCapture(main, mode)"), api="cudaStreamBeginCapture")
    capture.record(event, line=s.line("EventRecord"), layer="bindings")
    stack = s.at("rt.cudaStreamWaitEvent(worker, forked, 0)")
    capture.call("cudaStreamWaitEvent", layer="bindings", stream=worker, event=event, stack=stack)
    capture.call("cudaMemsetAsync", layer="bindings", stream=worker, on=1, line=s.line("Memset"))
    capture.end(line=s.line("EndCapture"), raises=cuda_error(904))
    text = fixed(s, finds(s, "CGD109", line=s.line("WaitEvent")))
    assert (
        "rt.cudaEventRecord(joined, worker)\nrt.cudaStreamWaitEvent(main, joined, 0)\nrt.cudaStreamEndCapture" in text
    )


def test_joined_fork_is_quiet(script, quiet):
    quiet(forked(script(FORK), joined=True))


WAIT = """
def forward():
    torch.cuda.current_stream().wait_stream(copy_stream)
    return x @ w
with torch.cuda.graph(g):
    forward()
"""


def test_wait_for_uncaptured_work(script, finds):
    s = script(WAIT)
    stack = s.at("torch.cuda.current_stream().wait_stream(copy_stream)", "forward")
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.wait_stream(capture.stream, s.trace.stream(), stack=stack, raises=cuda_error(905))
    finding = finds(
        s, "CGD110", line=s.line("wait_stream"), message="wait for `copy_stream`, whose work is not captured"
    )
    assert "Wait for `copy_stream` before the capture begins" in finding.remedy


def test_one_wait_that_merges_two_captures_is_one_finding(script, finds):
    s = script("begin(a)\nbegin(b)\nrt.cudaStreamWaitEvent(b, drafted, 0)\n")
    first, event = s.trace.begin_capture(line=1), s.trace.event()
    second = s.trace.begin_capture(line=2)
    first.record(event)
    q = second.call(
        "cudaStreamWaitEvent",
        layer="bindings",
        event=event,
        code=902,
        stack=s.at("rt.cudaStreamWaitEvent(b, drafted, 0)"),
    )
    s.trace.add(events.CaptureStatus, cap=first.id, before=1, after=2, across=q)
    s.trace.exception(events.Link("RuntimeError", "cudaErrorStreamCaptureMerge (902)"))
    s.trace.seal(1)
    finding = finds(s, "CGD110", line=3, message="wait for `drafted`, which belongs to another capture")
    assert finding.consequences[-1].message == "the program ended with RuntimeError: cudaErrorStreamCaptureMerge (902)"


def test_wait_for_captured_work_is_quiet(script, quiet):
    s = script(WAIT)
    with s.trace.capture(line=s.line("with torch")) as capture:
        other = s.trace.stream()
        capture.wait_stream(other, capture.stream, line=3)
        capture.wait_stream(capture.stream, other, line=3)
        capture.end(nodes=1)
    quiet(s)


END = """
def begin():
    g.capture_begin()
def finish():
    g.capture_end()
"""


def test_end_on_another_thread(script, finds):
    s = script(END)
    s.trace.thread(11, "begins")
    s.trace.thread(12, "ends")
    capture = s.trace.begin_capture(stack=s.at("g.capture_begin()", "begin"), tid=11)
    capture.end(stack=s.at("g.capture_end()", "finish"), tid=12, raises=cuda_error(908))
    finding = finds(s, "CGD111", line=s.line("capture_end"))
    assert "thread `ends`" in finding.message
    assert "on thread `begins`" in finding.message


@pytest.mark.parametrize(
    "error", [cuda_error(903), events.Raised("RuntimeError", "Capture must end on the same stream it began on.")]
)
def test_end_on_another_stream(script, finds, error):
    s = script(END)
    capture = s.trace.begin_capture(stack=s.at("g.capture_begin()", "begin"))
    capture.end(stack=s.at("g.capture_end()", "finish"), stream=s.trace.stream(), raises=error)
    finds(s, "CGD111", line=s.line("capture_end"), message="ends the capture on another stream")


def test_end_where_nothing_captures(script, finds):
    s = script(END)
    capture = s.trace.begin_capture(stack=s.at("g.capture_begin()", "begin"))
    capture.end(nodes=1)
    s.trace.call("cudaStreamEndCapture", layer="bindings", code=401, stack=s.at("g.capture_end()", "finish"))
    finds(s, "CGD111", line=s.line("capture_end"), message="not capturing any more")


def test_relaxed_capture_may_end_on_another_thread(script, quiet):
    s = script(END)
    capture = s.trace.begin_capture(line=3, tid=11, mode="relaxed")
    capture.end(line=5, tid=12, nodes=1)
    quiet(s)


def test_capture_on_the_default_stream(script, finds):
    s = script(END)
    error = events.Raised("RuntimeError", "CUDA graphs must be captured on a non-default stream. (However, after ...)")
    legacy = s.trace.stream(kind="legacy")
    s.trace.begin_capture(stack=s.at("g.capture_begin()", "begin"), stream=legacy, refused=error)
    s.trace.exception(events.Link(error.type, error.message))
    s.trace.seal(1)
    finding = finds(s, "CGD112", line=s.line("capture_begin"), message="begins a capture on the default stream")
    assert len(finding.consequences) == 1


def test_default_stream_beside_a_blocking_capture(script, finds):
    s = script(
        "with torch.cuda.graph(g, stream=engine):\n"
        "    with torch.cuda.stream(torch.cuda.default_stream()):\n"
        "        hits.add_(1)\n"
    )
    blocking, legacy = s.trace.stream(blocking=True), s.trace.stream(kind="legacy")
    with s.trace.capture(line=1, stream=blocking) as capture:
        capture.op("aten::add_", stack=s.at("hits.add_(1)"), stream=legacy, on=0, raises=cuda_error(906))
    finds(s, "CGD112", line=3, message="while a blocking stream is capturing")


def test_safe_question_that_the_legacy_stream_answers_with_906_is_not_the_call_to_blame(script, finds):
    s = script("with torch.cuda.graph(g, stream=engine):\n    hits.add_(1)\n")
    with s.trace.capture(line=1, stream=s.trace.stream(blocking=True)) as capture:
        capture.log("...", api="cuStreamIsCapturing", code=906, thread=1000)
        legacy = s.trace.stream(kind="legacy")
        capture.op("aten::add_", stack=s.at("hits.add_(1)"), stream=legacy, on=0, raises=cuda_error(906))
        capture.log("...", api="cuLaunchKernel", code=906, thread=1000)
    assert "(cuLaunchKernel, cudaError 906)" in finds(s, "CGD112", line=2).message
