"""The C++ side of the CUDA device: guard, hooks and one dispatch stub, put in place through ctypes.

A build without CUDA has no device guard for it and hooks that say "not built"; a CUDA build has real ones, which call
the driver. Both are replaced by objects of PyTorch's own: the no-op guard, and the hooks' base class with a few virtual
functions overridden. Slot numbers are read from the headers that come with the wheel, not assumed.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

import torch

from cudagraph_doctor.sim.unavailable import WORKS_WITH, SimUnavailable

_GUARD_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
_HOOKS_BASE_TABLE = "_ZTVN2at18CUDAHooksInterfaceE"
_GET_HOOKS = "_ZN2at6detail12getCUDAHooksEv"
_SDP_STUB = "_ZN2at6native22_fused_sdp_choice_stubE"
_CUDA = 1
"""c10::DeviceType::CUDA."""
_SLOTS = 96
"""Virtual functions copied of a table; more than any of these classes has."""


class _Forever(list[object]):
    """What C++ points to: its destructors run after Python has cleared its modules, so these are never freed."""

    def append(self, kept: object) -> None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
        super().append(kept)

    def extend(self, kept: Iterable[object]) -> None:
        for one in kept:
            self.append(one)


_alive = _Forever()
"""Tables and callbacks that C++ points to: they live as long as the process."""


def _library(name: str) -> ctypes.CDLL:
    path = os.path.join(os.path.dirname(torch.__file__), "lib", name)
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise SimUnavailable(f"{name} of torch {torch.__version__} could not be loaded ({error})") from None


def _symbol(library: ctypes.CDLL, symbol: str) -> int:
    try:
        return ctypes.addressof(ctypes.c_char.in_dll(library, symbol))
    except ValueError:
        raise SimUnavailable(
            f"torch {torch.__version__} has no {symbol}; the simulated device works with {WORKS_WITH}"
        ) from None


def _header(*parts: str) -> str:
    path = os.path.join(os.path.dirname(torch.__file__), "include", *parts)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        raise SimUnavailable(
            f"this torch came without its header {parts[-1]}, which says how its objects are laid out"
        ) from None


def _virtual_functions(text: str) -> list[str]:
    return re.findall(r"^\s+virtual\s+[^;{]*?(~?\w+)\(", text, re.MULTILINE)


class _Table:
    """A copy of an object's table of virtual functions, some of them replaced by Python callbacks."""

    def __init__(self, address: int) -> None:
        entries = ctypes.c_void_p * _SLOTS
        self._entries = entries.from_buffer_copy(entries.from_address(address))
        self.address = ctypes.addressof(self._entries)
        _alive.append(self._entries)

    def replace(self, slot: int, function: Callable[..., Any], result: Any, *arguments: Any) -> None:
        """Let virtual function `slot` call `function(this, *arguments)`."""
        callback = ctypes.CFUNCTYPE(result, ctypes.c_void_p, *arguments)(function)
        _alive.append(callback)
        self._entries[slot] = ctypes.cast(callback, ctypes.c_void_p).value


def install_guard(devices: int) -> None:
    """Put PyTorch's no-op device guard into the slot for CUDA, counting `devices`."""
    torch.empty(0, device="meta")  # the libraries are loaded and their registries built
    registry = (ctypes.c_void_p * 32).from_address(_symbol(_library("libc10.so"), _GUARD_REGISTRY))
    # _ensureCUDADeviceGuardSet replaces only a guard that reports no device: give it one whose every answer is 0.
    zero = ctypes.CFUNCTYPE(ctypes.c_long)(lambda: 0)
    table = (ctypes.c_void_p * _SLOTS)(*[ctypes.cast(zero, ctypes.c_void_p).value] * _SLOTS)
    empty = (ctypes.c_void_p * 1)(ctypes.addressof(table))
    _alive.extend((zero, table, empty))
    registry[_CUDA] = ctypes.addressof(empty)
    torch._C._ensureCUDADeviceGuardSet()
    if registry[_CUDA] == ctypes.addressof(empty):
        raise SimUnavailable(f"torch {torch.__version__} did not install its no-op device guard; {WORKS_WITH} do")
    if devices > 1:  # the no-op guard counts one, and the autograd engine sizes its queues by it
        guard = ctypes.c_void_p.from_address(registry[_CUDA] or 0)
        names = _virtual_functions(_header("c10", "core", "impl", "DeviceGuardImplInterface.h"))
        counting = _Table(guard.value or 0)
        counting.replace(names.index("deviceCount"), lambda _this: devices, ctypes.c_int8)
        guard.value = counting.address


def install_hooks(devices: int, current_device: Callable[[], int], set_device: Callable[[int], int]) -> _Table:
    """Let `at::getAccelerator()`, the autograd engine and pinned memory find a CUDA device.

    `set_device(index)` returns the index before. The table is returned for `pinned_memory` to add to.
    """
    names = hook_names()
    library = _library("libtorch_cpu.so")
    get_hooks = getattr(library, _GET_HOOKS)
    get_hooks.restype = ctypes.c_void_p
    table = _Table(_symbol(library, _HOOKS_BASE_TABLE) + 16)  # past the offset to top and the type information
    for name in ("isBuilt", "isAvailable", "hasPrimaryContext"):
        table.replace(names.index(name), lambda *_: 1, ctypes.c_long, ctypes.c_long)
    table.replace(names.index("init"), lambda *_: 0, ctypes.c_long)
    table.replace(names.index("deviceCount"), lambda _this: devices, ctypes.c_int8)
    table.replace(names.index("getCurrentDevice"), lambda _this: current_device(), ctypes.c_int8)
    for name in ("setCurrentDevice", "exchangeDevice", "maybeExchangeDevice"):
        table.replace(names.index(name), lambda _this, index: set_device(index), ctypes.c_int8, ctypes.c_int8)
    ctypes.c_void_p.from_address(get_hooks()).value = table.address
    _ask_operator_for_attention(library)
    return table


def hook_names() -> list[str]:
    """Names of the hooks' virtual functions by slot; the destructor takes two."""
    names = _virtual_functions(_header("ATen", "detail", "AcceleratorHooksInterface.h"))
    if not names or names[0] != "~AcceleratorHooksInterface" or "getPinnedMemoryAllocator" not in names:
        raise SimUnavailable(f"the accelerator hooks of torch {torch.__version__} are not known; {WORKS_WITH} work")
    return [names[0], *names]


def _ask_operator_for_attention(library: ctypes.CDLL) -> None:
    """scaled_dot_product_attention asks a DispatchStub which implementation to take; a CUDA build's asks cuDNN.

    Without its CUDA entry (the second field) it asks the operator _fused_sdp_choice, which we answer.
    """
    try:
        stub = (ctypes.c_void_p * 2).in_dll(library, _SDP_STUB)
    except ValueError:
        return  # an older or newer layout: the self-test decides
    stub[1] = None
