"""CGD107, 108, 114, 118: what torch and its components refuse themselves, while the status stays active."""

import pytest

from cudagraph_doctor.testing import cuda_error
from cudagraph_doctor.trace import events


def refused(s, part, function, message, *, begin="with torch.cuda.graph", below=(), above=(), call="raise"):
    """The region is left by an exception that a C function raised; the end of the capture went well."""
    error = events.Raised("RuntimeError", message)
    stack = s.at(part, function, below=below, above=above)
    with s.trace.capture(line=s.line(begin)) as capture:
        capture.pycall(call, stack=stack, raises=error)
        capture.end(passing=error)
    for where in ("capture-exit", "uncaught"):
        link = events.Link("RuntimeError", message, stack=stack)
        s.trace.exception(link, where=where, cap=capture.id if where == "capture-exit" else 0)
    s.trace.seal(1)
    return s


RANDOM = """
def sample(scores, generator):
    torch.cuda.manual_seed(7)
    state = torch.cuda.get_rng_state()
    noise = scores.exponential_(generator=generator)
with torch.cuda.graph(g):
    sample(x, generator=request_rng)
"""
SEED = "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same."
STATE = "Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture."
OFFSET = "Attempt to increase offset for a CUDA generator not in capture mode."


def test_seed_in_the_capture(script, finds):
    s = refused(script(RANDOM), "torch.cuda.manual_seed(7)", "sample", SEED)
    finding = finds(s, "CGD107", line=s.line("manual_seed"), confidence="proven")
    assert finding.message.startswith("`torch.cuda.manual_seed(7)` touches the seed")
    assert finding.consequences[-1].message == f"the program ended with RuntimeError: {SEED}"


def test_saved_state_in_the_capture(script, finds):
    s = refused(script(RANDOM), "torch.cuda.get_rng_state()", "sample", STATE)
    finds(s, "CGD107", line=s.line("get_rng_state"), message="saves or restores random state")


def test_unregistered_generator_by_the_callers_name(script, finds):
    part = "scores.exponential_(generator=generator)"
    s = refused(script(RANDOM), part, "sample", OFFSET, above=[("sample(x, generator=request_rng)", "<module>")])
    finding = finds(s, "CGD107", line=s.line("exponential_"))
    assert "draws from `request_rng`, which is not registered" in finding.message
    assert "`g.register_generator_state(request_rng)`" in finding.remedy


def test_checkpoint_that_saves_random_state_refuses_by_design(script, finds):
    s = script("with torch.cuda.graph(g):\n    y = checkpoint(block, x)\n")
    below = [("site:torch/utils/checkpoint.py", 500, "checkpoint"), ("site:torch/cuda/random.py", 40, "get_rng_state")]
    finding = finds(refused(s, "checkpoint(block, x)", "<module>", STATE, below=below), "CGD118", line=2)
    assert "preserve_rng_state=False" in finding.remedy


def test_random_operator_after_a_failed_capture_is_its_consequence(script, finds):
    s = script("with torch.cuda.graph(g):\n    n = x.sum().item()\nwith torch.cuda.graph(h):\n    y = torch.rand(4)\n")
    with s.trace.capture(line=1) as capture:
        capture.op("aten::_local_scalar_dense", stack=s.at("x.sum().item()"), raises=cuda_error(900))
    message = "Offset increment outside graph capture encountered unexpectedly."
    error = events.Raised("RuntimeError", message)
    with s.trace.capture(line=3) as capture:
        capture.op("aten::rand", line=4, raises=error)
        capture.end(passing=error)
    s.trace.exception(events.Link("RuntimeError", message), where="capture-exit", cap=capture.id)
    s.trace.exception(events.Link("RuntimeError", message))
    s.trace.seal(1)
    finding = finds(s, "CGD101", line=2)
    assert any(message in consequence.message for consequence in finding.consequences)


NESTED = "def model():\n    block.replay()\n    return h @ w\nwith torch.cuda.graph(whole):\n    y = model()\n"


def test_replay_inside_a_capture(script, finds):
    message = "Cannot prepare for replay during capturing stage. during CUDA graph capture. If you need this call ..."
    below = [("site:torch/cuda/graphs.py", 190, "CUDAGraph.replay")]
    s = refused(script(NESTED), "block.replay()", "model", message, below=below)
    finding = finds(s, "CGD108", line=2)
    assert "`block.replay()` replays a graph inside the capture" in finding.message
    assert "`block`" in finding.remedy


def test_replay_that_cuda_refuses(script, finds):
    s = script(NESTED)
    with s.trace.capture(line=4) as capture:
        capture.call("cuGraphLaunch", layer="driver", code=900, stack=s.at("block.replay()", "model"))
    finds(s, "CGD108", line=2)


