"""Modules, functions and kernel launches of the driver API.

Modules are loaded and unloaded by the rules of capture, and functions have limits; the code itself does not run. A
launch that a GPU would refuse is refused; any other is recorded as a node that does nothing, and reported as a limit of
the simulated device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cudagraph_doctor.sim import cuda_error as cuda
from cudagraph_doctor.sim.bindings.values import Typed, number, stream_of
from cudagraph_doctor.sim.capture import Node, NodeKind
from cudagraph_doctor.sim.foreign_code import NO_EFFECT
from cudagraph_doctor.sim.simulation import Simulation

Answer = tuple[Any, ...]
MAX_THREADS = 1024
MAX_GRID = (2147483647, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
DEFAULT_SHARED_MEMORY = 48 << 10
OPT_IN_SHARED_MEMORY = 227 << 10
_MAX_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""


@dataclass(eq=False, slots=True)
class _Function:
    name: str
    context: int
    dynamic_shared: int = DEFAULT_SHARED_MEMORY
    attributes: dict[int, int] = field(default_factory=dict)


def calls(sim: Simulation) -> dict[str, Callable[..., Answer]]:
    """The calls of this file, by name."""
    driver = sim.driver
    modules: dict[int, int] = {}
    functions: dict[int, _Function] = {}

    def load(api: str, rule: str, handle_type: str, *_image: Any) -> Answer:
        context = sim.contexts.current()
        if not context:
            driver.record(api, cuda.INVALID_CONTEXT, None, None, 0)
            return cuda.INVALID_CONTEXT, None
        code = driver.call(api, rule)
        if code != cuda.SUCCESS:
            return code, None
        handle = driver.new_handle()
        modules[handle] = context
        return code, Typed("", handle_type, handle)

    def unload(api: str, module: Any) -> Answer:
        code = driver.call(api, "cuModuleUnload")
        if code == cuda.SUCCESS:
            modules.pop(number(module), None)
        return (code,)

    def get_function(module: Any, name: Any) -> Answer:
        if number(module) not in modules:
            return cuda.INVALID_HANDLE, None
        handle = driver.new_handle()
        text = name.decode() if isinstance(name, bytes) else str(name)
        functions[handle] = _Function(text, modules[number(module)])
        return cuda.SUCCESS, Typed("", "CUfunction", handle)

    def get_attribute(attribute: Any, function: Any) -> Answer:
        found = functions.get(number(function))
        if found is None:
            return cuda.INVALID_HANDLE, None
        if number(attribute) == _MAX_DYNAMIC_SHARED:
            return cuda.SUCCESS, found.dynamic_shared
        return cuda.SUCCESS, found.attributes.get(number(attribute), 0)

    def set_attribute(function: Any, attribute: Any, value: Any) -> Answer:
        found = functions.get(number(function))
        if found is None:
            return (cuda.INVALID_HANDLE,)
        if number(attribute) == _MAX_DYNAMIC_SHARED:
            if number(value) > OPT_IN_SHARED_MEMORY:
                return (cuda.INVALID_VALUE,)
            found.dynamic_shared = number(value)
        else:
            found.attributes[number(attribute)] = number(value)
        return (cuda.SUCCESS,)

    def launch(
        function: Any, gx: Any, gy: Any, gz: Any, bx: Any, by: Any, bz: Any, shared: Any, stream: Any, *_args: Any
    ) -> Answer:
        api = "cuLaunchKernel"
        found, target = functions.get(number(function)), stream_of(sim, stream)
        if found is None or target is None:
            return (cuda.INVALID_HANDLE,)
        grid, block = (number(gx), number(gy), number(gz)), (number(bx), number(by), number(bz))
        facts: dict[str, Any] = {"kernel": found.name, "grid": grid, "block": block, "smem": number(shared)}
        if found.context != sim.contexts.current():
            captures = [] if target.capture is None else [target.capture]
            driver.refuse(api, cuda.INVALID_HANDLE, captures, target, keeps=True, **facts)
            return (cuda.INVALID_HANDLE,)
        threads = block[0] * block[1] * block[2]
        too_large = any(size > limit for size, limit in zip((*grid, *block), (*MAX_GRID, *MAX_BLOCK), strict=True))
        if too_large or not 0 < threads <= MAX_THREADS or number(shared) > found.dynamic_shared:
            captures = [] if target.capture is None else [target.capture]
            if not captures:
                return (cuda.INVALID_VALUE,)
            return (driver.refuse(api, cuda.INVALID_VALUE, captures, target, **facts),)
        node = Node(NodeKind.KERNEL, found.name, lambda: None)
        code = driver.submit(api, target, node=node.handle, **facts)
        if code == cuda.SUCCESS:
            sim.has_no_effect(f"kernel {found.name}", NO_EFFECT, fatal=target.capture is not None)
            if target.capture is not None:
                driver.add_node(target, node)
        return (code,)

    return {
        "cuModuleLoadData": lambda *image: load("cuModuleLoadData", "cuModuleLoadData", "CUmodule", *image),
        "cuModuleLoadDataEx": lambda *image: load("cuModuleLoadDataEx", "cuModuleLoadData", "CUmodule", *image),
        "cuModuleLoad": lambda *image: load("cuModuleLoad", "cuModuleLoadData", "CUmodule", *image),
        "cuLibraryLoadData": lambda *image: load("cuLibraryLoadData", "cuLibraryLoadData", "CUlibrary", *image),
        "cuModuleUnload": lambda module: unload("cuModuleUnload", module),
        "cuLibraryUnload": lambda library: unload("cuLibraryUnload", library),
        "cuModuleGetFunction": get_function,
        "cuFuncGetAttribute": get_attribute,
        "cuFuncSetAttribute": set_attribute,
        "cuLaunchKernel": launch,
    }
