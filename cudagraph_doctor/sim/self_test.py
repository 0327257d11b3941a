"""Proof at start-up that the mechanism works on this build of torch.

The simulated device leans on the layout of C++ objects. A build in which one of them is different must be refused
with a line that says so, not fail later in the target's code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cudagraph_doctor.sim.unavailable import WORKS_WITH, SimUnavailable

if TYPE_CHECKING:
    from cudagraph_doctor.sim.device import SimDevice

OLDEST = (2, 11)


def check_version(version: str) -> None:
    """Raise SimUnavailable for a torch that is too old."""
    major, minor = (int("".join(filter(str.isdigit, part)) or 0) for part in version.split(".")[:2])
    if (major, minor) < OLDEST:
        raise SimUnavailable(f"torch {version} is too old for the simulated device, which works with {WORKS_WITH}")


def prove(device: SimDevice) -> None:
    """Raise SimUnavailable unless tensors, kernels, memory, a capture and a replay behave."""
    import torch

    for what, check in _CHECKS.items():
        try:
            passed = check(device)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        else:
            if passed:
                continue
            reason = "wrong result"
        raise SimUnavailable(
            f"the simulated device does not fit torch {torch.__version__}: {what} failed ({reason[:160]}); "
            f"it works with {WORKS_WITH}"
        )
    device.simulation.factory.collect()


def _tensor(device: SimDevice) -> bool:
    import torch

    tensor = torch.empty(3, 2, device="cuda:0")
    inside = device.simulation.arena.holds(tensor.data_ptr())
    return type(tensor) is torch.Tensor and tensor.is_cuda and inside and tensor.stride() == (2, 1)


def _kernel(_device: SimDevice) -> bool:
    import torch

    x = torch.tensor([1.0, -2.0, 3.0], device="cuda:0")
    return (x.relu() * 2 + 1).tolist() == [3.0, 1.0, 7.0]


def _view(_device: SimDevice) -> bool:
    import torch

    x = torch.zeros(2, 3, device="cuda:0")
    x.t()[1].fill_(4.0)
    return x.cpu().tolist() == [[0.0, 4.0, 0.0]] * 2


def _reuse(_device: SimDevice) -> bool:
    import torch

    first = torch.empty(1000, device="cuda:0")
    address = first.data_ptr()
    del first
    return torch.empty(1000, device="cuda:0").data_ptr() == address


def _pinned(_device: SimDevice) -> bool:
    import torch

    pinned = torch.ones(4).pin_memory()
    return pinned.is_pinned() and not torch.ones(4).is_pinned() and pinned.tolist() == [1.0] * 4


def _attention(_device: SimDevice) -> bool:
    import torch

    x = torch.ones(1, 1, 2, 4, device="cuda:0")
    return torch.nn.functional.scaled_dot_product_attention(x, x, x).cpu().sum().item() == 8.0


def _accelerator(_device: SimDevice) -> bool:
    """What the autograd engine asks before it runs a CUDA node.

    Running one would start its threads, and a target that forks could not run it in the child any more.
    """
    import torch

    accelerator = torch.accelerator.current_accelerator()
    return accelerator is not None and accelerator.type == "cuda"


def _capture_and_replay(device: SimDevice) -> bool:
    import torch

    x, y = torch.ones(4, device="cuda:0"), torch.zeros(4, device="cuda:0")
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        graph.capture_begin()
        y.add_(x * 2)
        status, nodes = device.status(stream.cuda_stream), device.capture_info(stream.cuda_stream)[2]
        graph.capture_end()
    untouched = y.tolist() == [0.0] * 4
    graph.replay()
    return (status, nodes, untouched, y.tolist()) == (1, 2, True, [2.0] * 4)


_CHECKS: dict[str, Callable[[SimDevice], bool]] = {
    "making a tensor": _tensor,
    "a kernel": _kernel,
    "a view": _view,
    "reuse of freed memory": _reuse,
    "pinned memory": _pinned,
    "attention": _attention,
    "the accelerator of the autograd engine": _accelerator,
    "a capture and its replay": _capture_and_replay,
}