@pytest.mark.parametrize(
    "message",
    ["Cannot register the state during capturing stage.", "Only one capture at a time is allowed in a process."],
)
def test_capture_begun_inside_another(script, finds, message):
    s = script("with torch.cuda.graph(outer):\n    with torch.cuda.graph(inner):\n        y = x + 1\n")
    outer = s.trace.begin_capture(line=1)
    s.trace.begin_capture(stack=s.at("torch.cuda.graph(inner)"), refused=events.Raised("RuntimeError", message))
    error = events.Raised("RuntimeError", message)
    outer.end(passing=error)
    s.trace.exception(events.Link("RuntimeError", message), where="capture-exit", cap=outer.id)
    finds(s, "CGD108", line=2, message="second capture")


BACKWARD = """
warm_loss = model(x).sum()
warm_loss.backward(retain_graph=True)
with torch.cuda.graph(g):
    loss = model(x).sum()
    loss.backward()
"""
RUN_BACKWARD = [
    ("site:torch/_tensor.py", 600, "Tensor.backward"),
    ("site:torch/autograd/graph.py", 869, "_engine_run_backward"),
]


@pytest.mark.parametrize("code", [905, 906])
def test_backward_on_a_remembered_stream(script, finds, code):
    s = script(BACKWARD)
    stack = s.at("    loss.backward()", expression="loss.backward()", below=RUN_BACKWARD)
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.pycall("torch._C._EngineBase.run_backward", stack=stack, raises=cuda_error(code))
    finding = finds(s, "CGD114", line=s.line("    loss.backward()"))
    assert "probably `warm_loss`" in finding.message
    assert "`del warm_loss`" in finding.remedy
    assert finding.related[0].line == s.line("warm_loss.backward")


def test_refused_wait_outside_of_backward_is_no_autograd_matter(script, finds):
    s = script(BACKWARD)
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.op("aten::add", line=s.line("    loss = model"), raises=cuda_error(906))
    finds(s, "CGD112")


def test_backward_that_ran_on_the_remembered_stream_unrefused(script, finds, tensor):
    s = script(BACKWARD)
    stack = s.at("    loss.backward()", expression="loss.backward()", below=RUN_BACKWARD)
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.op(
            "aten::mm",
            line=s.line("    loss = model"),
            tensors=(tensor.cuda("0", 1), tensor.cuda("out", 2, written=True)),
        )
        old = s.trace.stream(kind="legacy")
        capture.op(
            "aten::add_",
            stack=stack,
            stream=old,
            on=0,
            tensors=(tensor.cuda("0", 3, written=True), tensor.cuda("1", 2)),
        )
        capture.end(nodes=1)
    finds(s, "CGD114", line=s.line("    loss.backward()"))


def test_optimizer_without_capturable(script, finds):
    s = script("opt = torch.optim.Adam(params, lr=1e-3)\nwith torch.cuda.graph(g):\n    opt.step()\n")
    message = "Attempting CUDA graph capture of step() for an instance of Adam but param_groups' capturable is False."
    below = [
        ("site:torch/optim/adam.py", 200, "step"),
        ("site:torch/optim/optimizer.py", 400, "_cuda_graph_capture_health_check"),
    ]
    finding = finds(refused(s, "opt.step()", "<module>", message, below=below), "CGD118", line=3)
    assert "`opt` was made without `capturable=True`" in finding.message
    assert "torch.optim.Adam(…, capturable=True)" in finding.remedy
    assert finding.related[0].line == 1


def test_hooks_refused_before_any_capture(script, finds):
    s = script("fast = torch.cuda.make_graphed_callables(model, (x,))\n")
    message = "Modules must not have hooks registered at the time they are passed. However, ..."
    stack = s.at(
        "torch.cuda.make_graphed_callables(model, (x,))",
        below=[("site:torch/cuda/graphs.py", 500, "make_graphed_callables")],
    )
    s.trace.exception(events.Link("RuntimeError", message, stack=stack))
    s.trace.seal(1)
    finding = finds(s, "CGD118", line=1, message="refuses to be captured: Modules must not have hooks")
    assert finding.capture is None


@pytest.mark.parametrize("kind", ["ValueError", "KeyError"])
def test_exception_of_the_programs_own_is_quiet(script, quiet, kind):
    s = script("with torch.cuda.graph(g):\n    raise ValueError('no such request')\n")
    error = events.Raised(kind, "no such request")
    with s.trace.capture(line=1) as capture:
        capture.end(passing=error)
    for where in ("capture-exit", "uncaught"):
        s.trace.exception(events.Link(kind, "no such request", stack=s.at("raise")), where=where)
    s.trace.seal(1)
    quiet(s)


def test_wait_of_torchs_own_capture_block_is_the_second_captures(script, finds):
    s = script("with torch.cuda.graph(outer):\n    with torch.cuda.graph(inner):\n        y = x + 1\n")
    below = [("site:torch/cuda/graphs.py", 239, "graph.__enter__")]
    with s.trace.capture(line=1) as capture:
        stack = s.at("torch.cuda.graph(inner)", below=below)
        capture.call("cuCtxSynchronize", layer="torch", stack=stack, raises=cuda_error(900))
    finds(s, "CGD108", line=2, message="second capture")
