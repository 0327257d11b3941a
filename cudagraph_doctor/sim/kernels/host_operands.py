"""Host memory and host waits in operators.

Which CPU operands a CUDA operator takes, copies or refuses, and which operators make the host wait because the shape
of their result is data. From the CUDA kernels of PyTorch 2.11 to 2.14; the breaks of the conformance scripts were
confirmed on an H200.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cudagraph_doctor.sim.operator_plan import OperatorPlan
from cudagraph_doctor.sim.simulation import Simulation
from cudagraph_doctor.sim.streams import SimStream

UNPINNED_COPY = (
    "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. Please use "
    "tensor.pin_memory() or allocate the tensor with pin_memory=True."
)

WAITS = frozenset({
    "nonzero", "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive",
    "bincount", "equal", "embedding_renorm_", "_linalg_eigvals", "linalg_eig", "_ctc_loss", "linalg_lstsq",
    "_linalg_svd",
})  # fmt: skip
"""The host reads a size or a status back."""
INDEXING = frozenset({"index", "index_put_", "_index_put_impl_", "index_put", "_unsafe_index", "_unsafe_index_put"})
"""Index tensors on the CPU are moved to the device; masks are turned into indices, which takes a host read."""
MOVES_SCALARS = frozenset({"where", "index_fill_", *INDEXING})
"""A CPU scalar is copied to the device instead of becoming a kernel argument."""
CPU_ARGUMENTS = {
    "_pack_padded_sequence": ("lengths",),
    "tensor_split": ("tensor_indices_or_sections",),
    "_ctc_loss": ("input_lengths", "target_lengths"),
    "_ctc_loss_backward": ("input_lengths", "target_lengths"),
    "_embedding_bag_per_sample_weights_backward": (),
}
"""Arguments that CUDA itself takes on the CPU."""

Wait = Callable[[SimStream, tuple[Any, ...], dict[str, Any]], None]


class HostOperands:
    """Decides about CPU tensors among the operands of a CUDA operator."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._arena = sim.arena
        self._views = sim.arena.typed
        self._base = sim.arena.base

    # ── views ───────────────────────────────────────────────────────────────────────────────────
    def view(self, plan: OperatorPlan, device: int, tensor: torch.Tensor) -> torch.Tensor:
        """What the CPU kernel gets for the operand `tensor`.

        Raises RuntimeError for a tensor of another device, as PyTorch does.
        """
        if not tensor.is_cuda:
            return self._cpu_operand(plan, device, tensor)
        if tensor.get_device() != device:
            raise RuntimeError(_two_devices(plan, f"cuda:{device}", f"cuda:{tensor.get_device()}"))
        typed = self._views.get(tensor.dtype)
        size = tensor.shape
        if typed is None or 0 in size:
            view = self._arena.host_view(tensor)
        else:
            offset = (tensor.data_ptr() - self._base) // tensor.itemsize
            view = typed.as_strided(size, tensor.stride(), offset)
        if tensor.is_conj():
            view = torch._conj(view)
        if tensor.is_neg():
            view = torch._neg_view(view)
        return view

    def _cpu_operand(self, plan: OperatorPlan, device: int, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() and tensor.numel() and plan.name not in INDEXING and plan.name not in CPU_ARGUMENTS:
            raise RuntimeError(_two_devices(plan, f"cuda:{device}", str(tensor.device)))
        return tensor

    # ── waits ───────────────────────────────────────────────────────────────────────────────────
    def wait_of(self, plan: OperatorPlan) -> Wait | None:
        """What the host does before the kernel of this operator can run; None for nothing."""
        name = plan.name
        if name in WAITS:
            return self._read_back
        if name == "repeat_interleave" and plan.op._overloadname == "Tensor":
            return self._repeat_interleave
        if name in INDEXING:
            return self._index
        if name in MOVES_SCALARS:
            return self._move_scalars
        return None

    def read_back(self, stream: SimStream) -> None:
        """The host waits for the stream, to read a result. Raises 900 while the stream captures."""
        self._sim.check(self._sim.driver.stream_synchronize(stream))

    def _read_back(self, stream: SimStream, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        self.read_back(stream)

    def _repeat_interleave(self, stream: SimStream, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if len(args) < 2 and kwargs.get("output_size") is None:
            self.read_back(stream)

    def _index(self, stream: SimStream, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        indices = [index for index in args[1] if isinstance(index, torch.Tensor)]
        values = args[2] if len(args) > 2 else kwargs.get("values")
        masks = [index for index in indices if index.dtype in (torch.bool, torch.uint8)]
        # A mask on the CPU becomes indices there, which go to the device through pinned memory (IndexingUtils.h).
        indices = [index for index in indices if index.is_cuda or index not in masks]
        if any(mask.is_cuda for mask in masks):
            # A mask with one CPU scalar is masked_fill (canDispatchToMaskedFill): no indices are needed.
            accumulate = args[3] if len(args) > 3 else kwargs.get("accumulate", False)
            scalar = isinstance(values, torch.Tensor) and not values.is_cuda and values.numel() == 1
            if scalar and len(indices) == 1 and not accumulate:
                return
            self.read_back(stream)
        for operand in (*indices, values):
            self._move(stream, operand)

    def _move_scalars(self, stream: SimStream, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for operand in (*args, *kwargs.values()):
            self._move(stream, operand)

    def _move(self, stream: SimStream, operand: object) -> None:
        if not isinstance(operand, torch.Tensor) or operand.is_cuda or stream.capture is None:
            return
        if not operand.is_pinned():
            self._sim.refuse_in_python(RuntimeError(UNPINNED_COPY))
        else:
            self.read_back(stream)


def _two_devices(plan: OperatorPlan, first: str, second: str) -> str:
    return (
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}! "
        f"(when checking argument in method wrapper_CUDA_{plan.name})"
    )
