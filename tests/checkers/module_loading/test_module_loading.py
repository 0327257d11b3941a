"""CGD301 to 304: loads, unloads, compilers and tuners met by a capture."""

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


def lazily(s, *, took=(3_000_000,), before=1, where="y = conv(x)", inside=True):
    with s.trace.capture(line=1) as capture:
        for nanoseconds in took:
            op = capture.op("aten::add", stack=s.at(where)) if inside else 0
            capture.call("cuLibraryLoadData", line=s.line(where), code=0, op=op, took=nanoseconds, before=before)
        capture.end(nodes=1)
    return s


def test_kernels_that_are_loaded_lazily_are_one_note(script):
    finding = only(lazily(script(TEXT), took=(3_000_000, 40_000_000, 30_000_000)), "CGD301", level="note", count=3)
    assert "one of 3 modules that were first used here" in finding.message
    assert "73.0 ms" in finding.message
    assert "CUDA_MODULE_LOADING=EAGER" in finding.remedy


def test_load_that_takes_long_is_a_warning(script):
    only(lazily(script(TEXT), took=(60_000_000,)), "CGD301", level="warning")


def test_load_before_the_driver_began_to_capture_is_quiet(script):
    """`capture_begin` of torch loads kernels of its own before the stream captures."""
    s = script(TEXT)
    with s.trace.capture(line=1) as capture:
        capture.op("aten::add", line=5)
        capture.end(nodes=1)
    at = next(n for n, record in enumerate(s.trace.records) if isinstance(record, events.Outcome))
    begin = s.trace.records[at - 1]
    load = events.Call(q=begin.q, t=begin.t, tid=begin.tid, api="cuLibraryLoadData", code=0, stack=begin.stack)
    s.trace.records.insert(at, load)
    assert isinstance(begin, events.Capture)
    assert diagnose_trace(s.trace, checkers=BOTH).findings == ()


def test_one_load_seen_by_two_layers_is_one(script):
    s = script(TEXT)
    with s.trace.capture(line=1) as capture:
        for layer in ("driver", "bindings"):
            capture.call("cuModuleLoadData", layer=layer, code=0, stack=s.at("driver.cuModuleLoadData(PTX)"))
        capture.op("aten::add", line=5)
        capture.end(nodes=1)
    only(s, "CGD301", line=3, level="note", count=1)


def test_kernel_compiled_in_a_good_capture(script):
    s = script(TEXT)
    below = [("site:triton/compiler/compiler.py", 400, "CompiledKernel._init_handles")]
    with s.trace.capture(line=1) as capture:
        stack = s.at("silu_kernel[grid](x, out, n)", below=below)
        capture.call("cuModuleLoadData", code=0, stack=stack)
        capture.end(nodes=1)
    finding = only(s, "CGD303", line=2, level="note")
    assert "`silu_kernel[grid](x, out, n)` is compiled and loaded at its first call" in finding.message


def test_importing_a_compiler_is_not_compiling(script):
    s = script(TEXT)
    below = [("site:torch/_dynamo/convert_frame.py", 28, "<module>")]
    with s.trace.capture(line=1) as capture:
        capture.call("cuModuleLoadData", code=0, stack=s.at("driver.cuModuleLoadData(PTX)", below=below))
        capture.end(nodes=1)
    only(s, "CGD301", line=3, level="note")


# ── what a load cost, and for whose sake it was made ─────────────────────────────────────────

MIB = 1 << 20


def loaded(s, *, memory, took=3_000_000, tid=None):
    """A lazy load as the C probe tells it: intention and outcome, and what was allocated inside."""
    with s.trace.capture(line=1) as capture:
        op = capture.op("aten::convolution", stack=s.at("y = conv(x)", expression="conv(x)"), returns=False, tid=tid)
        thread = {"tid": capture.tid if tid is None else tid}
        load = s.trace.add(
            events.Call, **thread, api="cuLibraryLoadData", cap=1, before=1, op=op, lib="libcudnn_ops.so.9"
        )
        if memory:
            capture.call("cuMemAlloc_v2", size=memory, **thread)
        s.trace.add(events.Outcome, **thread, of=load, code=0, after=1, ptr="0x3000", took=took)
        name = "_ZN5cudnn3ops10transpose_EPf"
        capture.call("cuLaunchKernel", stream=capture.stream, on=1, op=op, kernel=name, ptr="0x9", **thread)
        s.trace.add(events.Outcome, **thread, of=op, after=1)
        capture.end(nodes=1)
    return s


