import gc

import pytest

from cudagraph_doctor._wire import FORMAT, VERSION
from cudagraph_doctor.session.build import build, build_from
from cudagraph_doctor.testing import TraceBuilder, cuda_error
from cudagraph_doctor.trace import events


@pytest.fixture
def trace():
    return TraceBuilder()


# ── how the process ended ────────────────────────────────────────────────────────────────────


def test_without_a_seal_it_is_still_running(trace):
    assert trace.session().exit.running


def test_without_a_seal_an_uncaught_exception_is_its_end(trace):
    trace.exception(events.Link(type="ValueError", message="no such head"))
    ended = trace.session().exit
    assert (ended.running, ended.abnormal, ended.exception) == (False, True, "ValueError: no such head")


def test_its_own_seal_knows_no_status_and_the_exception_counts(trace):
    trace.exception(events.Link(type="ValueError", message="no such head"))
    trace.add(events.Seal)
    assert trace.session().exit.abnormal


def test_a_seal_says_how_it_ended(trace):
    trace.exception(events.Link(type="ValueError", message="no such head\nsecond line"))
    trace.seal(1)
    ended = trace.session().exit
    assert (ended.returncode, ended.exception, ended.running) == (1, "ValueError: no such head", False)


def test_of_two_seals_the_one_that_saw_the_end_counts(trace):
    trace.add(events.Seal)  # the process's own: it cannot know its status
    trace.seal(signal="SIGABRT")
    assert trace.session().exit.signal == "SIGABRT"


def test_an_exception_told_elsewhere_is_not_the_end(trace):
    trace.exception(events.Link(type="ValueError", message="x"), where="thread")
    trace.seal(0)
    assert trace.session().exit.exception is None


# ── evidence and capabilities ────────────────────────────────────────────────────────────────


def test_evidence_levels_follow_one_another(trace):
    trace.skip_time(2)
    trace.add(events.EvidenceLevel, level="driver")
    trace.skip_time(3)
    trace.add(events.EvidenceLevel, level="python", why="torch.profiler took CUPTI over")
    session = trace.session()
    assert [span.level for span in session.evidence] == ["python", "driver", "python"]
    assert session.evidence[1].start == pytest.approx(2, abs=0.01)
    assert session.evidence[1].end == pytest.approx(5, abs=0.01)
    assert session.evidence[2].why == "torch.profiler took CUPTI over"
    assert session.level_at(session.header.t + 3 * 10**9).value == "driver"
    assert session.level_at(session.header.t + 9 * 10**9).value == "python"


@pytest.mark.parametrize(("backend", "level"), [("cuda", "python"), ("sim", "simulated")])
def test_a_level_nobody_knows_is_no_evidence(backend, level):
    trace = TraceBuilder(backend=backend, evidence="telepathy")
    assert [span.level for span in trace.session().evidence] == [level]


def test_the_newest_capability_of_a_name_holds(trace):
    trace.capability("ops", "removed", "failed 3 times")
    session = trace.session()
    assert not session.has("ops")
    assert session.has("capture")
    assert session.has("python")
    assert not session.has("driver")
    assert session.why_not(("ops",)) == "failed 3 times"
    assert session.why_not(("driver",)) == "needs driver evidence"


# ── writers without ids ──────────────────────────────────────────────────────────────────────


def test_raw_handles_become_ids_of_the_newest_object(trace):
    trace.stream(handle="0x7f00")
    newer = trace.stream(handle="0x7F00")
    with trace.capture(stream=newer) as capture:
        trace.add(events.Call, api="cuLaunchKernel", code=0, cap=capture.id, handle="0x7f00", on=1)
    assert trace.session().captures[0].activities[0].stream == newer


def test_a_handle_nobody_told_of_is_taken_in_without_a_birth(trace):
    with trace.capture() as capture:
        for handle in ("0x0", "0x1", "0x9900", "0x9900"):
            trace.add(events.Call, api="cuLaunchKernel", code=0, cap=capture.id, handle=handle, on=0)
    session = trace.session()
    legacy, same, other, again = [a.stream for a in session.captures[0].activities]
    assert legacy == same
    assert other == again != legacy
    assert session.streams[legacy].kind == "legacy"
    assert session.streams[other].blocking is None


def test_forks_are_seen_through_raw_handles(trace):
    origin = trace.stream(handle="0x10")
    with trace.capture(stream=origin) as capture:
        trace.add(events.Call, api="cuEventRecord", code=0, cap=capture.id, handle="0x10", event_handle="0xe0", on=1)
        trace.add(
            events.Call, api="cuStreamWaitEvent", code=0, cap=capture.id, handle="0x20", event_handle="0xe0", on=0
        )
        trace.add(events.Call, api="cuLaunchKernel", code=0, cap=capture.id, handle="0x20", on=1)
        capture.end(raises=cuda_error(904))
    (fork,) = trace.session().captures[0].forks
    assert fork.by.name == "cuStreamWaitEvent"
    assert not fork.joined


# ── files ────────────────────────────────────────────────────────────────────────────────────


def test_a_pack_of_two_processes_gives_two_sessions(tmp_path):
    one, two = TraceBuilder(pid=1), TraceBuilder(pid=2)
    with one.capture():
        pass
    one.seal()
    (tmp_path / "p.jsonl").write_bytes(one.encode() + b"torn\n" + two.encode())
    first, second = build(tmp_path / "p.jsonl", first_index=3)
    assert [(s.index, s.header.pid, len(s.captures)) for s in (first, second)] == [(3, 1, 1), (4, 2, 0)]
    assert first.damaged == 1
    assert second.damaged == 0
    assert not first.exit.running
    assert second.exit.running


def test_unknown_kinds_are_counted_by_name_and_bounded(tmp_path, trace):
    lines = [f'{{"k":"later-{n % 200}","q":{n},"t":1}}\n'.encode() for n in range(400)]
    (tmp_path / "t.jsonl").write_bytes(trace.encode() + b"".join(lines))
    (session,) = build(tmp_path / "t.jsonl")
    assert session.unknown["later-0"] == 2
    assert len(session.unknown) == 64


def test_collections_are_on_again_after_reading(tmp_path, trace):
    (tmp_path / "bad.jsonl").write_bytes(b"no trace")
    with pytest.raises(Exception, match="not a trace"):
        build(tmp_path / "bad.jsonl")
    assert gc.isenabled()


def test_intentions_without_outcomes_nest_no_deeper_than_python_can():
    """A hostile or badly damaged trace: neither time nor the chain of enclosing activities grows with its length."""
    header = events.Header(q=0, t=0, format=FORMAT, version=VERSION, pid=1, wall=0)
    session = build_from([header, *(events.Op(q=q, t=q, tid=1, name="aten::add") for q in range(1, 5001))])
    assert session.unreturned[-1].q == 5000
    assert max(sum(1 for _ in activity.enclosing()) for activity in session.unreturned) < 1000
