"""CGD104, 105, 106, 115: unsafe calls, by who makes them."""

import pytest

from cudagraph_doctor.testing import cuda_error
from cudagraph_doctor.trace import events

TEXT = """
import torch
def worker():
    err, ptr = runtime.cudaMalloc(1 << 20)
    torch.cuda.synchronize()
    batch = rows.pin_memory()
with torch.cuda.graph(g):
    h = x @ w
    done.wait(20)
    y = h @ w
"""
OTHER = 77


def begin(s, **options):
    s.trace.thread(OTHER, "kv-offload")
    return s.trace.capture(line=s.line("with torch"), **options)


def test_other_threads_call_is_named_with_its_line(script, finds, fixed):
    s = script(TEXT)
    with begin(s) as capture:
        capture.op("aten::mm", line=s.line("h = x @ w"))
        stack = s.at("runtime.cudaMalloc(1 << 20)", "worker")
        capture.call("cudaMalloc", layer="bindings", code=900, tid=OTHER, stack=stack)
        capture.pycall("_thread.lock.acquire", line=s.line("done.wait"), before=1)
        capture.op("aten::mm", line=s.line("y = h @ w"), raises=cuda_error(901))
    finding = finds(s, "CGD104", line=s.line("cudaMalloc"), confidence="proven")
    assert "thread `kv-offload` called `runtime.cudaMalloc(1 << 20)`" in finding.message
    assert "thread_local" in finding.remedy
    assert "would have been enough" in finding.remedy
    assert 'with torch.cuda.graph(g, capture_error_mode="thread_local"):' in fixed(s, finding)
    assert finding.consequences[0].location.line == s.line("y = h @ w")


def test_thread_local_would_not_have_helped(script, finds):
    s = script(TEXT)
    with begin(s, mode="thread_local") as capture:
        stack = s.at("torch.cuda.synchronize()", "worker")
        capture.call("cuCtxSynchronize", layer="driver", code=900, tid=OTHER, stack=stack)
    finding = finds(s, "CGD104", line=s.line("synchronize()"))
    assert "would not have helped" in finding.remedy
    assert "enough" not in finding.remedy
    assert finding.fix is None


def test_driver_log_names_the_thread_while_this_one_waited(script, finds):
    s = script(TEXT)
    with begin(s) as capture:
        last = capture.op("aten::mm", line=s.line("h = x @ w"))
        stack = s.at("rows.pin_memory()", "worker")
        capture.invalidated_unseen(since=last, threads=[(OTHER, stack)])
        capture.log(
            "API call conflicts with a capture initiated from another thread",
            api="cuMemHostAlloc",
            code=900,
            thread=OTHER,
        )
        capture.op("aten::mm", line=s.line("y = h @ w"), raises=cuda_error(901))
    # where the thread was when it was noticed need not be where it was then
    finding = finds(s, "CGD104", line=s.line("pin_memory"), confidence="likely")
    assert "`rows.pin_memory()`" in finding.message
    assert "(cuMemHostAlloc, cudaError 900)" in finding.message


def test_status_that_changed_across_a_lock_was_changed_by_the_thread_in_the_log(script, finds):
    s = script(TEXT)
    with begin(s) as capture:
        capture.op("aten::mm", line=s.line("h = x @ w"))
        capture.pycall("_thread.lock.acquire", line=s.line("done.wait"), breaks=True)
        capture.log("...", api="cuMemAlloc_v2", code=900, thread=OTHER)
    finding = finds(s, "CGD104")
    assert "thread `kv-offload` called `cuMemAlloc_v2`" in finding.message


@pytest.mark.parametrize("mode", ["thread_local", "relaxed"])
def test_other_threads_call_that_was_allowed_is_quiet(script, quiet, mode):
    s = script(TEXT)
    with begin(s, mode=mode) as capture:
        capture.call("cudaMalloc", layer="bindings", code=0, tid=OTHER, line=s.line("cudaMalloc"))
        capture.end(nodes=2)
    quiet(s)


