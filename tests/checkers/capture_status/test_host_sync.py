import pytest

from cudagraph_doctor.testing import cuda_error
from cudagraph_doctor.trace import events

HEAD = """
import torch
x = torch.randn(4, 8, device="cuda")
g = torch.cuda.CUDAGraph()
"""


def region(script, body):
    text = (
        HEAD + "with torch.cuda.graph(g):\n" + "\n".join("    " + line for line in body.split("\n")) + "\ng.replay()\n"
    )
    return script(text)


def broken_by(script, operator, part, **op):
    trace = script.trace
    with trace.capture(line=script.line("with torch.cuda.graph(g)")) as capture:
        capture.op(operator, stack=script.at(part), raises=cuda_error(900), **op)
        capture.end(passing=cuda_error(900))
    trace.seal(1)


# (body, blamed expression, operator, words of the message, line of the changed code)
READS = [
    (
        "n = x.sum().item()",
        "x.sum().item()",
        "aten::_local_scalar_dense",
        "`x.sum().item()` waits for the GPU",
        "    # stays on the GPU; read it behind g.replay() with .item()\n    n = x.sum()\n",
    ),
    ("n = x.tolist()", "x.tolist()", "aten::_to_copy", "`x.tolist()` waits for the GPU", "with .tolist()\n    n = x\n"),
    (
        "n = x.detach().cpu().numpy()",
        "x.detach().cpu()",
        "aten::_to_copy",
        "`x.detach().cpu()` copies from",
        "with .cpu()\n    n = x.detach()\n",
    ),
    ("print(x)", "print(x)", "aten::_local_scalar_dense", "formatting a CUDA tensor in `print(x)`", "        print(x)"),
    (
        "s = f'{x.mean():.3f}'",
        "f'{x.mean():.3f}'",
        "aten::_local_scalar_dense",
        "formatting a CUDA tensor",
        "    if not torch.cuda.is_current_stream_capturing():",
    ),
    (
        "assert not x.isnan().any(), 'nan'",
        "not x.isnan().any()",
        "aten::_local_scalar_dense",
        "needs `not x.isnan().any()` as a bool",
        "        assert not x.isnan().any(), 'nan'",
    ),
    (
        "while (x > 5).any(): print('large')",
        "(x > 5).any()",
        "aten::_local_scalar_dense",
        "as a bool to go on",
        "    while not torch.cuda.is_current_stream_capturing() and (x > 5).any(): print('large')",
    ),
    (
        "if x.max().item() > 3:\n    hot = True",
        "x.max().item()",
        "aten::_local_scalar_dense",
        "`x.max().item()` waits",
        "    x_flag = x.max() > 3\ng.replay()\nif x_flag.item():\n    hot = True\n",
    ),
    (
        "y = x if x.sum().item() > -1e9 else -x",
        "x.sum().item()",
        "aten::_local_scalar_dense",
        "waits for the GPU",
        "    y = torch.where(x.sum() > -1e9, x, -x)",
    ),
    ("y = torch.equal(x, x)", "torch.equal(x, x)", "aten::equal", "returns a Python bool", "    y = (x == x).all()"),
    (
        "y = x.nonzero()",
        "x.nonzero()",
        "aten::nonzero",
        "returns a size that only the GPU knows",
        "    y = torch.nonzero_static(x, size=x.numel())",
    ),
    (
        "y = torch.where(x > 0)",
        "torch.where(x > 0)",
        "aten::nonzero",
        "returns a size",
        "    y = torch.nonzero_static(x > 0, size=(x > 0).numel()).unbind(1)",
    ),
    (
        "y = x.masked_select(x > 0)",
        "x.masked_select(x > 0)",
        "aten::masked_select",
        "returns a size",
        "    y = torch.where(x > 0, x, 0)",
    ),
    (
        "y = torch.linalg.solve(x, x)",
        "torch.linalg.solve(x, x)",
        "aten::_linalg_solve_ex",
        "checks the solver's info code",
        "    y = torch.linalg.solve_ex(x, x).result",
    ),
    (
        "y = torch.multinomial(x, 1)",
        "torch.multinomial(x, 1)",
        "aten::multinomial",
        "`torch.multinomial(x, 1)` waits",
        "    y = (x / torch.empty_like(x).exponential_()).argmax(-1, keepdim=True)",
    ),
]


