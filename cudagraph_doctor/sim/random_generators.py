"""`torch.Generator(device="cuda")` and the default generator of each device.

A generator of the simulated device draws with the CPU's algorithm; it is a torch.Generator that says it is on cuda:N.
What PyTorch refuses during a capture is refused here in the same words (ATen/cuda/CUDAGeneratorImpl.cpp).
"""

from __future__ import annotations

from typing import Any

import torch

from cudagraph_doctor.sim.simulation import Simulation
from cudagraph_doctor.sim.tracebacks import unseen_methods

_NOT_CAPTURABLE = (
    " during CUDA graph capture. If you need this call to be captured, please file an issue. "
    "Current cudaStreamCaptureStatus: cudaStreamCaptureStatusActive"
)
_SAME_SEED = (
    "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same as the "
    "original seed."
)


def make_generator_class(sim: Simulation) -> type:
    """The class that stands for torch.Generator while the simulated device is installed."""
    real = torch._C.Generator

    class _Meta(type(real)):  # type: ignore[misc]
        def __instancecheck__(cls, other: object) -> bool:
            return type.__instancecheck__(real, other)

    class Generator(real, metaclass=_Meta):  # type: ignore[misc, valid-type]
        """A generator: the CPU's own for the CPU, a twin of it for a simulated device."""

        _index: int
        _seed: int

        def __new__(cls, device: Any = "cpu") -> Any:
            wanted = torch.device(device)
            if wanted.type != "cuda":
                return real(wanted)
            generator = real.__new__(cls, "cpu")
            generator._index = sim.device_index(wanted)
            generator._seed = 67280421310721  # c10::detail::default_rng_seed_val
            real.manual_seed(generator, generator._seed)
            return generator

        def __init__(self, device: Any = "cpu") -> None:
            pass

        @property
        def device(self) -> torch.device:
            return torch.device("cuda", self._index)

        def _capturing(self) -> bool:
            return sim.stream_on(self._index).capture is not None

        def manual_seed(self, seed: int) -> Any:
            if self._capturing():
                if int(seed) != self._seed:
                    sim.refuse_in_python(RuntimeError(_SAME_SEED))
                return self
            self._seed = int(seed)
            real.manual_seed(self, seed)
            return self

        def initial_seed(self) -> int:
            return self._seed

        def seed(self) -> int:
            if self._capturing():
                sim.refuse_in_python(RuntimeError("Cannot call CUDAGeneratorImpl::seed" + _NOT_CAPTURABLE))
            self._seed = real.seed(self)
            return self._seed

        def clone_state(self) -> Any:
            twin = Generator(self.device)
            twin.set_state(self.get_state())
            twin._seed = self._seed
            return twin

        graphsafe_get_state = clone_state

        def graphsafe_set_state(self, other: Any) -> Any:
            self._seed = other._seed
            real.set_state(self, other.get_state())
            return self

        def __reduce__(self) -> Any:
            return _rebuild, (str(self.device), self._seed, self.get_state())

    Generator.__module__, Generator.__qualname__ = "torch", "Generator"
    return unseen_methods(Generator)


def _rebuild(device: str, seed: int, state: torch.Tensor) -> Any:
    generator: Any = torch.Generator(device)
    generator._seed = seed
    generator.set_state(state)
    return generator
