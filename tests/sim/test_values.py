"""Values, dtypes and strides as on the CPU, also at the second and third call of a kind, which takes a shorter way."""

from __future__ import annotations

import pytest

BEGIN = "import torch\nimport torch.nn.functional as F\ntorch.manual_seed(1)\n"

NUMBERS = """\
for dtype in (torch.half, torch.bfloat16, torch.float, torch.double, torch.int64, torch.bool):
    for shape in ((), (3,)):
        c = torch.ones(shape, dtype=dtype)
        x = c.cuda()
        for n in (0.1, 2, True, -0.0, 0, 1e-3):
            for f in (
                lambda a: a * n, lambda a: a + n, lambda a: n - a, lambda a: a < n, lambda a: a ** n,
                lambda a: a.div(n or 3), lambda a: torch.where(a > 0, a, n),
            ):
                try:
                    want = f(c)
                except RuntimeError:
                    continue
                for _ in range(3):
                    got = f(x).cpu()
                    assert got.dtype == want.dtype and torch.equal(got, want), (dtype, shape, n, got, want)
                    assert torch.equal(got.signbit(), want.signbit())
for dtype in (torch.float32, torch.float64):
    torch.set_default_dtype(dtype)
    assert (torch.ones(2, dtype=torch.int64, device="cuda") * 0.5).dtype == dtype
torch.set_default_dtype(torch.float32)
x = torch.ones(3, dtype=torch.double, device="cuda")
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = x * 0.1
g.replay()
assert y.tolist() == [0.1] * 3
"""
LAYER_NORM = """\
for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-5), (torch.half, 1e-2), (torch.bfloat16, 1e-2)):
    for affine in (True, False):
        c = torch.randn(3, 5, 8, dtype=dtype, requires_grad=True)
        x = c.detach().cuda().requires_grad_()
        w, b = (torch.randn(2, 8, dtype=dtype)) if affine else (None, None)
        for _ in range(2):
            want = F.layer_norm(c, (8,), w, b)
            got = F.layer_norm(x, (8,), w.cuda() if affine else None, b.cuda() if affine else None)
            assert got.dtype == want.dtype and torch.allclose(got.cpu(), want, atol=tolerance)
            want.sum().backward()
            got.sum().backward()
            assert torch.allclose(x.grad.cpu(), c.grad, atol=tolerance)
x, norm = torch.randn(3, 8, device="cuda"), torch.nn.LayerNorm(8).cuda()
norm(x)
g = torch.cuda.CUDAGraph()
with torch.inference_mode(), torch.cuda.graph(g):
    y = norm(x)
x.copy_(torch.randn(3, 8))
g.replay()
assert torch.allclose(y, norm(x))
with torch.autocast("cuda", dtype=torch.half):
    assert norm(x.half()).dtype == torch.float32
assert norm(torch.empty(0, 8, device="cuda")).shape == (0, 8)
"""
STRIDES = """\
for layout in (torch.contiguous_format, torch.channels_last):
    c = torch.randn(2, 3, 4, 5).to(memory_format=layout)
    x = c.cuda()
    for f in (
        lambda a: (a + 1).relu(), lambda a: torch.cat([a, a], 1), lambda a: a.sum((1, 2), keepdim=True),
        lambda a: a.transpose(1, 2).add(a.transpose(1, 2)),
    ):
        for _ in range(3):
            want, got = f(c), f(x)
            assert got.stride() == want.stride() and torch.equal(got.cpu(), want)
"""
SOFTMAX_AND_PARAMETERS = """\
p, q = torch.nn.Parameter(torch.randn(4, 4, device="cuda")), torch.randn(4, 4, device="cuda")
for _ in range(3):
    assert torch.allclose((p @ q).cpu(), p.cpu() @ q.cpu())
    assert torch.allclose(torch.softmax(q, -1).cpu(), torch.softmax(q.cpu(), -1))
    half = q.half()
    want = torch.softmax(half.cpu(), -1, dtype=torch.float32)
    assert torch.allclose(torch.softmax(half, -1, dtype=torch.float32).cpu(), want)
with torch.inference_mode():
    a = torch.ones(4, device="cuda")
    b = a + a
a = torch.ones(4, device="cuda", requires_grad=True)
for _ in range(3):
    (a * 3 + a).sum().backward()
assert a.grad.tolist() == [12.0] * 4
"""
LOSSES = """\
c, d = torch.rand(4, 3), torch.rand(4, 3)
x, y = c.cuda(), d.cuda()
for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy, F.soft_margin_loss):
    for reduction in ("mean", "sum", "none"):
        for _ in range(3):
            assert torch.allclose(loss(x, y, reduction=reduction).cpu(), loss(c, d, reduction=reduction))
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            out = loss(x, y, reduction=reduction)
        g.replay()
        assert torch.allclose(out.cpu(), loss(c, d, reduction=reduction)), (loss, reduction)
"""
SCRIPTS = {
    "numbers": NUMBERS,
    "layer norm": LAYER_NORM,
    "strides": STRIDES,
    "softmax and parameters": SOFTMAX_AND_PARAMETERS,
    "losses": LOSSES,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_values_are_the_cpus(name, on_device):
    status, _, err, _ = on_device(BEGIN + SCRIPTS[name])
    assert (status, err) == (0, "")
