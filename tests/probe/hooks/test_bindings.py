"""cuda-bindings as stubs: functions that return (code, ...) as releases 12 and 13 do."""

from __future__ import annotations

import enum
import gc
from types import SimpleNamespace

import pytest

from cudagraph_doctor.probe.hooks import bindings
from cudagraph_doctor.probe.hooks import gc as gc_hook


class Code(enum.IntEnum):
    OK = 0
    REFUSED = 900
    UNMATCHED = 903


class Handle:
    """A handle as cuda-bindings makes them."""

    def __init__(self, value):
        self.value = value

    def __int__(self):
        return self.value


Handle.__module__ = "cuda.bindings.runtime"


@pytest.fixture
def rt(recorder):
    driver, answers = recorder.driver, {}

    def answer(name, *values):
        code = answers.get(name, Code.OK)
        if code == Code.REFUSED:
            for handle, status in driver.statuses.items():
                driver.statuses[handle] = 2 if status == 1 else status
        return (code, *values)

    def begin(stream, mode):
        driver.statuses[int(stream)] = 1
        return answer("begin")

    def end(stream):
        found = answer("end", Handle(0x70))
        if found[0] == Code.UNMATCHED:
            driver.statuses.update(dict.fromkeys(driver.statuses, 2))
        else:
            driver.statuses[int(stream)] = 0
        return found

    module = SimpleNamespace(
        __name__="cuda.bindings.runtime",
        cudaStreamBeginCapture=begin,
        cudaStreamEndCapture=end,
        cudaMalloc=lambda size: answer("malloc", 0x7F00),
        cudaFree=lambda pointer: answer("free"),
        cudaMemsetAsync=lambda pointer, value, count, stream: answer("memset"),
        cudaEventRecord=lambda event, stream: answer("record"),
        cudaStreamWaitEvent=lambda stream, event, flags: answer("wait"),
        cudaStreamSynchronize=lambda stream: answer("sync"),
        cudaGraphInstantiate=lambda graph, flags: answer("instantiate", Handle(0x71)),
        cudaGraphLaunch=lambda executable, stream: answer("launch"),
        cudaThreadExchangeStreamCaptureMode=lambda mode: (Code.OK, 0),
        cuModuleGetFunction=lambda module, name: (Code.OK, Handle(0x90)),
        cuLaunchKernel=lambda *args: answer("kernel"),
        cuModuleUnload=lambda module: answer("unload"),
        answers=answers,
    )
    bindings._made.clear()
    bindings.install(module, recorder.context)
    return module


def test_a_capture_from_begin_to_launch(recorder, rt):
    stream = Handle(0x10)
    rt.cudaStreamBeginCapture(stream, 1)
    rt.cudaMemsetAsync(0x7F00, 0, 64, stream)
    _, graph = rt.cudaStreamEndCapture(stream)
    _, executable = rt.cudaGraphInstantiate(graph, 0)
    for _ in range(3):
        assert rt.cudaGraphLaunch(executable, stream) == (0,)
    (begin,), (end,), (exec_record,), (call,) = (
        recorder.records(kind) for kind in ("capture", "capture-end", "exec", "call")
    )
    assert (begin.api, begin.mode) == ("cudaStreamBeginCapture", "thread_local")
    assert end.cap == begin.id
    assert (call.cap, call.on, call.size, call.ptr, call.stream) == (begin.id, 1, 64, "0x7f00", begin.stream)
    assert exec_record.graph == begin.graph
    assert len(recorder.records("replay")) == 1
    assert tuple(recorder.context.slots.open(exec_record.id)[1:3]) == (3, 3)


def test_a_refused_call_is_what_broke_the_capture(recorder, rt):
    rt.cudaStreamBeginCapture(0x10, 0)
    rt.answers["malloc"] = Code.REFUSED
    rt.cudaMalloc(1024)
    (call,) = recorder.records("call")
    assert (call.code, call.before, call.after, call.size) == (900, 1, 2, 1024)
    assert recorder.records("capture-status")[0].across == call.q


def test_outside_windows_ordinary_calls_go_straight_through(recorder, rt):
    rt.cudaMalloc(8)
    rt.cudaFree(0x7F00)
    rt.cudaStreamSynchronize(0)
    assert recorder.records("call") == []


def test_mistakes_of_the_target_stay_its_own(recorder, rt):
    with pytest.raises(TypeError, match="positional argument"):
        rt.cudaMalloc()
    rt.cudaStreamBeginCapture(0x10, 0)
    with pytest.raises(TypeError, match="positional argument"):
        rt.cudaMalloc()
    assert recorder.records("outcome")[-1].exc.type == "TypeError"


def test_a_wait_on_another_capture_names_both_streams(recorder, rt):
    rt.cudaStreamBeginCapture(0x10, 1)
    rt.cudaStreamBeginCapture(0x20, 1)
    rt.cudaEventRecord(0x50, 0x10)
    rt.cudaStreamWaitEvent(0x20, 0x50, 0)
    record, wait = recorder.records("call")
    one, two = recorder.records("capture")
    assert (record.cap, wait.cap) == (one.id, two.id)
    assert (wait.stream, wait.other, wait.event) == (two.stream, one.stream, record.event)


def test_an_end_on_the_forked_stream_ends_the_capture_that_it_belongs_to(recorder, rt):
    rt.cudaStreamBeginCapture(0x10, 0)
    recorder.driver.statuses[0x30] = 1
    rt.answers["end"] = Code.UNMATCHED
    rt.cudaStreamEndCapture(0x30)
    (end,) = recorder.records("capture-end")
    assert end.cap == recorder.records("capture")[0].id
    outcome = recorder.records("outcome")[-1]
    assert (outcome.of, outcome.code, outcome.after) == (end.q, 903, 2)


def test_a_kernel_is_named_with_its_geometry_and_addresses(recorder, rt):
    _, kernel = rt.cuModuleGetFunction(Handle(1), b"double_it")
    rt.cudaStreamBeginCapture(0x10, 0)
    rt.cuLaunchKernel(kernel, 16, 1, 1, 256, 1, 1, 0, 0, ((0x7F0000, 4096), (None, None)), 0)
    call = recorder.records("call")[-1]
    assert (call.kernel, call.grid, call.block, call.smem) == ("double_it", (16, 1, 1), (256, 1, 1), 0)
    assert call.ptrs == ("0x7f0000",)
    assert call.on == 0


def test_a_finalizer_in_a_collection_is_seen(recorder, rt):
    gc_hook.install(None, recorder.context)

    class Kernel:
        def __init__(self):
            self.owner = self

        def __del__(self):
            rt.cuModuleUnload(Handle(9))

    gc.disable()  # no collection but the one asked for
    try:
        rt.cudaStreamBeginCapture(0x10, 0)
        Kernel()
        rt.answers["unload"] = Code.REFUSED
        gc.collect()
    finally:
        gc.enable()
    assert [one.phase for one in recorder.records("gc")] == ["start", "stop"]
    (call,) = recorder.records("call")
    assert (call.api, call.after) == ("cuModuleUnload", 2)
    assert recorder.stack_of(call).frames[0][2].endswith("Kernel.__del__")


def test_the_exchanged_mode_is_told(recorder, rt):
    rt.cudaThreadExchangeStreamCaptureMode(2)
    assert recorder.records("call")[0].mode == "relaxed"
