"""Which rule owns a refused call: the precedence of the catalogue, one witness a row."""

import pytest

from cudagraph_doctor.checkers.invalidation.classify import cause_of
from cudagraph_doctor.testing import cuda_error

LINE = "with torch.cuda.graph(g):\n    run(x)\n"
OTHER = 77


def cause(script, *, tid=None, below=(), op="", code=900, api="", tensors=(), function="<module>", text=LINE, **call):
    """The cause of a capture that one driver call broke, inside an operator or not."""
    s = script(text)
    with s.trace.capture(line=1) as capture:
        stack = s.at("run(x)", function, below=below)
        number = capture.op(op, stack=stack, returns=False, tensors=tensors, tid=tid) if op else 0
        capture.call(api, layer="driver", code=code, op=number, stack=stack, tid=tid, **call)
    session = s.trace.session()
    return cause_of(session, session.captures[0])


@pytest.mark.parametrize(
    ("api", "code", "rule"),
    [
        ("cuStreamSynchronize", 900, "CGD101"),
        ("cuCtxSynchronize_v2", 900, "CGD101"),
        ("cudaDeviceSynchronize", 900, "CGD101"),
        ("cuEventSynchronize", 900, "CGD101"),
        ("cuEventSynchronize", 907, "CGD103"),
        ("cuEventQuery", 900, "CGD103"),
        ("cuStreamQuery", 900, "CGD103"),
        ("cuMemAlloc_v2", 900, "CGD105"),
        ("cuMemFree_v2", 900, "CGD105"),
        ("cuMemHostAlloc", 900, "CGD105"),
        ("cuMemHostRegister_v2", 900, "CGD105"),
        ("cuMemPoolTrimTo", 900, "CGD105"),
        ("cuProfilerStart", 900, "CGD105"),
        ("cuGraphLaunch", 900, "CGD108"),
        ("cuGraphInstantiateWithFlags", 900, "CGD108"),
        ("cuStreamWaitEvent", 905, "CGD110"),
        ("cuStreamWaitEvent", 902, "CGD110"),
        ("cuLaunchKernel", 906, "CGD112"),
        ("cuModuleLoadData", 900, "CGD301"),
        ("cuModuleUnload", 900, "CGD302"),
        ("cuLaunchKernel", 701, "CGD503"),
        ("cuLaunchKernel", 720, "CGD504"),
    ],
)
def test_the_call_decides(script, api, code, rule):
    assert cause(script, api=api, code=code, breaks=True).rule == rule


ASK = ["cuMemAlloc_v2", "cuStreamSynchronize", "cuModuleUnload", "cuEventQuery"]


@pytest.mark.parametrize("api", ASK)
def test_another_thread_comes_first(script, api):
    finaliser = [("site:lib/pool.py", 9, "Pool.__del__")]
    assert cause(script, api=api, tid=OTHER, below=finaliser).rule == "CGD104"


@pytest.mark.parametrize("api", ASK)
def test_then_a_finaliser(script, api):
    tuner = [("site:triton/runtime/autotuner.py", 5, "run"), ("site:lib/pool.py", 9, "Pool.__del__")]
    assert cause(script, api=api, below=tuner).rule == "CGD106"


@pytest.mark.parametrize("api", ["cuMemAlloc_v2", "cuStreamSynchronize", "cuEventQuery"])
@pytest.mark.parametrize(
    ("path", "function"),
    [
        ("site:triton/runtime/autotuner.py", "Autotuner.run"),
        ("site:triton/testing.py", "do_bench"),
        ("site:torch/_inductor/runtime/benchmarking.py", "Benchmarker.benchmark_gpu"),
        ("site:torch/_dynamo/convert_frame.py", "compile_inner"),
        ("site:torch/_inductor/compile_fx.py", "compile_fx"),
    ],
)
def test_then_a_tuner_or_compiler(script, api, path, function):
    assert cause(script, api=api, below=[(path, 10, function)]).rule == "CGD303"


