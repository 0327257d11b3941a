"""Reads arguments and results of cuda-bindings: the one place that knows how releases 12 and 13 differ.

Both return a tuple whose first element is the code; handles are objects whose `int()` is the raw handle, or plain ints.
In 12 the modules were `cuda.cuda` and `cuda.cudart` first; `cuGraphExecUpdate` gives its result in a struct in both.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MODULES = ("cuda.bindings.runtime", "cuda.bindings.driver", "cuda.cudart", "cuda.cuda")
"""Modules to patch. `cuda.cudart` and `cuda.cuda` are of releases before 13; there they hold the same functions."""
_OURS = ("cuda.", "torch.", "torch")


def handle_of(value: Any) -> int | None:
    """The raw handle in an argument, None where it cannot be told without running code of the target."""
    kind = type(value)
    if kind is int:
        return int(value)
    if value is None:
        return 0
    if kind.__module__.startswith(_OURS):
        try:
            return int(value)
        except (TypeError, ValueError):
            protocol = getattr(value, "__cuda_stream__", None)
            return int(protocol()[1]) if protocol is not None else None
    if isinstance(value, int):
        return int(value)
    inner = getattr(value, "value", None)  # ctypes
    return inner if type(inner) is int else None


def argument(args: tuple[Any, ...], kwargs: dict[str, Any], position: int, *names: str) -> Any:
    """An argument by position, else by one of its names; None where it was not given."""
    if position < len(args):
        return args[position]
    return next((kwargs[name] for name in names if name in kwargs), None)


def code_of(result: Any) -> int | None:
    """The error code of a call's result."""
    first = result[0] if type(result) is tuple and result else result
    return int(first) if isinstance(first, int) else None


def created(result: Any) -> int:
    """The handle that a call returned, 0 if none."""
    if type(result) is not tuple or len(result) < 2:
        return 0
    return handle_of(result[1]) or 0


def update_result(result: Any) -> str:
    """`topology_changed` ... of cuGraphExecUpdate."""
    info = result[1] if type(result) is tuple and len(result) > 1 else None
    value = getattr(info, "result", info)
    name = getattr(value, "name", "")
    return str(name).removeprefix("CU_GRAPH_EXEC_UPDATE_").removeprefix("cudaGraphExecUpdate").strip("_").lower()


def kernel_pointers(parameters: Any) -> list[str]:
    """Words among a launch's `((values), (types))` that may be addresses."""
    values = parameters[0] if type(parameters) is tuple and len(parameters) == 2 else ()
    if type(values) not in {tuple, list}:
        return []
    words = (handle_of(value) for value in values)
    return [hex(word) for word in words if word is not None and word >= 1 << 16]


def mode_of(value: Any) -> int:
    """Number of a capture mode."""
    return int(value) if isinstance(value, int) else 0


def version_of(module: Any) -> str:
    """Release of cuda-bindings."""
    from sys import modules

    package = modules.get("cuda.bindings")
    return str(getattr(package, "__version__", "") or getattr(module, "__version__", ""))
