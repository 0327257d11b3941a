"""What a slot held at one moment, remembered without keeping it alive."""

from __future__ import annotations

import sys
import weakref
from enum import Enum, IntEnum

from cudagraph_doctor.probe.liveness.host_memory import version_of
from cudagraph_doctor.probe.region.lookup import CONTAINERS, MISSING, is_module, is_tensor
from cudagraph_doctor.probe.storage_address import storage_address
from cudagraph_doctor.probe.tensor_reference import refer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST = 200
"""Characters of a value's text."""
_LARGEST_TUPLE = 16
_NUMBERS = frozenset({int, float, bool, complex, str, type(None)})
_TORCH_VALUES = ("dtype", "device", "memory_format", "layout")


class Sort(IntEnum):
    """What kind of value it is."""

    PLAIN = 0
    """A number, text or other value that never changes itself."""
    TENSOR = 1
    CONTAINER = 2
    MODULE = 3
    MISSING = 4
    OTHER = 5


class Held:
    """What was in a slot."""

    __slots__ = (
        "__weakref__", "content", "dtype", "host", "identity", "impl", "length", "plain", "ptr", "ref", "shape",
        "sort", "type", "version",
    )  # fmt: skip

    def __init__(self, sort: Sort, kind: str) -> None:
        self.sort = sort
        self.type = kind
        """Qualified name of its type."""
        self.plain: Any = None
        """The value itself, if it is plain."""
        self.identity = 0
        self.ref: weakref.ref[Any] | None = None
        self.length = 0
        """Of a container."""
        self.ptr = 0
        self.shape: tuple[int, ...] = ()
        self.dtype = ""
        self.version: int | None = None
        self.impl = 0
        """Address of a tensor's StorageImpl."""
        self.host = False
        self.content = ""
        """Of a tensor of one element in host memory."""

    def object(self) -> Any:
        """The very object, if it is still alive."""
        return self.ref() if self.ref is not None else None

    def let_go(self, _reference: Any) -> None:
        """Drop the reference to the object."""
        self.ref = None

    @property
    def text(self) -> str:
        """The value as a record shows it."""
        if self.sort is Sort.PLAIN:
            return plain_text(self.plain)
        if self.sort is Sort.CONTAINER:
            return f"len {self.length}"
        return self.content

    def same(self, other: Held) -> bool:
        """Whether it is the same to a program that does not look into objects."""
        if self.sort is not other.sort:
            return False
        if self.sort is Sort.PLAIN:
            one, two = self.plain, other.plain
            return one is two or (type(one) is type(two) and (one == two or (one != one and two != two)))  # noqa: PLR0124 - both are NaN
        if self.sort is Sort.TENSOR:
            return (self.ptr, self.shape, self.dtype, self.content) == (
                other.ptr,
                other.shape,
                other.dtype,
                other.content,
            )
        if self.sort is Sort.CONTAINER:
            return self.length == other.length
        return self.sort is Sort.MISSING or self.identity == other.identity


