from __future__ import annotations

import pytest
from fake_torch import RefusedError, make

from cudagraph_doctor.probe.hooks import streams


@pytest.fixture
def torch(recorder):
    fake = make(recorder.driver)
    streams.install(fake, recorder.context)
    return fake


def test_outside_windows_nothing_is_written(recorder, torch):
    event, stream = torch.cuda.Event(), torch.cuda.Stream(0x20)
    event.record(stream)
    event.query()
    stream.wait_event(event)
    stream.synchronize()
    torch.cuda.synchronize()
    assert recorder.records() == []


def test_wait_stream_is_one_wait_that_names_both_streams(recorder, torch):
    window = recorder.window()
    torch.cuda.Stream(0x20).wait_stream(torch.cuda.Stream(0x10))
    (call,) = recorder.records("call")
    ids = {one.handle: one.id for one in recorder.records("stream")}
    assert (call.api, call.code, call.cap, call.on) == ("cuStreamWaitEvent", 0, window.id, 0)
    assert (call.stream, call.other) == (ids["0x20"], ids["0x10"])


def test_a_wait_on_work_recorded_outside_names_its_line(recorder, torch):
    event = torch.cuda.Event()
    torch.cuda.Stream(0x20).record_event(event)  # marker
    recorder.window()
    torch.cuda.Stream(0x10).wait_event(event)
    record, wait = recorder.records("call")
    assert (record.api, record.cap, record.on) == ("cuEventRecord", 0, 0)
    assert record.event == wait.event
    assert wait.other == record.stream
    with open(__file__) as file:
        assert file.readlines()[recorder.line_of(record) - 1].rstrip().endswith("# marker")


def test_a_refused_wait_of_the_host_is_what_broke_the_capture(recorder, torch):
    recorder.window()
    torch.fails["device"] = 900
    with pytest.raises(RefusedError):
        torch.cuda.synchronize()
    (call,) = recorder.records("call")
    (outcome,) = recorder.records("outcome")
    assert call.code is None
    assert (outcome.of, outcome.code, outcome.after) == (call.q, 900, 2)
    (status,) = recorder.records("capture-status")
    assert (status.across, status.by) == (call.q, "call")


def test_a_host_use_of_an_event_that_a_capture_recorded_is_told_after_it(recorder, torch):
    begin, end = torch.cuda.Event(), torch.cuda.Event()
    window = recorder.window()
    begin.record(torch.cuda.Stream(0x10))
    end.record(torch.cuda.Stream(0x10))
    recorder.windows.leave(window)
    torch.fails["elapsed"] = 1
    with pytest.raises(RefusedError):
        begin.elapsed_time(end)
    call = recorder.records("call")[-1]
    assert (call.api, call.code, call.cap) == ("cuEventElapsedTime", 1, 0)
    assert call.event == recorder.records("call")[0].event
    assert call.exc.code == 1


def test_an_external_event_is_a_real_one(recorder, torch):
    event = torch.cuda.Event(external=True)
    window = recorder.window()
    event.record(torch.cuda.Stream(0x10))
    recorder.windows.leave(window)
    event.query()
    assert [one.api for one in recorder.records("call")] == ["cuEventRecord"]
    assert recorder.records("event")[0].external is True


def test_an_event_recorded_again_outside_is_forgiven(recorder, torch):
    event = torch.cuda.Event()
    window = recorder.window()
    event.record(torch.cuda.Stream(0x10))
    recorder.windows.leave(window)
    event.record(torch.cuda.Stream(0x20))
    event.query()
    assert [(one.api, one.on) for one in recorder.records("call")] == [("cuEventRecord", 1), ("cuEventRecord", 0)]


def test_an_exception_without_a_code_completes_the_call(recorder, torch):
    recorder.window()
    with pytest.raises(AttributeError):
        torch.cuda.Stream(0x10).wait_event(None)
    (call,) = recorder.records("call")
    assert call.code is None
    assert recorder.records("outcome")[0].exc.type == "AttributeError"


def test_the_event_that_record_event_makes_is_named(recorder, torch):
    recorder.window()
    event = torch.cuda.Stream(0x10).record_event()
    torch.cuda.Stream(0x20).wait_event(event)
    record, wait = recorder.records("call")
    assert record.event == wait.event != 0