def test_compiled_code_that_only_runs_is_no_compiler(script):
    running = [("site:torch/_dynamo/eval_frame.py", 700, "_fn")]
    assert cause(script, api="cuStreamSynchronize", below=running).rule == "CGD101"


@pytest.mark.parametrize("op", ["aten::mm", "aten::addmm", "aten::_scaled_mm", "aten::linalg_solve", "aten::_fft_c2c"])
def test_then_a_library_in_its_operator(script, op):
    assert cause(script, api="cuMemAlloc_v2", op=op).rule == "CGD115"


def test_wait_in_a_solver_is_its_info_check(script):
    found = cause(script, api="cuStreamSynchronize", op="aten::linalg_inv_ex")
    assert (found.rule, found.why) == ("CGD101", "info-check")


def test_allocation_in_an_operator_of_no_library_is_its_own(script):
    assert cause(script, api="cuMemAlloc_v2", op="mylib::fused_norm").rule == "CGD105"


def test_convolution_with_benchmark_on_is_tuned(script):
    text = "torch.backends.cudnn.benchmark = True\nwith torch.cuda.graph(g):\n    run(x)\n"
    assert cause(script, api="cuEventSynchronize", op="aten::convolution", text=text).rule == "CGD303"
    assert cause(script, api="cuMemAlloc_v2", op="aten::convolution").rule == "CGD115"


@pytest.mark.parametrize("code", [905, 906])
def test_waits_under_backward_are_autograds(script, code):
    below = [("site:torch/autograd/graph.py", 869, "_engine_run_backward")]
    assert cause(script, api="cuStreamWaitEvent", code=code, below=below).rule == "CGD114"


def test_direction_of_a_copy(script, tensor):
    up = (tensor.cuda("0", written=True), tensor.cpu("1"))
    down = (tensor.cpu("0", written=True), tensor.cuda("1"))
    assert cause(script, api="cuStreamSynchronize", op="aten::copy_", tensors=up).rule == "CGD102"
    assert cause(script, api="cuStreamSynchronize", op="aten::copy_", tensors=down).rule == "CGD101"


def test_cpu_index_of_a_device_tensor_is_an_upload(script, tensor):
    both = (tensor.cuda("0"), tensor.cpu("1.0", dtype="int64"))
    assert cause(script, api="cuStreamSynchronize", op="aten::index", tensors=both).rule == "CGD102"
    mask = (tensor.cuda("0"), tensor.cuda("1.0", dtype="bool"))
    assert cause(script, api="cuStreamSynchronize", op="aten::index", tensors=mask).rule == "CGD101"


def test_capture_that_ended_well_has_no_cause(script):
    s = script(LINE)
    with s.trace.capture(line=1) as capture:
        capture.call("cuMemAlloc_v2", code=0, line=2)
        capture.end(nodes=1)
    session = s.trace.session()
    assert cause_of(session, session.captures[0]) is None


def test_901_is_never_the_cause(script):
    s = script(LINE)
    with s.trace.capture(line=1) as capture:
        capture.call("cudaMalloc", layer="bindings", code=900, stack=s.at("run(x)"))
        capture.call("cuLaunchKernel", layer="driver", code=901, line=2)
        capture.op("aten::add", line=2, raises=cuda_error(901))
    session = s.trace.session()
    found = cause_of(session, session.captures[0])
    assert (found.api, found.code) == ("cudaMalloc", 900)


@pytest.mark.parametrize("damage", ["no stacks", "no streams", "no begin"])
def test_traces_with_holes_do_not_stop_it(script, damage):
    s = script(LINE)
    with s.trace.capture(line=1) as capture:
        capture.call("cuStreamSynchronize", code=900, stack=s.at("run(x)"))
    drop = {"no stacks": "stack", "no streams": "stream", "no begin": "capture"}[damage]
    s.trace.records[:] = [r for r in s.trace.records if r.__struct_config__.tag != drop]
    session = s.trace.session()
    for capture in session.captures:
        found = cause_of(session, capture)
        assert found is None or found.rule == ("CGD116" if damage == "no begin" else "CGD101")
