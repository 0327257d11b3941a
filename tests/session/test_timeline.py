"""The timeline of a capture's status: begin, forks, joins, the change, the end."""

from cudagraph_doctor.session.timeline import timelines_of
from cudagraph_doctor.testing import TraceBuilder
from cudagraph_doctor.trace import events


def steps(trace):
    (timeline,) = timelines_of(trace.session())
    return timeline, [(s.what, s.before, s.after, s.call, s.location and s.location.line) for s in timeline.steps]


def test_fork_and_join():
    trace = TraceBuilder()
    side, event, done = trace.stream(), trace.event(), trace.event()
    with trace.capture(line=1) as capture:
        capture.record(event, line=2)
        capture.wait(side, event, line=3)
        capture.op("aten::add", line=4, stream=side)
        capture.record(done, side, line=5)
        capture.wait(capture.stream, done, line=6)
        capture.end(nodes=1)
    timeline, found = steps(trace)
    wait = "torch.cuda.Stream.wait_event"
    assert (timeline.status, timeline.capture) == ("completed", capture.id)
    assert [f[0] for f in found] == ["begin", "fork", "join", "end"]
    assert found[1:3] == [("fork", "none", "active", wait, 3), ("join", "active", "active", wait, 6)]
    assert found[-1][1:3] == ("active", "none")
    assert timeline.steps[1].stream == trace.session().streams[side].handle
    assert [s.seq for s in timeline.steps] == sorted(s.seq for s in timeline.steps)


def test_work_behind_the_join_takes_the_join_back():
    trace = TraceBuilder()
    side = trace.stream()
    with trace.capture(line=1) as capture:
        capture.wait_stream(side, capture.stream, line=2)
        capture.op("aten::add", line=3, stream=side)
        capture.wait_stream(capture.stream, side, line=4)
        capture.op("aten::add", line=5, stream=side)
        capture.end(raises=events.Raised("torch.AcceleratorError", "unjoined", 904))
    timeline, found = steps(trace)
    assert [f[0] for f in found] == ["begin", "fork", "end"]
    assert timeline.steps[-1].code == 904


def test_call_of_another_thread_that_invalidates():
    trace = TraceBuilder()
    trace.thread(77, "loader")
    with trace.capture(line=1) as capture:
        capture.call("cuMemHostAlloc", code=900, tid=77, line=9)
        capture.end()
    timeline, found = steps(trace)
    assert found[1] == ("invalidated", "active", "invalidated", "cuMemHostAlloc", 9)
    assert (timeline.steps[1].thread, timeline.steps[1].code) == ("loader", 900)
    assert (timeline.steps[2].before, timeline.steps[2].code) == ("invalidated", 901)


def test_change_that_nobody_saw():
    trace = TraceBuilder()
    with trace.capture(line=1) as capture:
        last = capture.op("aten::add", line=3)
        capture.invalidated_unseen(since=last)
        capture.end()
    timeline, found = steps(trace)
    assert found[1] == ("invalidated", "active", "invalidated", None, 3)
    assert timeline.status == "failed"


def test_capture_without_an_end():
    trace = TraceBuilder()
    with trace.capture(line=1) as capture:
        capture.op("aten::add", line=2)
        capture.abandon()
    timeline, found = steps(trace)
    assert [f[0] for f in found] == ["begin"]
    assert timeline.status in {"unfinished", "abandoned"}
