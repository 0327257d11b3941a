"""Replaces the functions of `cuda.bindings.runtime` and `cuda.bindings.driver`.

Types and enums of these modules stay; they need no driver. A function that is not simulated says so in the trace and
returns "not supported" (801).
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cudagraph_doctor.sim import cuda_error as cuda
from cudagraph_doctor.sim.bindings import device_calls, graph_calls, memory_calls, module_calls, stream_calls
from cudagraph_doctor.sim.bindings.values import Typed

if TYPE_CHECKING:
    from cudagraph_doctor.sim.after_import import AfterImport
    from cudagraph_doctor.sim.simulation import Simulation

Result = tuple[Any, ...]
"""(code, values...): one call's answer with plain integers and objects."""
Call = Callable[..., Result]

NAMES = ("cuda.bindings.runtime", "cuda.bindings.driver")
NOT_SUPPORTED = 801
# These ask nothing of a device.
_LEFT_ALONE = ("cudaGetErrorName", "cudaGetErrorString", "cuGetErrorName", "cuGetErrorString")


class BindingsSurface:
    """The simulated functions, for both modules."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._calls: dict[str, Call] = {}
        self._replaced: set[str] = set()
        for part in (memory_calls, stream_calls, graph_calls, device_calls, module_calls):
            self._calls |= part.calls(sim)

    def replace_in(self, module: ModuleType) -> None:
        """Put the simulated functions into one of the two modules, once."""
        if module.__name__ in self._replaced or module.__name__ not in NAMES:
            return
        self._replaced.add(module.__name__)
        runtime = module.__name__.endswith("runtime")
        prefix = "cuda" if runtime else "cu"
        codes: Any = module.cudaError_t if runtime else module.CUresult
        for name in dir(module):
            value = getattr(module, name)
            mine = name.startswith(prefix) and name[len(prefix) : len(prefix) + 1].isupper()
            if not mine or isinstance(value, type) or not callable(value) or name in _LEFT_ALONE:
                continue
            call = self._calls.get(name) or self._refusal(name)
            setattr(module, name, _typed(name, call, codes, module))

    def _refusal(self, name: str) -> Call:
        def refuse(*_args: object, **_kwargs: object) -> Result:
            self._sim.not_simulated(name, "the simulated device does not know this call")
            return (NOT_SUPPORTED,)

        return refuse


def _typed(name: str, call: Call, codes: Any, module: ModuleType) -> Callable[..., Result]:
    """`call` with cuda-bindings' conventions: an enum for the code, its own types for handles, None after an error."""

    def simulated(*args: Any, **kwargs: Any) -> Result:
        code, *values = call(*args, **kwargs)
        if code != cuda.SUCCESS:
            return (codes(code), *(None for _ in values))
        return (codes(0), *(_value(module, value) for value in values))

    simulated.__name__ = simulated.__qualname__ = name
    return simulated


def _value(module: ModuleType, value: Any) -> Any:
    if isinstance(value, list):
        return [_value(module, part) for part in value]
    if not isinstance(value, Typed):
        return value
    name = value.runtime if module.__name__.endswith("runtime") else value.driver
    if not name:
        return value.value
    kind = getattr(module, name)
    if value.value is None:
        return kind()
    return kind(value.value) if hasattr(kind, "__members__") else kind(init_value=value.value)


def put_under_bindings(sim: Simulation, imports: AfterImport) -> BindingsSurface:
    """Simulate cuda-bindings, now if it is imported already, else when it is."""
    surface = BindingsSurface(sim)
    for name in NAMES:
        imports.change(name, surface.replace_in)
    return surface
