from __future__ import annotations

import threading

from cudagraph_doctor.probe.hooks import log
from cudagraph_doctor.probe.hooks.log import Entry


def line(text, ident=None):
    return f"[21:56:40.360][{ident or threading.get_ident()}][CUDA][E] {text}"


def test_an_entry_is_taken_apart():
    entry = Entry("[21:56:40.360][139983][CUDA][E] Returning 900 (CUDA_ERROR_X) from cuMemAlloc_v2")
    assert (entry.thread, entry.level, entry.code, entry.api) == (139983, "error", 900, "cuMemAlloc_v2")
    assert Entry("[1][2][CUDA][W] careful").level == "warning"
    assert Entry("no brackets at all").message == "no brackets at all"


def test_reasons_get_the_call_that_follows_and_noise_is_left_out(recorder):
    log.install(None, recorder.context)
    recorder.driver.lines = ["old"]
    window = recorder.window()
    recorder.driver.lines = [
        line("No CUDA context is current to the calling thread"),
        line("Returning 201 (CUDA_ERROR_INVALID_CONTEXT) from cuCtxGetDevice_v2"),
        line("paramIndex 2 outside of kernel parameter count 2"),
        line("Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuFuncGetParamInfo"),
        line("API call conflicts with a stream capture sequence initiated from the calling thread"),
        line("Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuMemAlloc_v2"),
    ]
    q = recorder.context.write("call", api="cudaMalloc", code=900)
    recorder.windows.failed(window, q)
    reason, refusal = recorder.records("log")
    assert (reason.api, reason.code, refusal.api) == ("cuMemAlloc_v2", 900, "cuMemAlloc_v2")
    assert reason.thread == threading.get_native_id()
    assert {entry.after for entry in (reason, refusal)} == {q}


def test_a_driver_without_a_log_is_said(recorder):
    recorder.driver.mark_log = lambda: False
    log.install(None, recorder.context)
    recorder.window()
    (said,) = [one for one in recorder.records("capability") if one.name == "log"]
    assert said.state == "unavailable"
    assert "12.9" in said.why
