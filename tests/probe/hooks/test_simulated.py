from __future__ import annotations

from cudagraph_doctor.probe.simulated import make_emit


def call(api, **fields):
    return {"k": "call", "api": api, "layer": "sim", "code": 0, "before": 1, "after": 1, "device": 0, **fields}


def test_handles_become_ids_and_the_line_is_added(recorder):
    window = recorder.window(0x10)
    emit = make_emit(recorder.context)
    q = emit(call("cuLaunchKernel", stream=0x10, on=1, capture=9, origin=0x10))  # marker
    (record,) = recorder.records("call")
    (stream,) = recorder.records("stream")
    assert (record.q, record.cap, record.stream, stream.handle) == (q, window.id, stream.id, "0x10")
    with open(__file__) as file:
        assert file.readlines()[recorder.line_of(record) - 1].rstrip().endswith("# marker")


def test_the_call_across_which_the_status_changed_is_named(recorder):
    recorder.window(0x10)
    recorder.driver.statuses[0x10] = 2
    q = make_emit(recorder.context)(call("cuStreamSynchronize", stream=0x10, code=900, after=2, origin=0x10))
    assert recorder.records("capture-status")[0].across == q


def test_a_wait_names_the_stream_on_which_its_event_was_recorded(recorder):
    recorder.window(0x10)
    emit = make_emit(recorder.context)
    emit(call("cuEventRecord", stream=0x10, event=0x50, on=1, origin=0x10))
    emit(call("cuStreamWaitEvent", stream=0x20, event=0x50, on=0, origin=0x10))
    record, wait = recorder.records("call")
    assert (wait.event, wait.other) == (record.event, record.stream)
    assert wait.stream != record.stream


def test_the_end_of_a_capture_still_belongs_to_it(recorder):
    window = recorder.window(0x10)
    recorder.windows.leave(window)
    make_emit(recorder.context)(call("cuStreamEndCapture", stream=0x10, origin=0x10))
    assert recorder.records("call")[0].cap == window.id


def test_the_operator_inside_which_it_was_made_is_added(recorder):
    import threading

    recorder.window(0x10)
    recorder.windows.operators[threading.get_ident()] = 77
    make_emit(recorder.context)(call("cuLaunchKernel", stream=0x10, origin=0x10))
    assert recorder.records("call")[0].op == 77


def test_records_of_other_kinds_pass(recorder):
    make_emit(recorder.context)({"k": "limit", "what": "nccl", "reason": "not simulated"})
    (limit,) = recorder.records("limit")
    assert (limit.what, limit.stack > 0) == ("nccl", True)
