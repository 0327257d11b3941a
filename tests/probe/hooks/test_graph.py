from __future__ import annotations

import inspect

import pytest
from fake_torch import RefusedError, make

from cudagraph_doctor.probe.hooks import device, graph, graph_block, replay


@pytest.fixture
def torch(recorder):
    fake = make(recorder.driver)
    for hook in (graph, graph_block, replay):
        hook.install(fake, recorder.context)
    return fake


def test_a_capture_has_a_begin_an_end_and_an_executable(recorder, torch):
    recorder.driver.nodes = 4
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        assert len(recorder.windows.open) == 1
    assert recorder.windows.open == ()
    (begin,), (end,), (graph_record,), (executable,) = (
        recorder.records(kind) for kind in ("capture", "capture-end", "graph", "exec")
    )
    assert (begin.mode, begin.graph, begin.on) == ("global", graph_record.id, 0)
    assert (end.cap, end.before, end.nodes, end.stream) == (begin.id, 1, 4, begin.stream)
    assert executable.graph == graph_record.id
    assert [(one.of, one.code) for one in recorder.records("outcome")] == [(begin.q, 0), (end.q, 0)]
    assert recorder.records("state") == []


def test_a_refused_begin_opens_no_window(recorder, torch):
    torch.fails["begin"] = 900
    with pytest.raises(RefusedError):
        torch.cuda.CUDAGraph().capture_begin(pool=(0, 1), capture_error_mode="relaxed")
    assert recorder.windows.open == ()
    (begin,) = recorder.records("capture")
    assert (begin.mode, begin.pool, begin.shared_pool) == ("relaxed", "0,1", True)
    assert recorder.records("outcome")[0].code == 900


def test_a_failed_block_tells_what_passed_through_and_what_is_left(recorder, torch):
    with pytest.raises(RefusedError), torch.cuda.graph(torch.cuda.CUDAGraph()):
        recorder.driver.statuses[0x10] = 2
        raise ValueError("first")
    (end,) = recorder.records("capture-end")
    assert (end.exc.type, end.before) == ("ValueError", 2)
    (told,) = recorder.records("exception")
    assert [link.message for link in told.chain] == ["CUDA error 901", "first"]
    assert told.chain[0].code == 901
    (state,) = recorder.records("state")
    assert (state.stream_current, state.status) == (True, 0)
    (status,) = recorder.records("capture-status")
    assert (status.across, status.by) == (0, "end")


def test_an_end_by_hand_in_an_except_block_knows_the_exception(recorder, torch):
    made = torch.cuda.CUDAGraph()
    torch.state.stream = 0x10
    made.capture_begin()
    try:
        raise KeyError("lost")
    except KeyError:
        made.capture_end()
    assert recorder.records("capture-end")[0].exc.type == "KeyError"


def test_replays_are_counted_and_only_the_first_is_told(recorder, torch):
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        pass
    for _ in range(5):
        made.replay()
    (told,) = recorder.records("replay")
    assert (told.first, told.exec) == (True, recorder.records("exec")[0].id)
    words = recorder.context.slots.open(told.exec)
    assert (words[1], words[2], words[4]) == (5, 5, told.stream)


def test_a_failing_replay_is_told_and_not_counted_as_done(recorder, torch):
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        pass
    made.replay()
    torch.fails["replay"] = 700
    with pytest.raises(RefusedError):
        made.replay()
    failed = recorder.records("replay")[-1]
    assert (failed.code, failed.done, failed.first) == (700, 0, False)
    assert tuple(recorder.context.slots.open(failed.exec)[1:3]) == (2, 1)


def test_a_replay_inside_a_window_is_told_with_the_change_across_it(recorder, torch):
    inner = torch.cuda.CUDAGraph()
    with torch.cuda.graph(inner):
        pass
    inner.replay()
    torch.fails["replay"] = 900
    with pytest.raises(RefusedError), torch.cuda.graph(torch.cuda.CUDAGraph()):
        inner.replay()
    told = recorder.records("replay")[-1]
    assert (told.cap, told.on) == (recorder.records("capture")[-1].id, 1)
    assert recorder.records("capture-status")[0].across == told.q


def test_a_graph_captured_again_is_another_graph(recorder, torch):
    made = torch.cuda.CUDAGraph()
    for _ in range(2):
        with torch.cuda.graph(made):
            pass
        made.replay()
        made.reset()
    assert len({one.graph for one in recorder.records("capture")}) == 2
    assert len({one.exec for one in recorder.records("replay")}) == 2
    assert [one.what for one in recorder.records("destroy")] == ["exec", "exec"]


def test_a_kept_graph_is_instantiated_later(recorder, torch):
    made = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(made):
        pass
    assert recorder.records("graph")[0].kept is True
    assert recorder.records("exec") == []
    made.instantiate()
    assert recorder.records("exec")[0].code == 0


def test_wrappers_look_like_what_they_wrap(recorder, torch):
    assert str(inspect.signature(torch.cuda.CUDAGraph.capture_begin)) == (
        "(self, pool=None, capture_error_mode='global')"
    )
    assert torch.cuda.CUDAGraph.replay.__qualname__.endswith("CUDAGraph.replay")


def fail_after_growth(torch, grows):
    held = [100 << 20]
    torch._C._cuda_memoryStats = lambda device: {"reserved_bytes": {"all": {"current": held[0]}}}
    torch.state.stream = 0x10
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    held[0] += grows
    torch.fails["end"] = 901
    with pytest.raises(RefusedError):
        graph.capture_end()


@pytest.mark.parametrize(
    ("grows", "told"), [(3 << 19, "1.5 MiB reserved since the capture began are still held"), (0, "none")]
)
def test_memory_that_a_failed_capture_keeps_is_told(recorder, torch, grows, told):
    fail_after_growth(torch, grows)
    (state,) = recorder.records("state")
    assert state.pool == told


def test_the_device_is_told_once_before_the_first_capture(recorder, torch):
    asked = []
    recorder.driver.device_facts = lambda ordinal: asked.append(ordinal) or {"device": "A GPU", "driver": "1.2"}
    device.install(None, recorder.context)
    for _ in range(2):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            pass
    assert asked == [0]
    told = [one for one in recorder.records("capability") if one.name == "device"]
    assert [one.versions for one in told] == [{"device": "A GPU", "driver": "1.2"}]
