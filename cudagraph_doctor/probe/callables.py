"""Which C functions may touch CUDA, and what they are called. Runs no code of the target: types decide."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_KINDS = frozenset({
    "builtin_function_or_method", "method_descriptor", "wrapper_descriptor", "method-wrapper", "classmethod_descriptor",
    "cython_function_or_method", "fused_cython_function", "instancemethod", "nb_func", "nb_method", "nb_bound_method",
})  # fmt: skip
"""Types whose call is one C function.

Classes, partials and objects with `__call__` run more than that: what happens in them is seen at the C functions that
they call.
"""

_FREE = ("NoneType", "module", "PyCapsule", "pybind11")
"""What `__self__` of a function is that is bound to no object of the target."""
_HARMLESS = frozenset(sys.stdlib_module_names) - {"ctypes", "_ctypes"}
_CTYPES = "_ctypes"

# Queries that a module is full of and that only read what torch has in memory.
_READS = frozenset({
    "size", "dim", "stride", "numel", "is_contiguous", "element_size", "data_ptr", "storage_offset", "is_complex",
    "is_floating_point", "untyped_storage", "_cuda_getCurrentRawStream", "_cuda_getCurrentStream", "_cuda_getDevice",
    "_get_tracing_state", "_is_tracing", "is_grad_enabled", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "is_autocast_enabled", "_has_torch_function", "is_inference_mode_enabled",
})  # fmt: skip


INERT = frozenset({isinstance, issubclass, type, id, len, getattr, hasattr, setattr, callable, hash, iter, vars, super})
"""Functions of Python that do nothing to a tensor; `float(x)`, `list(x)`, `math.sqrt(x)` read it."""


class Watched:
    """Tells calls that are worth a look at the capture's status from those that are not."""

    __slots__ = ("_types", "functions", "plain")

    def __init__(self) -> None:
        self.functions: dict[Any, bool] = {}
        """Answers for functions that live as long as their module."""
        self.plain = _PLAIN
        """Types of the keys of `functions`: hashing one of these runs no code of the target."""
        self._types: dict[type, int] = {}

    def is_c_function(self, function: Any) -> bool:
        """Whether this is a C function, or one of Python's own classes: reading its name runs no code of the target."""
        kind = type(function)
        return kind is type or bool(self._types.get(kind) or _sort(kind))

    def __call__(self, function: Any) -> bool:
        """Whether a call of this object may have touched CUDA."""
        kind = type(function)
        sort = self._types.get(kind)
        if sort is None:
            sort = self._types[kind] = _sort(kind)
        if sort == 0:
            return False
        if sort == 2:
            return True
        if kind not in self.plain:
            return not _harmless(function)
        known = self.functions.get(function)
        if known is None:
            known = not _harmless(function)
            if type(getattr(function, "__self__", None)).__name__.startswith(_FREE):  # keeps no object alive
                self.functions[function] = known
        return known


def is_inert(function: Any) -> bool:
    """Whether a call only reads what Python or torch has in memory, whatever its arguments are."""
    kind = type(function)
    if kind is type:
        return function in INERT
    return kind in _PLAIN and (function in INERT or function.__name__ in _READS)


_PLAIN = frozenset({type(len), type(list.append)})


def _sort(kind: type) -> int:
    """0: no single C function. 1: ask the function. 2: a function reached through ctypes."""
    if any(base.__name__ == "CFuncPtr" and base.__module__ == _CTYPES for base in kind.__mro__):
        return 2
    return 1 if kind.__name__ in _KINDS and kind.__module__ != "__main__" else 0


def _harmless(function: Any) -> bool:
    if getattr(function, "__name__", "") in _READS:
        return True
    module = _module_of(function)
    return module.partition(".")[0] in _HARMLESS


def _module_of(function: Any) -> str:
    """Module that a C function belongs to, "" if it cannot be told."""
    owner = getattr(function, "__objclass__", None)
    found = getattr(function, "__module__", None) if owner is None else owner.__module__
    if type(found) is str:
        return found
    bound = getattr(function, "__self__", None)
    found = (bound if isinstance(bound, type) else type(bound)).__module__
    return found if type(found) is str else ""


def name_of(function: Any) -> str:
    """Qualified name of a C function: `torch._C._cuda_synchronize`, `torch._C.TensorBase.item`."""
    own = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    name = own if type(own) is str else type(function).__name__
    module = _module_of(function)
    name = name.removeprefix("_VariableFunctionsClass.")  # where torch keeps `torch.masked_select`
    return f"{module}.{name}" if module and not name.startswith(module + ".") else name
