import pytest

from cudagraph_doctor.testing import cuda_error
from cudagraph_doctor.trace import events

IN_FUNCTION = """
import torch
hidden = torch.randn(4, 8, device="cuda")
staging = torch.randn(4, 8)
step = 5
g = torch.cuda.CUDAGraph()

def forward(batch):
    {line}
    return hidden + 1

with torch.cuda.graph(g):
    forward(staging)
g.replay()
"""


def refused(script, line, part, error, operator="aten::_to_copy", tensors=(), values=()):
    s = script(IN_FUNCTION.format(line=line))
    with s.trace.capture(line=s.line("with torch.cuda.graph(g)")) as capture:
        capture.op(operator, stack=s.at(part, "forward"), raises=error, tensors=tensors, values=values)
        capture.end(passing=error)
    s.trace.seal(1)
    return s


# (line, blamed expression, words of the message, lines of the changed code)
UNPINNED = [
    (
        "pos = torch.tensor([step], device='cuda')",
        "torch.tensor([step], device='cuda')",
        "makes a CPU tensor and copies it",
        ["# pos.copy_(new_values)", "pos = torch.tensor([step], device='cuda')"],
    ),
    (
        "rows = hidden[[0, 2, 3]]",
        "hidden[[0, 2, 3]]",
        "index list `[0, 2, 3]` becomes a CPU tensor",
        [
            "rows_index = torch.tensor([0, 2, 3], device=hidden.device)",
            "    rows = hidden[rows_index]",
        ],
    ),
    (
        "rows = hidden[torch.tensor([0, 1])]",
        "hidden[torch.tensor([0, 1])]",
        "index `torch.tensor([0, 1])` becomes",
        ["rows_index = torch.tensor([0, 1]).to(hidden.device)", "    rows = hidden[rows_index]"],
    ),
    (
        "y = torch.where(hidden > 0, hidden, torch.tensor(0.0))",
        "torch.where(hidden > 0, hidden, torch.tensor(0.0))",
        "`torch.tensor(0.0)` makes a CPU tensor",
        ["    y = torch.where(hidden > 0, hidden, 0.0)"],
    ),
    (
        "hidden[:, index] = 1.0",
        "hidden[:, index]",
        "the value `1.0` assigned to `hidden[:, index]` becomes a CPU tensor",
        ["    hidden[:, index] = torch.full((), 1.0, dtype=hidden.dtype, device=hidden.device)"],
    ),
    (
        "hidden.copy_(staging)",
        "hidden.copy_(staging)",
        "copies from `staging`, host memory that is not pinned",
        ["staging_pinned = staging.pin_memory()", "    hidden.copy_(staging_pinned, non_blocking=True)"],
    ),
]


@pytest.mark.parametrize(("line", "part", "message", "changed"), UNPINNED, ids=[u[0] for u in UNPINNED])
def test_unpinned_copies(script, finds, fixed, unpinned, tensor, line, part, message, changed):
    both = (tensor.cuda("0"), tensor.cpu("1"))
    s = refused(script, line, part, unpinned, operator="aten::copy_", tensors=both)
    finding = finds(s, "CGD102", line=s.line(part), confidence="proven")
    assert message in finding.message
    text = fixed(s, finding).split("\n")
    assert all(any(line.startswith(want) for line in text) for want in changed), "\n".join(text)


def test_blocking_copy_from_pinned_memory(script, finds, fixed, tensor):
    both = (tensor.cuda("0", written=True), tensor.cpu("1", pinned=True))
    s = refused(script, "hidden.copy_(staging)", "hidden.copy_(staging)", cuda_error(900), "aten::copy_", both)
    finding = finds(s, "CGD102", confidence="proven")
    assert "copies from pinned memory and then waits" in finding.message
    assert "    hidden.copy_(staging, non_blocking=True)\n" in fixed(s, finding)


def test_torchs_own_refusal_without_an_operator(script, finds, unpinned):
    s = script(IN_FUNCTION.format(line="pos = torch.tensor([step], device='cuda')"))
    stack = s.at("torch.tensor([step], device='cuda')", "forward")
    with s.trace.capture(line=s.line("with torch.cuda.graph(g)")) as capture:
        capture.end(passing=unpinned)
    s.trace.exception(events.Link(unpinned.type, unpinned.message, stack=stack), where="capture-exit", cap=capture.id)
    finds(s, "CGD102", line=s.line("torch.tensor([step]"))


def test_device_to_host_is_a_read(script, finds, unpinned, tensor):
    s = refused(
        script, "n = hidden.cpu()", "hidden.cpu()", unpinned, tensors=(tensor.cuda("0"),), values=(("device", "cpu"),)
    )
    finds(s, "CGD101", message="`hidden.cpu()` copies from the GPU to host memory that is not pinned")


def test_read_is_told_from_the_source_where_no_operator_was_seen(script, finds, unpinned):
    s = script(IN_FUNCTION.format(line="n = hidden.detach().cpu().numpy()"))
    stack = s.at("hidden.detach().cpu()", "forward")
    with s.trace.capture(line=s.line("with torch.cuda.graph(g)")) as capture:
        capture.end(passing=unpinned)
    s.trace.exception(events.Link(unpinned.type, unpinned.message, stack=stack))
    s.trace.exception(events.Link(unpinned.type, unpinned.message, stack=stack), where="capture-exit", cap=capture.id)
    finds(s, "CGD101", line=s.line(".numpy()"))


def test_refused_copy_that_the_region_survived_is_quiet(script, quiet, unpinned, tensor):
    s = script(IN_FUNCTION.format(line="hidden.copy_(staging)"))
    with s.trace.capture(line=s.line("with torch.cuda.graph(g)")) as capture:
        capture.op("aten::copy_", line=s.line("copy_"), raises=unpinned, tensors=(tensor.cuda("0"), tensor.cpu("1")))
        capture.op("aten::add", line=s.line("return hidden"))
        capture.end(nodes=1)
    quiet(s)


def test_no_code_is_offered_with_a_name_that_nobody_gives_a_value(script, finds, unpinned):
    s = script(
        """
        import torch
        class Model:
            def forward(self, x, keep):
                rows = x[[0, keep]]
                return rows
        with torch.cuda.graph(g):
            Model().forward(x, 2)
        """
    )
    with s.trace.capture(line=s.line("with torch.cuda.graph(g)")) as capture:
        capture.op("aten::index", stack=s.at("x[[0, keep]]", "Model.forward"), raises=unpinned)
        capture.end(passing=unpinned)
    assert finds(s, "CGD102").fix is None


def test_parameter_of_the_captured_function_is_left_to_the_words(script, finds, unpinned, tensor):
    both = (tensor.cuda("0"), tensor.cpu("1"))
    s = refused(script, "x = batch.cuda()", "batch.cuda()", unpinned, operator="aten::copy_", tensors=both)
    assert finds(s, "CGD102", message="copies `batch` to the GPU").fix is None


def test_cpu_operand_is_named(script, finds, fixed, unpinned, tensor):
    three = (tensor.cuda("0"), tensor.cuda("1"), tensor.cpu("2"))
    line = "y = torch.where(mask, hidden, staging)"
    s = refused(script, line, "torch.where(mask, hidden, staging)", unpinned, operator="aten::where", tensors=three)
    finding = finds(s, "CGD102", message="operand `staging` of `torch.where(mask, hidden, staging)` is a CPU tensor")
    text = fixed(s, finding)
    assert "\nstaging_cuda = staging.cuda()\n" in text
    assert "    y = torch.where(mask, hidden, staging_cuda)\n" in text