class Holding:
    """Makes snapshots of values.

    Args:
        torch: the target's torch.
    """

    def __init__(self, torch: Any) -> None:
        self._plain_tensors = frozenset({torch.Tensor, torch.nn.Parameter})
        self._values = frozenset(getattr(torch, name) for name in _TORCH_VALUES)
        self._size = torch.Size
        self.quiet = torch._C.DisableTorchFunction
        """In its block, reading a tensor's attributes runs no `__torch_function__` of the target."""
        self._address = storage_address(torch)
        self._modes = getattr(torch._C, "_len_torch_function_stack", lambda: 1)
        self._dtypes: dict[Any, str] = {}

    def is_plain(self, value: Any) -> bool:
        """Whether a value is told as it is: a number, a text, None, a tuple of such."""
        kind = type(value)
        if kind in _NUMBERS or kind in self._values:
            return True
        if kind is tuple or kind is self._size:
            return len(value) <= _LARGEST_TUPLE and all(self.is_plain(part) for part in value)
        if kind is slice:
            return all(type(part) in _NUMBERS for part in (value.start, value.stop, value.step))
        return issubclass(kind, Enum) or _is_numpy_number(kind)

    def of(self, value: Any) -> Held:
        """What a slot holds now."""
        kind = type(value)
        if value is MISSING:
            return Held(Sort.MISSING, "")
        if self.is_plain(value):
            held = Held(Sort.PLAIN, type_name(kind))
            held.plain = value
            return held
        if kind in self._plain_tensors and not self._modes():
            return self._tensor(value, kind)
        if is_tensor(value):
            with self.quiet():
                return self._tensor(value, kind)
        if kind in CONTAINERS:
            held = Held(Sort.CONTAINER, type_name(kind))
            held.length = len(value)
        else:
            held = Held(Sort.MODULE if is_module(value) else Sort.OTHER, type_name(kind))
            held.ref = weak(value)
        held.identity = id(value)
        return held

    def place(self, tensor: Any) -> int:
        """Address of a tensor's first byte; 0 without memory."""
        try:
            start = int(self._address(tensor))
            return start + tensor.storage_offset() * tensor.element_size() if start else 0
        except Exception:
            return 0

    def _tensor(self, tensor: Any, kind: type) -> Held:
        held = Held(Sort.TENSOR, type_name(kind))
        held.identity = id(tensor)
        held.ref = refer(tensor, held)
        held.ptr = self.place(tensor)
        held.shape = tuple(length if type(length) is int else -1 for length in tensor.shape)
        dtype = tensor.dtype
        text = self._dtypes.get(dtype)
        held.dtype = self._dtypes.setdefault(dtype, str(dtype)) if text is None else text
        held.version = version_of(tensor)
        held.host = bool(tensor.is_cpu)
        try:
            held.impl = int(tensor.untyped_storage()._cdata)
        except Exception:  # sparse, or of a class of the target's
            held.impl = 0
        if held.host and tensor.numel() == 1 and held.ptr and kind in self._plain_tensors:
            held.content = _content(held.ptr, held.dtype)
        return held


def _content(address: int, dtype: str) -> str:
    """The one element at an address in host memory, as text; empty for types that Python has no word for."""
    import ctypes

    kinds: dict[str, Any] = {
        "torch.float32": ctypes.c_float, "torch.float64": ctypes.c_double, "torch.int64": ctypes.c_int64,
        "torch.int32": ctypes.c_int32, "torch.int16": ctypes.c_int16, "torch.int8": ctypes.c_int8,
        "torch.uint8": ctypes.c_uint8, "torch.bool": ctypes.c_bool,
    }  # fmt: skip
    kind = kinds.get(dtype)
    return repr(kind.from_address(address).value) if kind is not None else ""


def plain_text(value: Any) -> str:
    """`repr` of a plain value, at most `LONGEST` characters; runs no `__repr__` of the target's."""
    kind = type(value)
    if issubclass(kind, Enum):
        text = f"{type_name(kind)}.{object.__getattribute__(value, '_name_')}"
    elif _is_numpy_number(kind):
        text = repr(value.item())
    elif kind is tuple or (kind not in _NUMBERS and issubclass(kind, tuple)):
        inner = ", ".join(plain_text(part) for part in value)
        text = f"({inner},)" if len(value) == 1 else f"({inner})"
    else:
        text = repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def type_name(kind: type) -> str:
    """`int`, `torch.Tensor`, `torch.nn.Parameter`."""
    module = type.__dict__["__module__"].__get__(kind)
    name: str = type.__dict__["__qualname__"].__get__(kind)
    if type(module) is not str or module == "builtins":
        return name
    return f"{module.replace('torch.nn.parameter', 'torch.nn')}.{name}"


def _is_numpy_number(kind: type) -> bool:
    numpy: Any = sys.modules.get("numpy")
    try:
        return issubclass(kind, numpy.generic)
    except (AttributeError, TypeError):
        return False


def weak(value: Any) -> weakref.ref[Any] | None:
    """A weak reference to an object; None where its class has none."""
    try:
        return weakref.ref(value)
    except TypeError:
        return None