@pytest.mark.parametrize(
    ("body", "part", "operator", "message", "change"), READS, ids=[r[0].split("\n")[0] for r in READS]
)
def test_reads_are_named_and_changed(script, finds, fixed, tensor, body, part, operator, message, change):
    s = region(script, body)
    values = (("device", "cpu"),) if operator == "aten::_to_copy" else ()
    broken_by(s, operator, part, tensors=(tensor.cuda("0"),), values=values)
    finding = finds(s, "CGD101", line=s.line(part), confidence="proven" if "multinomial" not in operator else "likely")
    assert message in finding.message
    assert "cudaError 900" in finding.message
    assert change in fixed(s, finding)


def test_mask_index_keeps_its_shape(script, finds, fixed, tensor):
    s = region(script, "kept = x[x[:, 0] > 0]")
    mask = (tensor.cuda("0", shape=(4, 8)), tensor.cuda("1.0", dtype="bool", shape=(4,)))
    broken_by(s, "aten::index", "x[x[:, 0] > 0]", tensors=mask)
    finding = finds(s, "CGD101")
    assert "boolean mask in `x[x[:, 0] > 0]`" in finding.message
    assert "    kept = torch.where((x[:, 0] > 0)[..., None], x, 0)" in fixed(s, finding)


def test_mask_assignment_writes_in_place(script, finds, fixed, tensor):
    s = region(script, "x[x > 3] = y")
    mask = (tensor.cuda("0", shape=(4, 8)), tensor.cuda("1.0", dtype="bool", shape=(4, 8)))
    broken_by(s, "aten::index_put_", "x[x > 3]", tensors=mask)
    assert "    x.copy_(torch.where(x > 3, y, x))" in fixed(s, finds(s, "CGD101"))


NEEDED_ON_THE_HOST = [
    ("n = x.sum().item()\nfor i in range(n):\n    x.add_(i)", "x.sum().item()"),
    ("for i in range(int(x[0, 0])):\n    x.add_(i)", "int(x[0, 0])"),
    ("y = torch.arange(int(x[0, 0]), device='cuda')", "int(x[0, 0])"),
    ("while (x > 5).any(): x /= 2", "(x > 5).any()"),
    ("if x.max() > 3:\n    x.mul_(2)", "x.max() > 3"),
    ("if x.max() > 3:\n    y = x / 10\nz = y + 1", "x.max() > 3"),
    ("if x.max() > 3 and ready:\n    x = x / 10", "x.max() > 3"),
    ("hot = False\nif x.max() > 3:\n    hot = True\nif hot:\n    x = x / 10", "x.max() > 3"),
    ("rows.append(x.item())", "x.item()"),
]


@pytest.mark.parametrize(("body", "part"), NEEDED_ON_THE_HOST, ids=[n[0].split("\n")[0] for n in NEEDED_ON_THE_HOST])
def test_no_code_is_offered_that_would_change_results(script, finds, tensor, body, part):
    s = region(script, body)
    broken_by(s, "aten::_local_scalar_dense", part, tensors=(tensor.cuda("0"),))
    finding = finds(s, "CGD101", line=s.line(part))
    assert finding.fix is None, finding.fix.replacement
    assert finding.remedy


def test_loop_bound_names_the_ways_out(script, finds, tensor):
    s = region(script, "for i in range(int(x[0, 0])):\n    x.add_(i)")
    broken_by(s, "aten::_local_scalar_dense", "int(x[0, 0])", tensors=(tensor.cuda("0"),))
    assert "loop over the largest number" in finds(s, "CGD101").remedy


def test_wait_for_the_device_through_a_library(script, finds, fixed):
    s = region(script, "torch.cuda.synchronize()")
    below = [("site:torch/cuda/__init__.py", 1000, "synchronize")]
    with s.trace.capture(line=s.line("with torch")) as capture:
        stack = s.at("torch.cuda.synchronize()", below=below)
        capture.call("cuCtxSynchronize", layer="torch", stack=stack, raises=cuda_error(900))
    finding = finds(s, "CGD101", line=s.line("synchronize()"), confidence="proven")
    assert "`torch.cuda.synchronize()` makes the host wait for the whole GPU" in finding.message
    assert [place.function for place in finding.chain] == ["synchronize"]
    assert "        torch.cuda.synchronize()" in fixed(s, finding)


def test_driver_call_inside_an_operator_names_both(script, finds, tensor):
    s = region(script, "n = x.sum().item()")
    with s.trace.capture(line=s.line("with torch")) as capture:
        stack = s.at("x.sum().item()")
        op = capture.op("aten::_local_scalar_dense", stack=stack, returns=False, tensors=(tensor.cuda("0"),))
        capture.call("cuStreamSynchronize", layer="driver", code=900, op=op, stack=stack)
        s.trace.add(events.Outcome, of=op, after=2, code=900, exc=cuda_error(900))
    finding = finds(s, "CGD101", confidence="proven")
    assert "`x.sum().item()`" in finding.message
    assert "(cuStreamSynchronize, cudaError 900)" in finding.message


