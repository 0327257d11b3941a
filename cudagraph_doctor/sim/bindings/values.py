"""Arguments and results of cuda-bindings' functions."""

from __future__ import annotations

from typing import Any

from cudagraph_doctor.sim.simulation import Simulation
from cudagraph_doctor.sim.streams import SimStream


class Typed:
    """A result that is given out as a type of the module that was asked: `cudaStream_t` or `CUstream`.

    `value` None makes an empty structure of that type.
    """

    __slots__ = ("driver", "runtime", "value")

    def __init__(self, runtime: str, driver: str, value: int | None) -> None:
        self.runtime, self.driver, self.value = runtime, driver, value


def number(value: Any) -> int:
    """The integer of a handle, pointer, enum or number; 0 for None."""
    if value is None:
        return 0
    return value if isinstance(value, int) else int(value)


def stream_of(sim: Simulation, value: Any) -> SimStream | None:
    """The stream that an argument names."""
    return sim.driver.stream_of(number(value), sim.streams().device)