def test_allocation_on_the_capturing_thread(script, finds):
    s = script(
        "class Workspace:\n"
        "    def get(self, n):\n"
        "        self.ptr = ck(runtime.cudaMalloc(n))\n"
        "with graph:\n"
        "    ws.get(64)\n"
    )
    with s.trace.capture(line=4) as capture:
        stack = s.at("runtime.cudaMalloc(n)", "Workspace.get", above=[("    ws.get(64)", "<module>")])
        capture.call("cudaMalloc", layer="bindings", code=900, size=4096, stack=stack)
    finding = finds(s, "CGD105", line=3, confidence="proven")
    assert "`runtime.cudaMalloc(n)` allocates device memory directly (4,096 bytes)" in finding.message
    assert "does not help" in finding.remedy


def test_relaxed_allocation_is_quiet(script, quiet):
    s = script("with graph:\n    runtime.cudaMalloc(64)\n")
    with s.trace.capture(line=1, mode="relaxed") as capture:
        capture.call("cudaMalloc", layer="bindings", code=0, line=2)
        capture.end(nodes=1)
    quiet(s)


def test_unhooked_code_between_two_operators_is_named_by_the_drivers_log(script, finds):
    s = script("with graph:\n    y = x + 1\n    extension.run(y)\n    z = y + 1\n")
    with s.trace.capture(line=1) as capture:
        last = capture.op("aten::add", line=2)
        capture.invalidated_unseen(since=last)
        capture.log("...", api="cuMemAlloc_v2", code=900, thread=1000)
        capture.op("aten::add", line=4, raises=cuda_error(901))
    finding = finds(s, "CGD105", confidence="likely")
    assert "`extension.run(y)` allocates device memory directly" in finding.message
    assert finding.location.line == 3


GC = """
class Kernel:
    def __del__(self):
        driver.cuModuleUnload(self.module)
with torch.cuda.graph(g):
    h = x @ w
    gc.collect()
    y = h @ w
"""


def test_finaliser_blames_the_line_that_set_it_off(script, finds):
    s = script(GC)
    with s.trace.capture(line=s.line("with torch")) as capture:
        stack = s.at("driver.cuModuleUnload(self.module)", "Kernel.__del__", above=[("gc.collect()", "<module>")])
        capture.call("cuModuleUnload", layer="bindings", code=900, stack=stack)
    finding = finds(s, "CGD106", line=s.line("gc.collect()"))
    assert "`Kernel.__del__` at script.py:3, run by `gc.collect()`, called `cuModuleUnload`" in finding.message


def test_collection_on_this_thread_is_a_finaliser_even_without_its_frame(script, finds):
    s = script(GC)
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.gc("start", line=s.line("h = x @ w"))
        capture.call("cuModuleUnload", layer="driver", code=900, line=s.line("h = x @ w"))
        capture.gc("stop")
    finding = finds(s, "CGD106", line=s.line("h = x @ w"))
    assert "run by a garbage collection" in finding.message


def test_collection_that_broke_nothing_is_quiet(script, quiet):
    s = script(GC)
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.gc("start")
        capture.gc("stop")
        capture.end(nodes=2)
    quiet(s)


def test_call_after_the_collection_is_not_the_finalisers(script, finds):
    s = script(GC)
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.gc("start")
        capture.gc("stop")
        capture.call("cudaFree", layer="bindings", code=900, line=s.line("y = h @ w"))
    finds(s, "CGD105")


CUBLAS = events.Raised("RuntimeError", "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`")
SOLVER = events.Raised(
    "RuntimeError", "cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`"
)


@pytest.mark.parametrize(
    ("operator", "error", "library"), [("aten::mm", CUBLAS, "cuBLAS"), ("aten::linalg_inv_ex", SOLVER, "cuSOLVER")]
)
def test_first_use_of_a_library(script, finds, operator, error, library):
    s = script("with graph:\n    y = x @ x\n")
    with s.trace.capture(line=1) as capture:
        capture.op(operator, stack=s.at("x @ x"), raises=error, breaks=True)
    finding = finds(s, "CGD115", line=2, confidence="likely")
    assert f"`x @ x` is the first use of {library} here" in finding.message


