"""Operators whose CPU kernel is missing or narrower than CUDA's, computed with other operators.

They are compared with PyTorch's CPU results by the operator sweep (`tests/sim/operator_sweep.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

aten = torch.ops.aten
Tensor: TypeAlias = torch.Tensor
Substitute = Callable[..., object]


def _softmax(name: str) -> dict[str, Substitute]:
    """Softmax with half_to_float, which only CUDA has."""
    functional, out_variant = getattr(aten, name).default._op, getattr(aten, name).out._op

    def plain(x: Tensor, dim: int, half_to_float: bool) -> Any:
        return functional(x.float() if half_to_float else x, dim, False)

    def into(x: Tensor, dim: int, half_to_float: bool, out: Tensor) -> Any:
        return out_variant(x.float() if half_to_float else x, dim, False, out=out)

    return {f"aten::{name}": plain, f"aten::{name}.out": into}


def _gates(input_gates: Tensor, hidden_gates: Tensor, *biases: Tensor | None) -> Tensor:
    total = input_gates + hidden_gates
    for bias in biases:
        if bias is not None:
            total = total + bias
    return total


def _lstm_cell(
    input_gates: Tensor, hidden_gates: Tensor, cx: Tensor, input_bias: Any = None, hidden_bias: Any = None
) -> tuple[Tensor, Tensor, Tensor]:
    i, f, c, o = _gates(input_gates, hidden_gates, input_bias, hidden_bias).chunk(4, 1)
    i, f, c, o = i.sigmoid(), f.sigmoid(), c.tanh(), o.sigmoid()
    cy = f * cx + i * c
    return o * cy.tanh(), cy, torch.cat([i, f, c, o], 1)


def _lstm_cell_backward(
    grad_hy: Any, grad_cy: Any, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Any, Any, Any]:
    i, f, c, o = workspace.chunk(4, 1)
    tanh_cy = cy.tanh()
    grad_hy = torch.zeros_like(cx) if grad_hy is None else grad_hy
    total = grad_hy * o * (1 - tanh_cy * tanh_cy)
    if grad_cy is not None:
        total = total + grad_cy
    gates = torch.cat(
        [
            total * c * i * (1 - i),
            total * cx * f * (1 - f),
            total * i * (1 - c * c),
            grad_hy * tanh_cy * o * (1 - o),
        ],
        1,
    )
    return gates, total * f, gates.sum(0) if has_bias else None


def _gru_cell(
    input_gates: Tensor, hidden_gates: Tensor, hx: Tensor, input_bias: Any = None, hidden_bias: Any = None
) -> tuple[Tensor, Tensor]:
    if input_bias is not None:
        input_gates = input_gates + input_bias
        hidden_gates = hidden_gates + hidden_bias
    ir, ii, inew = input_gates.chunk(3, 1)
    hr, hi, hnew = hidden_gates.chunk(3, 1)
    r, i = (ir + hr).sigmoid(), (ii + hi).sigmoid()
    n = (inew + r * hnew).tanh()
    return n + i * (hx - n), torch.cat([r, i, n, hx, hnew], 1)


def _gru_cell_backward(grad_hy: Tensor, workspace: Tensor, has_bias: bool) -> tuple[Any, Any, Any, Any, Any]:
    r, i, n, hx, hnew = workspace.chunk(5, 1)
    grad_i = grad_hy * (hx - n) * i * (1 - i)
    grad_n = grad_hy * (1 - i) * (1 - n * n)
    grad_r = grad_n * hnew * r * (1 - r)
    input_gates = torch.cat([grad_r, grad_i, grad_n], 1)
    hidden_gates = torch.cat([grad_r, grad_i, grad_n * r], 1)
    biases = (input_gates.sum(0), hidden_gates.sum(0)) if has_bias else (None, None)
    return input_gates, hidden_gates, grad_hy * i, *biases


def _depthwise(
    x: Tensor, weight: Tensor, _kernel: Any, bias: Any, stride: Any, padding: Any, dilation: Any, out: Any = None
) -> Tensor:
    result: Tensor = aten.convolution.default(
        x, weight, bias, stride, padding, dilation, False, [0] * len(stride), x.shape[1]
    )
    return result if out is None else out.copy_(result)


def _rms_norm_backward(grad: Tensor, x: Tensor, shape: Any, rstd: Tensor, weight: Any, mask: Any) -> tuple[Any, Any]:
    dims = list(range(-len(shape), 0))
    normed = x * rstd
    grad_x = grad_weight = None
    if mask[0]:
        scaled = grad if weight is None else grad * weight
        grad_x = (rstd * (scaled - normed * (scaled * normed).mean(dims, keepdim=True))).to(x.dtype)
    if mask[1] and weight is not None:
        grad_weight = grad * normed
        leading = list(range(x.dim() - len(shape)))
        grad_weight = (grad_weight.sum(leading) if leading else grad_weight).to(weight.dtype)
    return grad_x, grad_weight


def _matmul_into(name: str) -> Substitute:
    """mm.dtype and its like: a product with a wider result type."""
    product = getattr(torch, name)

    def compute(*args: Any, **kwargs: Any) -> Tensor:
        *operands, dtype = args
        result: Tensor = product(*(operand.to(dtype) for operand in operands), **kwargs)
        return result

    return compute


def _histc(x: Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Tensor:
    if x.is_floating_point():
        result: Tensor = aten.histc.default(x, bins, min, max)
        return result
    return aten.histc.default(x.double(), bins, min, max).to(x.dtype)


def _no(*_args: object, **_kwargs: object) -> bool:
    return False


def _math_attention(*_args: object, **_kwargs: object) -> int:
    """SDPBackend.MATH: the only implementation that a CPU kernel can stand in for."""
    return 0


SUBSTITUTES: dict[str, Substitute] = {
    **_softmax("_softmax"),
    **_softmax("_log_softmax"),
    "aten::_thnn_fused_lstm_cell": _lstm_cell,
    "aten::_thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward,
    "aten::_thnn_fused_gru_cell": _gru_cell,
    "aten::_thnn_fused_gru_cell_backward": _gru_cell_backward,
    "aten::_conv_depthwise2d": _depthwise,
    "aten::_conv_depthwise2d.out": _depthwise,
    "aten::conv_depthwise3d": _depthwise,
    "aten::_fused_rms_norm_backward": _rms_norm_backward,
    "aten::histc": _histc,
    "aten::mm.dtype": _matmul_into("mm"),
    "aten::bmm.dtype": _matmul_into("bmm"),
    "aten::addmm.dtype": _matmul_into("addmm"),
    "aten::baddbmm.dtype": _matmul_into("baddbmm"),
}

ANSWERS: dict[str, Substitute] = {
    "aten::_fused_sdp_choice": _math_attention,
    "aten::_use_cudnn_ctc_loss": _no,
    "aten::_use_cudnn_ctc_loss.Tensor": _no,
    "aten::_use_miopen_ctc_loss": _no,
    "aten::_use_miopen_ctc_loss.Tensor": _no,
}
"""Questions about the device that need no computation."""
