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


BACKWARD = """
warm.backward(retain_graph=True)
with torch.cuda.graph(g):
    loss = model(x).sum()
    loss.backward()
"""
ENGINE = [
    ("site:torch/autograd/__init__.py", 381, "backward"),
    ("site:torch/autograd/graph.py", 869, "_engine_run_backward"),
]
WORKER = 815


def backward(s, capture, **call):
    """What an H200 records of a stale backward: the wait is refused between two operators of autograd's thread."""
    stack = s.at("loss.backward()", below=ENGINE)
    if call.pop("operators", True):
        capture.op("aten::mm", stack=stack, tid=WORKER, via=capture.tid)
    capture.call("cuStreamWaitEvent", tid=WORKER, **call)
    capture.pycall("torch._C._EngineBase.run_backward", stack=stack, before=1, raises=cuda_error(906))
    capture.end(passing=cuda_error(906))


@pytest.mark.parametrize("operators", [True, False])
@pytest.mark.parametrize("code", [905, 906])
def test_autograds_thread_works_for_the_one_that_called_backward(script, finds, operators, code):
    s = script(BACKWARD)
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.op("aten::sum", stack=s.at("loss = model(x).sum()"))
        backward(s, capture, code=code, lib="libtorch_cuda.so", operators=operators)
    finding = finds(s, "CGD114", line=s.line("    loss.backward()"), confidence="proven")
    assert "`loss.backward()`" in finding.message


def test_unknown_thread_of_another_library_during_backward_is_another_thread(script, finds):
    s = script(BACKWARD)
    with s.trace.capture(line=s.line("with torch")) as capture:
        backward(s, capture, code=906, lib="libtelemetry.so", operators=False)
    finds(s, "CGD104")


def test_read_in_a_hook_on_autograds_thread_names_the_hooks_line(script, finds):
    s = script("def hook(grad):\n    print(grad.max().item())\nwith torch.cuda.graph(g):\n    loss.backward()\n")
    with s.trace.capture(line=3) as capture:
        outer = s.at("loss.backward()", below=ENGINE)
        capture.op("aten::mm", stack=outer, tid=WORKER, via=capture.tid)
        stack = s.at("grad.max().item()", "hook")
        with_hook = capture.op("aten::_local_scalar_dense", stack=stack, tid=WORKER, returns=False)
        capture.call("cuStreamSynchronize", code=900, stack=stack, tid=WORKER, op=with_hook)
        capture.pycall("torch._C._EngineBase.run_backward", stack=outer, before=1, raises=cuda_error(900))
        capture.end(passing=cuda_error(900))
    finds(s, "CGD101", line=2)


def test_librarys_own_stream_inside_a_captured_operator_of_autograds_thread(script, finds, tensor):
    s = script(BACKWARD)
    private = s.trace.stream(handle="0x7700")
    with s.trace.capture(line=s.line("with torch")) as capture:
        stack = s.at("loss.backward()", below=ENGINE)
        op = capture.op("aten::mm", stack=stack, tid=WORKER, via=capture.tid, tensors=(tensor.cuda("0"),))
        capture.call("cuLaunchKernel", stream=private, on=0, op=op, tid=WORKER, kernel=NVJET, ptr="0x99", stack=stack)
        capture.end(nodes=1)
    finds(s, "CGD113", line=s.line("    loss.backward()"))


@pytest.mark.parametrize(
    ("call", "fires"),
    [
        ({"lib": "libcublas.so.13"}, True),
        ({"lib": "libc10_cuda.so"}, False),  # torch's allocator
        ({"lib": "libcublas.so.13", "tid": 77}, False),
        ({"lib": "libcublas.so.13", "before": 0}, False),
    ],
)
def test_workspace_that_a_library_makes_in_a_relaxed_capture(script, finds, quiet, call, fires):
    s = script(MM)
    with s.trace.capture(line=1, mode="relaxed") as capture:
        op = capture.op("aten::mm", stack=s.at("x @ w"), tid=call.get("tid"))
        capture.call("cuMemAlloc_v2", size=67108864, op=op, **call)
        capture.call("cuMemAlloc_v2", size=1048576, op=op, **call)
        capture.end(nodes=1)
    if not fires:
        quiet(s)
        return
    finding = finds(s, "CGD115", line=2, level="warning", confidence="proven")
    assert "`x @ w` is the first use of cuBLAS here" in finding.message
    assert "(2 allocations, 65.0 MiB)" in finding.message
