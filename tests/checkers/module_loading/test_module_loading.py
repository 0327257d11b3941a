"""CGD301, 302, 303: loads, unloads, compilers and tuners met by a capture."""

import pytest

from cudagraph_doctor.checkers.capture_status import CaptureStatus
from cudagraph_doctor.checkers.module_loading import ModuleLoading
from cudagraph_doctor.testing import assert_finds, cuda_error, diagnose_trace
from cudagraph_doctor.trace import events

TEXT = "with torch.cuda.graph(g):\n    silu_kernel[grid](x, out, n)\n    module = ck(driver.cuModuleLoadData(PTX))\n    driver.cuModuleUnload(module)\n    y = conv(x)\n"
BOTH = [CaptureStatus, ModuleLoading]


def only(script, rule, **wanted):
    found = diagnose_trace(script.trace, checkers=BOTH).findings
    assert [f.rule.id for f in found] == [rule]
    return assert_finds(script.trace, rule, checkers=BOTH, **wanted)


def test_autotuner_in_the_capture_is_not_a_host_sync(script):
    s = script(TEXT)
    below = [("site:triton/runtime/autotuner.py", 200, "Autotuner.run"), ("site:triton/testing.py", 100, "do_bench")]
    with s.trace.capture(line=1) as capture:
        stack = s.at("silu_kernel[grid](x, out, n)", below=below)
        capture.call("cuCtxSynchronize", layer="torch", stack=stack, raises=cuda_error(900))
        capture.end(passing=cuda_error(900))
    s.trace.exception(events.Link("torch.AcceleratorError", cuda_error(901).message, code=901))
    s.trace.seal(1)
    finding = only(s, "CGD303", line=2, level="error", confidence="proven")
    assert "`silu_kernel[grid](x, out, n)` is tuned here" in finding.message
    assert "same autotune key" in finding.remedy
    assert finding.consequences[-1].message.startswith("the program ended with")


def test_cudnn_benchmark_in_the_capture(script):
    s = script(TEXT)
    error = events.Raised("RuntimeError", "FIND was unable to find an engine to execute this computation")
    with s.trace.capture(line=1) as capture:
        capture.op("aten::convolution", stack=s.at("conv(x)"), raises=error, breaks=True)
    only(s, "CGD303", line=5, message="`torch.backends.cudnn.benchmark = True`")


def test_first_call_of_a_compiled_function_in_the_capture(script):
    s = script(TEXT)
    error = events.Raised("RuntimeError", "Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture.")
    below = [("site:torch/_dynamo/convert_frame.py", 300, "_fn"), ("site:torch/cuda/random.py", 30, "get_rng_state")]
    stack = s.at("conv(x)", below=below)
    with s.trace.capture(line=1) as capture:
        capture.pycall("torch._C.Generator.get_state", stack=stack, raises=error)
        capture.end(passing=error)
    s.trace.exception(events.Link(error.type, error.message, stack=stack), where="capture-exit", cap=capture.id)
    only(s, "CGD303", line=5, message="is compiled here, at its first call")


def test_load_that_an_old_driver_refuses(script):
    s = script(TEXT)
    with s.trace.capture(line=1) as capture:
        capture.call("cuModuleLoadData", layer="bindings", code=900, stack=s.at("driver.cuModuleLoadData(PTX)"))
    only(s, "CGD301", line=3, level="error")


def test_load_that_is_allowed_is_a_note_once_a_line(script):
    s = script(TEXT)
    with s.trace.capture(line=1) as capture:
        for _ in range(2):
            capture.call("cuModuleLoadData", layer="bindings", code=0, stack=s.at("driver.cuModuleLoadData(PTX)"))
        capture.op("aten::add", line=5)
        capture.end(nodes=1)
    only(s, "CGD301", line=3, level="note")


def test_unload_on_the_capturing_thread(script):
    s = script(TEXT)
    with s.trace.capture(line=1) as capture:
        capture.call("cuModuleUnload", layer="bindings", code=900, stack=s.at("driver.cuModuleUnload(module)"))
    only(s, "CGD302", line=4)


def test_tuner_whose_attempt_was_retried_well_is_only_noted(script):
    s = script(TEXT)
    below = [("site:triton/runtime/autotuner.py", 200, "Autotuner.run")]
    with s.trace.capture(line=1) as capture:
        stack = s.at("silu_kernel[grid](x, out, n)", below=below)
        capture.call("cuCtxSynchronize", layer="torch", stack=stack, raises=cuda_error(900))
    with s.trace.capture(line=1) as capture:
        capture.op("aten::add", line=5)
        capture.end(nodes=1)
    s.trace.seal(0)
    only(s, "CGD116", level="note")


@pytest.mark.parametrize("when", ["before", "after"])
def test_loads_outside_the_capture_are_quiet(script, when):
    s = script(TEXT)
    if when == "before":
        s.trace.call("cuModuleLoadData", layer="bindings", line=3)
    with s.trace.capture(line=1) as capture:
        capture.op("aten::add", line=5)
        capture.end(nodes=1)
    if when == "after":
        s.trace.call("cuModuleUnload", layer="bindings", line=4)
    assert diagnose_trace(s.trace, checkers=BOTH).findings == ()