def test_consequences_hang_under_the_cause(script, finds, tensor):
    s = region(script, "n = x.sum().item()\ny = x + 1")
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.op("aten::_local_scalar_dense", stack=s.at("x.sum().item()"), raises=cuda_error(900))
        capture.op("aten::add", line=s.line("y = x + 1"), raises=cuda_error(901))
        capture.end(passing=cuda_error(901))
    error = cuda_error(901)
    s.trace.exception(
        events.Link(error.type, error.message, code=901), events.Link(error.type, cuda_error(900).message, code=900)
    )
    s.trace.seal(1)
    finding = finds(s, "CGD101", line=s.line("item()"))
    assert [c.code for c in finding.consequences] == [901]  # told once, with the line that failed first
    assert finding.consequences[0].location.line == s.line("y = x + 1")
    assert finding.consequences[-1].message.startswith("the program ended with torch.AcceleratorError: CUDA error")


def test_state_left_behind_and_how_to_retry(script, finds):
    s = region(script, "n = x.sum().item()")
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.op("aten::_local_scalar_dense", stack=s.at("x.sum().item()"), raises=cuda_error(900))
    s.trace.add(events.State, cap=capture.id, stream=capture.stream, stream_current=True, sticky=0, status=0)
    after = finds(s, "CGD101").aftermath
    assert "is still the current stream" in after[0]
    assert "no sticky error" in after[-2]
    assert "torch.cuda.set_stream(torch.cuda.default_stream())" in after[-1]
    assert "g = torch.cuda.CUDAGraph()" in after[-1]


def test_lost_context_has_no_retry(script, finds):
    s = region(script, "n = x.sum().item()")
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.op("aten::_local_scalar_dense", stack=s.at("x.sum().item()"), raises=cuda_error(900))
    s.trace.add(events.State, cap=capture.id, stream_current=False, sticky=700)
    assert "restart the process" in finds(s, "CGD101").aftermath[-1]


def test_same_line_in_several_captures_is_one_finding(script, finds):
    s = region(script, "n = x.sum().item()")
    for _ in range(3):
        with s.trace.capture(line=s.line("with torch")) as capture:
            capture.op("aten::_local_scalar_dense", stack=s.at("x.sum().item()"), raises=cuda_error(900))
    finds(s, "CGD101", count=3)


def test_without_source_text_it_still_names_the_line(script, finds):
    s = script("")
    with s.trace.capture(line=5) as capture:
        capture.op("aten::_local_scalar_dense", line=6, raises=cuda_error(900))
    finding = finds(s, "CGD101", line=6)
    assert "`aten::_local_scalar_dense` waits for the GPU" in finding.message
    assert finding.fix is None


def test_read_outside_the_capture_is_quiet(script, quiet):
    s = region(script, "y = x + 1")
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.op("aten::add", line=s.line("y = x + 1"))
        capture.end(nodes=1)
    s.trace.call("cuStreamSynchronize", layer="torch", line=s.line("g.replay()"))
    quiet(s)


def test_host_work_inside_the_capture_is_quiet(script, quiet, tensor):
    s = region(script, "n = cpu_scale.item()")
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.op("aten::_local_scalar_dense", line=s.line("item()"), kind="host", tensors=(tensor.cpu("0"),))
        capture.end(nodes=1)
    quiet(s)


def test_exception_tells_the_line_where_no_operator_was_seen(script, finds):
    s = region(script, "print(x)")
    error = cuda_error(900)
    below = [("site:torch/_tensor.py", 500, "Tensor.__repr__"), ("site:torch/_tensor_str.py", 300, "_tensor_str")]
    with s.trace.capture(line=s.line("with torch")) as capture:
        capture.invalidated_unseen(since=1, by="end")
        capture.end(passing=error)
    last = cuda_error(901)
    chain = (
        events.Link(last.type, last.message, code=901),
        events.Link(error.type, error.message, code=900, stack=s.at("print(x)", below=below)),
    )
    s.trace.exception(*chain, where="capture-exit", cap=capture.id)
    finds(s, "CGD101", line=s.line("print(x)"), confidence="proven", message="formatting a CUDA tensor in `print(x)`")


