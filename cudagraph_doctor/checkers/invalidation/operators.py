"""What torch's operators do behind the scenes, where that decides who is to blame."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Activity
    from cudagraph_doctor.trace import events


class Direction(enum.Enum):
    """Which way a copy goes."""

    TO_HOST = "d2h"
    TO_DEVICE = "h2d"
    PEER = "d2d"
    """From one device to another."""
    NONE = ""
    """Not a copy between two places, or not known."""


_COPIES = frozenset({"copy_", "_to_copy", "to", "_copy_from", "_copy_from_and_resize", "copy"})
_INDEXES = frozenset(
    {"index", "index_put_", "index_put", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put", "where", "take"}
)

# Operators whose result has a size that only the device knows: the count is copied to the host.
DATA_DEPENDENT = frozenset(
    {"nonzero", "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive", "bincount"}
)

# Operators served by a library with handles and workspaces of its own.
_LIBRARY = re.compile(
    r"(?:^|_)(?:mm|bmm|mv|dot|vdot|matmul|linear|addmm|addmv|addbmm|baddbmm|einsum|conv\w*|cudnn\w*|miopen\w*|rnn\w*"
    r"|lstm\w*|gru\w*|linalg\w*|cholesky\w*|svd|qr|geqrf|ormqr|solve\w*|inverse|lu\w*|fft\w*|scaled_\w+|int_mm|sparse\w*"
    r"|spmm|allreduce\w*|all_?gather\w*|reduce_scatter\w*|broadcast\w*|send|recv)_?$"
)
_CONVOLUTION = re.compile(r"conv|cudnn")
_SOLVER = re.compile(r"linalg|cholesky|svd|qr|solve|inverse|lu_|geqrf|ormqr")


def short(name: str) -> str:
    """`copy_` of `aten::copy_`."""
    return name.rpartition("::")[2]


def is_copy(name: str) -> bool:
    """An operator that exists to copy."""
    return short(name) in _COPIES


def is_index(name: str) -> bool:
    """An operator that takes indices, masks or other tensors as selectors."""
    return short(name) in _INDEXES


def is_library(name: str) -> bool:
    """Served by cuBLAS, cuDNN, cuSOLVER, cuFFT, cuSPARSE or NCCL."""
    return name.startswith("c10d") or _LIBRARY.search(short(name)) is not None


def is_convolution(name: str) -> bool:
    """Served by cuDNN."""
    return _CONVOLUTION.search(short(name)) is not None


def is_solver(name: str) -> bool:
    """Served by cuSOLVER or MAGMA, which report trouble through an info code."""
    return _SOLVER.search(short(name)) is not None


def library_of(name: str) -> str:
    """The library that serves an operator, in words."""
    if name.startswith("c10d") or re.search(r"allreduce|gather|scatter|broadcast", name):
        return "NCCL"
    if is_convolution(name) or re.search(r"rnn|lstm|gru", name):
        return "cuDNN"
    if is_solver(name):
        return "cuSOLVER"
    if "fft" in name:
        return "cuFFT"
    return "cuBLAS"


def direction(op: Activity) -> Direction:
    """Which way an operator that copies copies, from the devices of what it was given."""
    tensors = inputs(op)
    if is_copy(op.name):
        return _copy_direction(op, tensors)
    devices = {tensor.dev.partition(":")[0] for tensor in tensors}
    if is_index(op.name) and devices == {"cpu", "cuda"}:
        return Direction.TO_DEVICE
    return Direction.NONE


def _copy_direction(op: Activity, tensors: tuple[events.Tensor, ...]) -> Direction:
    by_place = {tensor.at: tensor.dev for tensor in tensors}
    if short(op.name) in {"copy_", "copy"}:
        target, source = by_place.get("0", ""), by_place.get("1", by_place.get("src", ""))
    else:
        source = by_place.get("0", by_place.get("self", ""))
        values = dict(getattr(op.record, "values", ()))
        target = values.get("device", "") or next((v for v in values.values() if re.match(r"(?:cpu|cuda)\b", v)), "")
        results = op.outcome.tensors if op.outcome is not None else ()
        target = target or (results[0].dev if results else "")
    if not source or not target:
        return Direction.NONE
    ends = source.partition(":")[0], target.partition(":")[0]
    if ends == ("cuda", "cpu"):
        return Direction.TO_HOST
    if ends == ("cpu", "cuda"):
        return Direction.TO_DEVICE
    return (
        Direction.PEER if source != target and ends == ("cuda", "cuda") and ":" in source + target else Direction.NONE
    )


def inputs(op: Activity) -> tuple[events.Tensor, ...]:
    """The tensor arguments of an operator."""
    return tuple(t for t in getattr(op.record, "tensors", ()) if not t.at.startswith("r"))


def host_side(op: Activity) -> events.Tensor | None:
    """The argument that lies in host memory."""
    return next((t for t in inputs(op) if t.dev.startswith("cpu")), None)


def has_mask(op: Activity) -> bool:
    """One of its selectors is a boolean mask, whose number of hits only the device knows."""
    return any(t.dtype.endswith("bool") or t.dtype.endswith("uint8") for t in inputs(op)[1:])