def test_free_refused_inside_a_matrix_product_is_the_librarys(script, finds):
    s = script("with graph:\n    y = x @ x\n")
    with s.trace.capture(line=1) as capture:
        capture.op("aten::mm", stack=s.at("x @ x"), raises=CUBLAS, breaks=True)
        capture.log("...", api="cuMemFree_v2", code=900, thread=1000)
    finds(s, "CGD115", confidence="proven")


def test_matrix_product_that_fails_after_the_cause_is_a_consequence(script, finds):
    s = script("with graph:\n    n = x.sum().item()\n    y = x @ x\n")
    error = events.Raised("RuntimeError", "CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasSgemm(...)`")
    with s.trace.capture(line=1) as capture:
        capture.op("aten::_local_scalar_dense", stack=s.at("x.sum().item()"), raises=cuda_error(900))
        capture.op("aten::mm", line=3, raises=error)
    finding = finds(s, "CGD101", line=2)
    assert any(one.message.startswith("CUDA error: CUBLAS_STATUS_INTERNAL_ERROR") for one in finding.consequences)


def test_exception_that_ended_another_thread_names_its_line(script, finds):
    s = script(TEXT)
    error = cuda_error(900)
    with s.trace.capture(line=s.line("with torch")) as capture:
        last = capture.op("aten::mm", line=s.line("h = x @ w"))
        link = events.Link(error.type, error.message, code=900, stack=s.at("rows.pin_memory()", "worker"))
        s.trace.exception(link, where="thread", tid=OTHER, thread="loader")
        capture.invalidated_unseen(since=last)
        capture.op("aten::mm", line=s.line("y = h @ w"), raises=cuda_error(901))
    finding = finds(s, "CGD104", line=s.line("pin_memory"), confidence="proven")
    assert "thread `loader` called `rows.pin_memory()`" in finding.message


def test_collection_between_two_looks_is_likely_the_finalisers(script, finds):
    s = script(GC)
    with s.trace.capture(line=s.line("with torch")) as capture:
        last = capture.op("aten::mm", line=s.line("h = x @ w"))
        capture.gc("start", line=s.line("gc.collect()"))
        capture.gc("stop", collected=3)
        capture.invalidated_unseen(since=last)
        capture.op("aten::mm", line=s.line("y = h @ w"), raises=cuda_error(901))
    finds(s, "CGD106", line=s.line("gc.collect()"), confidence="likely")


def test_collection_is_not_blamed_for_a_wait_in_the_drivers_log(script, finds):
    s = script("with graph:\n    y = x + 1\n    extension.finish(y)\n    z = y + 1\n")
    with s.trace.capture(line=1) as capture:
        last = capture.op("aten::add", line=2)
        capture.gc("start", line=3)
        capture.gc("stop", collected=3)
        capture.invalidated_unseen(since=last)
        capture.log("...", api="cuStreamSynchronize", code=900, thread=1000)
        capture.op("aten::add", line=4, raises=cuda_error(901))
    finds(s, "CGD101", line=3)


def test_error_that_surfaces_late_does_not_hide_the_unhooked_call(script, finds):
    s = script("with graph:\n    a = torch.zeros(4)\n    cudart.cudaHostRegister(a.data_ptr(), 16, 0)\n    y = x * 2\n")
    with s.trace.capture(line=1) as capture:
        last = capture.op("aten::zeros", line=2, kind="host")
        capture.invalidated_unseen(since=last)
        capture.op("aten::mul", line=4, raises=cuda_error(900))
        capture.end(passing=cuda_error(900))
    finds(s, "CGD105", line=3, confidence="likely", message="`cudart.cudaHostRegister(a.data_ptr(), 16, 0)` pins")