IN_FUNCTION = """
import torch
def step(x):
    if x.sum() > 0:
        return x + 1
    return x - 1
with torch.cuda.graph(g):
    step(x)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        return x + 1\n    return x - 1\n", "    return torch.where(x.sum() > 0, x + 1, x - 1)\n"),
        ("        y = x + 1\n    else:\n        y = x - 1\n", "    y = torch.where(x.sum() > 0, x + 1, x - 1)\n"),
        ("        x = x / 10\n    return x\n", "    x = torch.where(x.sum() > 0, x / 10, x)\n    return x\n"),
    ],
)
def test_choice_between_two_results_is_made_on_the_device(script, finds, fixed, tensor, old, new):
    s = script(IN_FUNCTION.replace("        return x + 1\n    return x - 1\n", old))
    broken_by(s, "aten::_local_scalar_dense", "x.sum() > 0", tensors=(tensor.cuda("0"),))
    assert f"def step(x):\n{new}with" in fixed(s, finds(s, "CGD101"))


@pytest.mark.parametrize(
    ("body", "change"),
    [
        ("        finished = True\n    return x\n", None),  # the flag would be local to the function
        ("        print('negative')\n    return x\n", "        if x.sum() > 0:\n            print('negative')\n"),
        ("        log = x / 2\n        y = log\n    return x\n", None),
        ("        y = [x]\n    else:\n        y = []\n    return y\n", None),
    ],
)
def test_branch_without_a_choice_of_tensors(script, finds, fixed, tensor, body, change):
    s = script(IN_FUNCTION.replace("        return x + 1\n    return x - 1\n", body))
    broken_by(s, "aten::_local_scalar_dense", "x.sum() > 0", tensors=(tensor.cuda("0"),))
    finding = finds(s, "CGD101")
    if change is None:
        assert finding.fix is None, finding.fix.replacement
    else:
        assert f"    if not torch.cuda.is_current_stream_capturing():\n{change}" in fixed(s, finding)


TESTS = [
    ("not x.isfinite().all()", "torch.where(~(x.isfinite().all()), x / 10, x)"),
    ("x.sum()", "torch.where((x.sum()) != 0, x / 10, x)"),
    ("bool(x.any())", "torch.where(x.any(), x / 10, x)"),
    ("x.max().item() > 3", "torch.where(x.max() > 3, x / 10, x)"),
]


@pytest.mark.parametrize(("test", "change"), TESTS, ids=[t[0] for t in TESTS])
def test_condition_becomes_a_boolean_tensor(script, finds, fixed, tensor, test, change):
    s = region(script, f"if {test}:\n    x = x / 10\ny = x + 1")
    broken_by(s, "aten::_local_scalar_dense", test, tensors=(tensor.cuda("0"),))
    assert f"    x = {change}\n    y = x + 1" in fixed(s, finds(s, "CGD101"))


def test_lambda_is_guarded_inside(script, finds, fixed, tensor):
    s = script("import torch\nhooks.append(lambda h: log(h.cpu()))\nwith torch.cuda.graph(g):\n    run()\n")
    broken_by(s, "aten::_to_copy", "h.cpu()", tensors=(tensor.cuda("0"),), values=(("device", "cpu"),))
    text = fixed(s, finds(s, "CGD101", line=2))
    assert text.startswith(
        "import torch\nhooks.append(lambda h: log(h.cpu()) if not torch.cuda.is_current_stream_capturing() else None)"
    )


def test_distribution_that_checks_its_arguments(script, finds, fixed, tensor):
    s = region(script, "policy = Categorical(logits=x)")
    below = [
        ("site:torch/distributions/categorical.py", 70, "__init__"),
        ("site:torch/distributions/distribution.py", 60, "__init__"),
    ]
    with s.trace.capture(line=s.line("with torch")) as capture:
        stack = s.at("Categorical(logits=x)", below=below)
        capture.op("aten::_local_scalar_dense", stack=stack, raises=cuda_error(900), tensors=(tensor.cuda("0"),))
    finding = finds(s, "CGD101", message="checks its arguments on the host")
    assert "    policy = Categorical(logits=x, validate_args=False)" in fixed(s, finding)


def test_test_on_one_line_as_python_3_11_places_it(script, finds, fixed, tensor):
    s = region(script, "while (x > 5).any(): print('large')")
    broken_by(s, "aten::_local_scalar_dense", "while (x > 5).any(): print('large')", tensors=(tensor.cuda("0"),))
    finding = finds(s, "CGD101", message="Python needs `(x > 5).any()` as a bool to go on")
    assert "    while not torch.cuda.is_current_stream_capturing() and (x > 5).any(): print('large')" in fixed(
        s, finding
    )