@pytest.mark.parametrize(("memory", "level"), [(0, "note"), (48 * MIB, "warning")])
def test_a_load_tells_its_kernel_library_and_memory(script, memory, level):
    finding = only(loaded(script(TEXT), memory=memory), "CGD301", line=5, level=level)
    assert "`conv(x)` loads the kernel `cudnn::ops::transpose_` of libcudnn_ops.so.9" in finding.message
    assert "which took 3.0 ms of the capture" in finding.message
    assert ("48 MiB of device memory" in finding.message) is bool(memory)
    assert finding.remedy.startswith("Run `conv(x)` once before the capture")


def test_a_load_on_another_thread_is_that_threads_business(script):
    assert diagnose_trace(loaded(script(TEXT), memory=48 * MIB, tid=77).trace, checkers=BOTH).findings == ()


def test_a_load_that_the_program_asked_for_names_the_kernel_it_took_of_it(script):
    s = script(TEXT)
    with s.trace.capture(line=1) as capture:
        load = s.trace.add(
            events.Call, api="cuModuleLoadData", cap=1, before=1, stack=s.at("driver.cuModuleLoadData(PTX)")
        )
        s.trace.add(events.Outcome, of=load, code=0, after=1, ptr="0x3000", took=1)
        capture.call("cuModuleGetFunction", kernel="silu_kernel", ptr="0x99", ptrs=("0x3000", "0x99"))
        capture.op("aten::add", line=5)
        capture.end(nodes=1)
    finding = only(s, "CGD301", line=3, level="note")
    assert "loads the kernel `silu_kernel`" in finding.message


# ── unloaded under a graph ───────────────────────────────────────────────────────────────────


def unloaded(s, *, functions=("0x99", "0xa1"), destroyed="", replayed=True, code=0):
    """A graph with one kernel of a module, instantiated as torch does, and the module unloaded afterwards."""
    trace = s.trace
    with trace.capture(line=1) as capture:
        stack = s.at("silu_kernel[grid](x, out, n)")
        capture.call("cuLaunchKernel", stack=stack, stream=capture.stream, on=1, kernel="silu_kernel", ptr="0x99")
        end = trace.add(events.CaptureEnd, cap=capture.id, stream=capture.stream, before=1, stack=stack)
        for api, ptr, made in (("cuStreamEndCapture", "", "0x70"), ("cuGraphInstantiateWithFlags", "0x70", "0x80")):
            q = trace.add(events.Call, api=api, ptr=ptr)
            trace.add(events.Outcome, of=q, code=0, ptr=made)
        trace.add(events.Outcome, of=end, code=0, nodes=1)
        capture.ended = True
    trace.add(events.Exec, id=1, graph=capture.graph, code=0)
    if destroyed == "reset":
        trace.add(events.Destroy, what="exec", id=1)
    if destroyed == "driver":
        trace.call("cuGraphExecDestroy", ptr="0x80")
    trace.call("cuModuleUnload", stack=s.at("driver.cuModuleUnload(module)"), ptr="0x3000", ptrs=functions, code=code)
    if replayed:
        trace.replay(capture.graph, exec=1, line=5)
    trace.seal(0)
    return s


@pytest.mark.parametrize(("replayed", "level"), [(True, "warning"), (False, "note")])
def test_module_unloaded_under_its_graph(script, replayed, level):
    finding = only(unloaded(script(TEXT), replayed=replayed), "CGD304", line=4, level=level, confidence="proven")
    assert "`driver.cuModuleUnload(module)` unloads a module while a graph that is alive uses" in finding.message
    assert "its kernel `silu_kernel`" in finding.message
    assert next(place.line for place in finding.related) == 2


@pytest.mark.parametrize(
    "quiet",
    [{"functions": ("0xa1",)}, {"functions": ()}, {"destroyed": "reset"}, {"destroyed": "driver"}, {"code": 400}],
)
def test_unload_that_concerns_no_living_graph_is_quiet(script, quiet):
    s = unloaded(script(TEXT), replayed=False, **quiet)
    assert diagnose_trace(s.trace, checkers=BOTH).findings == ()
