"""The table of allowed calls is the measurement, and the simulated driver follows it."""

from __future__ import annotations

import json

import pytest

from cudagraph_doctor.sim.legality import measured
from tests.sim.conftest import FIXTURES

MEASURED = json.loads((FIXTURES / "capture_legality.json").read_text())
STATUS = {"None": 0, "Active": 1, "Invalidated": 2}
MODES = ("global", "thread_local", "relaxed")
ROWS = [
    (kind, row["call"], column, result)
    for kind in ("capturing_stream_non_blocking", "capturing_stream_blocking")
    for row in MEASURED[kind]
    for column, result in row["results"].items()
]


def test_every_measured_cell_is_in_the_table():
    table = measured()
    for kind, call, column, (code, status, *_) in ROWS:
        mode, thread = column.split("/")
        verdict = table.look_up(
            call, mode=MODES.index(mode), other_thread=thread == "other", blocking=kind.endswith("_stream_blocking")
        )
        assert verdict.status == STATUS[status], (kind, call, column)
        if code is not None:
            assert verdict.code == code, (kind, call, column)


CALLS = """
import ctypes, threading
from cuda.bindings import runtime as rt
rt.cudaFree(0)
stream = rt.cudaStreamCreateWithFlags(1)[1]
other = rt.cudaStreamCreateWithFlags(1)[1]
event = rt.cudaEventCreate()[1]
memory = rt.cudaMalloc(64)[1]
rt.cudaEventRecord(event, other)
calls = {
    "cudaMalloc": lambda: rt.cudaMalloc(64),
    "cudaFree": lambda: rt.cudaFree(memory),
    "cudaHostAlloc": lambda: rt.cudaHostAlloc(64, 0),
    "cudaMemset sync": lambda: rt.cudaMemset(memory, 0, 8),
    "cudaMemsetAsync (capturing)": lambda: rt.cudaMemsetAsync(memory, 0, 8, stream),
    "cudaStreamSynchronize(capturing)": lambda: rt.cudaStreamSynchronize(stream),
    "cudaStreamSynchronize(other)": lambda: rt.cudaStreamSynchronize(other),
    "cudaStreamSynchronize(legacy)": lambda: rt.cudaStreamSynchronize(0),
    "cudaStreamQuery(other)": lambda: rt.cudaStreamQuery(other),
    "cudaDeviceSynchronize": lambda: rt.cudaDeviceSynchronize(),
    "cudaEventQuery(event recorded before)": lambda: rt.cudaEventQuery(event),
    "cudaEventSynchronize(event recorded before)": lambda: rt.cudaEventSynchronize(event),
    "cudaEventCreate": lambda: rt.cudaEventCreate(),
    "cudaStreamCreate": lambda: rt.cudaStreamCreate(),
    "cudaStreamWaitEvent(capturing, event recorded before)": lambda: rt.cudaStreamWaitEvent(stream, event, 0),
    "cudaStreamBeginCapture(capturing again)": lambda: rt.cudaStreamBeginCapture(stream, 0),
    "cudaMemGetInfo": lambda: rt.cudaMemGetInfo(),
    "cudaProfilerStart": lambda: rt.cudaProfilerStart(),
}
for number, mode in enumerate(("global", "thread_local", "relaxed")):
    for thread in ("capturing", "other"):
        for name, call in calls.items():
            assert int(rt.cudaStreamBeginCapture(stream, rt.cudaStreamCaptureMode(number))[0]) == 0
            answer = []
            run = lambda: answer.append(int(call()[0]))
            if thread == "capturing":
                run()
            else:
                worker = threading.Thread(target=run)
                worker.start()
                worker.join()
            status = int(rt.cudaStreamIsCapturing(stream)[1])
            end = int(rt.cudaStreamEndCapture(stream)[0])
            if "cudaFree" in name and answer == [0]:
                memory = rt.cudaMalloc(64)[1]
            print(f"{name}|{mode}/{thread}|{answer[0]}|{status}|{end}")
"""


def test_calls_of_cuda_bindings_answer_as_measured(on_device):
    pytest.importorskip("cuda.bindings")
    status, stdout, stderr, _ = on_device(CALLS)
    assert status == 0, stderr
    truth = {(call, column): result for kind, call, column, result in ROWS if kind == "capturing_stream_non_blocking"}
    seen = [line.split("|") for line in stdout.splitlines()]
    assert len(seen) == 18 * 6
    wrong = [
        (name, column, [int(code), int(after), int(end)], truth[name, column])
        for name, column, code, after, end in seen
        if [int(code), int(after), int(end)]
        != [truth[name, column][0], STATUS[truth[name, column][1]], truth[name, column][2]]
    ]
    assert not wrong
