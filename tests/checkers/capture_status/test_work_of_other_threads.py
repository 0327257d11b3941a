"""CGD113 on other threads: only what the capturing thread waits for and the graph reads is missing work."""

import pytest

from cudagraph_doctor.checkers.wording.kernel_names import shown

MAP = """
def head(i):
    torch.mul(x[i], float(i + 1), out=heads[i])
def step():
    list(pool.map(head, range(4)))
    torch.sum(heads, 0, out=out)
with torch.cuda.graph(g):
    step()
"""
WITH, STEP = "with torch.cuda.graph(g)", "step()\n"
SYMBOL = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEEEvT0_"


def parallel(s, layer, work, reader, *, work_function, reader_function="<module>", above=(), count=1, **fields):
    """Captured `reader` after `count` pieces of `work` on other threads."""
    s.trace.thread(77, "pool_0")
    legacy = s.trace.stream(kind="legacy")
    with s.trace.capture(line=s.line(WITH)) as capture:
        for _ in range(count):
            stack = s.at(work, work_function)
            if layer == "driver":
                call = {"kernel": SYMBOL, "stream": legacy, "on": 0, "ptr": "0x99", "tid": 77, **fields}
                capture.call("cuLaunchKernel", stack=stack, **call)
            else:
                capture.pycall("torch._C._VariableFunctions.mul", stack=stack, tid=77)
        capture.op("aten::sum.out", stack=s.at(reader, reader_function, above=above))
        capture.end(nodes=1)
    return s


@pytest.mark.parametrize("layer", ["driver", "python"])
def test_pool_that_computes_what_the_graph_sums_up(script, finds, layer):
    s = script(MAP)
    above = [("    step()", "<module>")]
    parallel(s, layer, "torch.mul", "torch.sum", work_function="head", reader_function="step", above=above, count=4)
    finding = finds(s, "CGD113", line=s.line("torch.mul"), confidence="likely", level="error", count=4)
    assert "`torch.mul(x[i], float(i + 1), out=heads[i])`" in finding.message
    assert "runs on thread `pool_0`, on " in finding.message
    assert ("(kernel `at::native::vectorized_elementwise_kernel`)" in finding.message) == (layer == "driver")
    assert finding.related[0].line == s.line("torch.sum")
    assert "capturing thread" in finding.remedy


def test_kernel_whose_parameters_the_graph_does_not_read_is_quiet(script, quiet):
    s = script(MAP)
    above = [("    step()", "<module>")]
    fields = {"work_function": "head", "reader_function": "step", "above": above, "ptrs": ("0x7000",)}
    quiet(parallel(s, "driver", "torch.mul", "torch.sum", **fields))


def test_result_of_a_future_that_the_graph_reads(script, finds):
    s = script(
        "def work():\n    return torch.relu(x)\nwith torch.cuda.graph(g):\n    part = job.result()\n    y = part + 1\n"
    )
    parallel(s, "driver", "torch.relu", "part + 1", work_function="work")
    finds(s, "CGD113", line=2, confidence="likely")


BESIDE = "def other():\n    {work}\n{before}with torch.cuda.graph(g):\n    {first}\n    {reader}\n"
NEAR_MISSES = {
    "eager work, waited for, not read": ("r = torch.relu(z @ w)", "done.wait(20)", "y = torch.relu(h)"),
    "answer not read by the graph": ("total = batch.sum()", "answer = answers.get(timeout=30)", "y = h.log()"),
    "scratch of its own": ("torch.mul(x, 2.0, out=scratch)", "finished.get(timeout=30)", "y = h.cos()"),
    "a table's get": ("torch.mul(x, 2.0, out=heads)", "scale = options.get('scale')", "y = heads * scale"),
    "a text's join": ("torch.mul(x, 2.0, out=heads)", "name = '.'.join(map(str, parts))", "y = heads + 1"),
    "written only by the graph": ("torch.mul(x, 2.0, out=heads)", "done.wait()", "torch.add(x, 1, out=heads)"),
    "waited for before the capture": ("torch.mul(x, 2.0, out=heads)", "h = x + 1", "y = heads * h"),
}


@pytest.mark.parametrize("layer", ["driver", "python"])
@pytest.mark.parametrize("case", list(NEAR_MISSES))
def test_deliberate_work_beside_the_capture_is_quiet(script, quiet, case, layer):
    work, first, reader = NEAR_MISSES[case]
    text = BESIDE.format(work=work, before="job.result()\n", first=first, reader=reader)
    quiet(parallel(script(text), layer, work, reader, work_function="other"))


def test_launch_that_another_thread_captures_is_quiet(script, quiet):
    s = script(MAP)
    above = [("    step()", "<module>")]
    fields = {"work_function": "head", "reader_function": "step", "above": above, "on": 1}
    quiet(parallel(s, "driver", "torch.mul", "torch.sum", **fields))


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        (SYMBOL, "at::native::vectorized_elementwise_kernel"),
        ("_ZN2at6native54_GLOBAL__N__d8ceb000_21_DistributionNormal_cu_0c5b6e854nameEv", "at::native::name"),
        ("_Z8add_onesPf", "add_ones"),
        ("double_it", "double_it"),
        ("_ZN99", "_ZN99"),
    ],
)
def test_kernel_names(symbol, name):
    assert shown(symbol) == name


def unseen(s, reader, tensors=(), function="step"):
    """Nobody saw what the pool did."""
    with s.trace.capture(line=s.line(WITH)) as capture:
        stack = s.at(reader, function, above=[("    step()", "<module>")])
        capture.op("aten::sum.out", stack=stack, tensors=tensors)
        capture.end(nodes=1)
    return s


def test_pool_that_nobody_saw_is_possible(script, finds, tensor):
    s = unseen(script(MAP), "torch.sum", (tensor.cuda("0"),))
    finding = finds(s, "CGD113", line=s.line("torch.mul"), confidence="possible")
    assert "run by the threads of a pool" in finding.message
    assert [place.line for place in finding.related] == [s.line("pool.map"), s.line("torch.sum"), s.line(WITH)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    torch.mul", "    torch.cuda.set_stream(main)\n    torch.mul"),
        ("out=heads[i]", "out=scratch[i]"),
        ("pool.map(head,", "map(head,"),
        ("sum(heads", "sum(tails"),
        ("def head(i):", "def head(i, heads):"),
    ],
)
def test_pool_that_nobody_saw_and_that_may_be_deliberate_is_quiet(script, quiet, tensor, old, new):
    quiet(unseen(script(MAP.replace(old, new)), "torch.sum", (tensor.cuda("0"),)))


def test_pool_that_prepares_host_memory_is_quiet(script, quiet, tensor):
    quiet(unseen(script(MAP), "torch.sum", (tensor.cuda("0"), tensor.cpu("1", pinned=True))))
