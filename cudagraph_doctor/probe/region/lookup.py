"""Reads attributes and elements without running code of the target.

No property, `__getattr__`, `__getattribute__` or `__getitem__` of the target is called, and no `__eq__` or `__hash__`:
what only such code could tell is not known here. An object's `__dict__` is not asked for either, because an object that
has given it away is slower from then on.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict, deque
from types import MemberDescriptorType, ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Nothing:
    """A value that is none."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


MISSING: Any = Nothing("missing")
"""The slot is there, and empty: the name is not bound, the key not in the dictionary."""
OPAQUE: Any = Nothing("opaque")
"""Only code of the target could tell, or there is no such slot."""
GONE: Any = Nothing("gone")
"""What the slot was in has died, or is not in reach."""

_DICTS = (dict, OrderedDict, defaultdict)
_SEQUENCES = (list, tuple, deque)
CONTAINERS = frozenset({*_DICTS, *_SEQUENCES, set, frozenset})
KEYS = frozenset({int, str, bool, type(None), float, bytes})
"""Exact types of keys that are looked up: hashing and comparing them runs nothing of the target's."""
_read = object.__getattribute__


class Lookup:
    """Looks up attributes; knows for each class how its instances have one."""

    def __init__(self) -> None:
        self._ways: dict[tuple[int, str], tuple[type, str, Any]] = {}

    def forget(self) -> None:
        """Classes may have changed."""
        self._ways.clear()

    def attribute(self, owner: Any, name: str) -> Any:
        """The value of an attribute of an object; MISSING or OPAQUE without one."""
        kind = type(owner)
        known = self._ways.get((id(kind), name))
        if known is None or known[0] is not kind:
            known = self._ways[id(kind), name] = (kind, *_way(kind, name))
        _, way, found = known
        if way == "instance":
            try:
                return _read(owner, name)
            except AttributeError:
                return MISSING
        if way == "module":
            return _of_module(owner, name)
        if way == "member":
            try:
                return found.__get__(owner, kind)
            except AttributeError:
                return MISSING
        if way == "class":
            return _of_class(owner, name)
        if way == "namespace":
            return namespace(owner).get(name, MISSING)
        return OPAQUE


def _way(kind: type, name: str) -> tuple[str, Any]:
    """How instances of a class have an attribute."""
    if issubclass(kind, ModuleType):
        return "namespace", None
    if issubclass(kind, type):
        return "class", None
    found = _in_mro(kind, name)
    if found is not MISSING:
        if type(found) is MemberDescriptorType:
            return "member", found
        if _in_mro(type(found), "__get__") is not MISSING:
            # A method, a property, a class- or staticmethod. Plain functions may be hidden by an instance's attribute.
            return "opaque", None
    tensor, module = _torch_types()
    if tensor is not None and issubclass(kind, tensor):
        return "opaque", None
    if module is not None and issubclass(kind, module):
        return "module", None
    return "instance", None


def _in_mro(kind: type, name: str) -> Any:
    for base in type.__dict__["__mro__"].__get__(kind):
        space = type.__dict__["__dict__"].__get__(base)
        if name in space:
            return space[name]
    return MISSING


def _of_class(owner: type, name: str) -> Any:
    found = _in_mro(owner, name)
    if found is MISSING or _in_mro(type(found), "__get__") is not MISSING:
        return OPAQUE
    return found


def _of_module(owner: Any, name: str) -> Any:
    """As `torch.nn.Module` finds it: parameters, buffers and children are in dictionaries of their own."""
    try:
        return _read(owner, name)
    except AttributeError:
        pass
    for part in ("_parameters", "_buffers", "_modules"):
        try:
            space = _read(owner, part)
        except AttributeError:
            continue
        if type(space) in _DICTS and name in space:
            return space[name]
    return MISSING


def role_in_module(owner: Any, name: str) -> str:
    """`parameter` or `buffer` of a `torch.nn.Module`; empty otherwise."""
    _, module = _torch_types()
    if module is None or not issubclass(type(owner), module):
        return ""
    for part, role in (("_parameters", "parameter"), ("_buffers", "buffer")):
        try:
            space = _read(owner, part)
        except AttributeError:
            continue
        if type(space) in _DICTS and name in space:
            return role
    return ""


def is_module(value: Any) -> bool:
    """Whether a value is a `torch.nn.Module`, by its class alone."""
    _, module = _torch_types()
    return module is not None and issubclass(type(value), module)


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor, by its class alone."""
    tensor, _ = _torch_types()
    return tensor is not None and issubclass(type(value), tensor)


def namespace(module: ModuleType) -> dict[str, Any]:
    """The globals of a module."""
    found: dict[str, Any] = _read(module, "__dict__")
    return found


def item(container: Any, key: Any) -> Any:
    """An element of a container of the interpreter's own, or of a ModuleList and its like; MISSING or OPAQUE."""
    kind = type(container)
    if kind in _DICTS:
        return dict.get(container, key, MISSING) if _plain(key) else OPAQUE
    if kind in _SEQUENCES:
        return _at(container, key)
    _, module = _torch_types()
    if module is not None and issubclass(kind, module):
        nn: Any = sys.modules["torch"].nn
        children = _of_module(container, "_modules")
        if type(children) in _DICTS:
            if issubclass(kind, (nn.ModuleList, nn.Sequential)):
                return _at(list(children.values()), key)
            if issubclass(kind, nn.ModuleDict) and _plain(key):
                return dict.get(children, key, MISSING)
    return OPAQUE


def _at(sequence: Any, key: Any) -> Any:
    if type(key) is not int:
        return OPAQUE
    try:
        return sequence[key]
    except IndexError:
        return MISSING


def _plain(key: Any) -> bool:
    kind = type(key)
    return kind in KEYS or (kind is tuple and all(_plain(part) for part in key))


def is_key(key: Any) -> bool:
    """Whether a value can name an element: plain, so that looking it up runs nothing of the target's."""
    return _plain(key)


def _torch_types() -> tuple[Any, Any]:
    torch: Any = sys.modules.get("torch")
    try:
        return torch.Tensor, torch.nn.Module
    except AttributeError:  # not there, or only half imported
        return None, None
