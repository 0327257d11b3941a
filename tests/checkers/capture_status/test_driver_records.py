"""Driver evidence leads to the same findings as python evidence: one cause, with kernel, library and thread."""

import pytest

from cudagraph_doctor.testing import cuda_error
from cudagraph_doctor.trace import events

MM = "with torch.cuda.graph(g):\n    h = x @ w\n    y = torch.relu(h)\n"
NVJET = "_ZN6vendor4gemmEPfS0_i"


def test_kernel_on_a_librarys_own_stream_inside_a_captured_operator(script, finds, tensor):
    s = script(MM)
    private = s.trace.stream(handle="0x7700")
    with s.trace.capture(line=1) as capture:
        op = capture.op("aten::mm", stack=s.at("x @ w"), tensors=(tensor.cuda("0"),))
        fields = {"kernel": NVJET, "lib": "libvendor.so.2", "ptr": "0x99"}
        capture.call("cuLaunchKernel", stack=s.at("x @ w"), stream=private, on=0, op=op, **fields)
        capture.op("aten::relu", line=3)
        capture.end(nodes=1)
    finding = finds(s, "CGD113", line=2, confidence="likely", level="error")
    assert "(kernel `vendor::gemm`, launched by libvendor.so.2) runs on stream 0x7700" in finding.message


def test_one_launch_seen_by_bindings_and_by_the_driver_is_one_finding(script, finds, tensor):
    s = script("with torch.cuda.graph(g):\n    torch.add(x, 1, out=h)\n    driver.cuLaunchKernel(fn, 0, args)\n")
    legacy = s.trace.stream(kind="legacy")
    with s.trace.capture(line=1) as capture:
        capture.op("aten::add.out", line=2, tensors=(tensor.cuda("out", 0x2000, written=True),))
        stack = s.at("driver.cuLaunchKernel(fn, 0, args)")
        shared = {"stream": legacy, "on": 0, "kernel": "double_it"}
        capture.call("cuLaunchKernel", layer="bindings", code=None, stack=stack, ptrs=("0x2000",), **shared)
        outer = s.trace.records[-1].q
        capture.call("cuLaunchKernel", line=3, ptr="0x99", **shared)
        s.trace.add(events.Outcome, tid=capture.tid, of=outer, code=0, after=1)
        capture.end(nodes=1)
    finds(s, "CGD113", line=3, confidence="proven", count=1, message="(kernel `double_it`)")


def test_free_of_cublas_inside_its_first_use(script, finds):
    s = script(MM)
    error = events.Raised(
        "RuntimeError", "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"
    )
    with s.trace.capture(line=1) as capture:
        op = s.trace.add(
            events.Op,
            tid=capture.tid,
            name="aten::mm",
            stack=s.at("x @ w"),
            stream=capture.stream,
            on=1,
            cap=1,
            before=1,
        )
        capture.call("cuMemFree_v2", code=900, line=2, op=op, lib="libcublas.so.13")
        s.trace.add(events.Outcome, tid=capture.tid, of=op, after=2, exc=error)
        capture.end(passing=error)
    finding = finds(s, "CGD115", line=2, confidence="proven", level="error")
    assert "`x @ w` is the first use of cuBLAS here" in finding.message


@pytest.mark.parametrize(("mode", "remedy"), [("global", "would have been enough"), ("relaxed", "No capture mode")])
def test_call_of_another_thread_that_was_under_way_when_the_capture_began(script, finds, mode, remedy):
    s = script("def loader():\n    t.pin_memory()\nwith torch.cuda.graph(g):\n    y = x + 1\n")
    s.trace.thread(77, "loader")
    with s.trace.capture(line=3, mode=mode) as capture:
        capture.op("aten::add", line=4)
        stack = s.at("t.pin_memory()", "loader")
        capture.call("cuMemHostAlloc", code=900, tid=77, stack=stack, inflight=True, before=None, after=2)
        capture.status = 2
        capture.op("aten::add", line=4, raises=cuda_error(901))
        capture.end()
    finding = finds(s, "CGD104", line=2, confidence="proven")
    assert "thread `loader` called `t.pin_memory()`" in finding.message
    assert remedy in finding.remedy


def test_stack_without_columns_borrows_those_of_the_operator_around_it(script, finds):
    s = script("with torch.cuda.graph(g):\n    a, b = f(x), x.max().item()\n")
    with s.trace.capture(line=1) as capture:
        op = s.trace.add(
            events.Op,
            tid=capture.tid,
            name="aten::_local_scalar_dense",
            stack=s.at("x.max().item()"),
            stream=capture.stream,
            on=1,
            cap=1,
            before=1,
        )
        capture.call("cuStreamSynchronize", code=900, line=2, stream=capture.stream, op=op)
        s.trace.add(events.Outcome, tid=capture.tid, of=op, after=2, exc=cuda_error(900))
        capture.end(passing=cuda_error(900))
    finds(s, "CGD101", line=2, message="`x.max().item()` waits for the GPU")


EXTENSION = """
def wrapper(src):
    extension.scale(src)
def step():
    h = x @ w
    {call}
    return torch.relu(h)
with torch.cuda.graph(g):
    y = step()
"""


@pytest.mark.parametrize(("call", "confidence"), [("wrapper(h)", "likely"), ("wrapper(upcoming)", "possible")])
def test_launch_of_an_extension_whose_parameters_nobody_read(script, finds, call, confidence):
    s = script(EXTENSION.format(call=call))
    legacy = s.trace.stream(kind="legacy")
    above = [("y = step()", "<module>")]
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.op("aten::mm", stack=s.at("x @ w", "step", above=above))
        stack = s.at("extension.scale(src)", "wrapper", above=[(call, "step"), *above])
        capture.call("cuLaunchKernel", stack=stack, stream=legacy, on=0, ptr="0x99", kernel="scale")
        capture.op("aten::relu", stack=s.at("torch.relu(h)", "step", above=above))
        capture.end(nodes=2)
    finds(s, "CGD113", line=s.line("extension.scale"), confidence=confidence)
