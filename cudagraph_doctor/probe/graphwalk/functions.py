"""What the driver knows of a kernel: its name, its resources, and where its parameters lie."""

from __future__ import annotations

import ctypes
import os

from cudagraph_doctor.probe.graphwalk.structures import ATTRIBUTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_PARAMETERS = 1024
"""A kernel has at most 32,764 bytes of them (CUDA 12.1)."""
NAME_LIMIT = 300


class Function:
    """A kernel, as a CUfunction or a CUkernel."""

    __slots__ = ("attributes", "name", "parameters")

    def __init__(self, name: str, attributes: dict[str, int], parameters: list[tuple[int, int]] | None) -> None:
        self.name = name
        """Demangled."""
        self.attributes = attributes
        """Registers of a thread; bytes of static and highest dynamic shared memory, of local memory."""
        self.parameters = parameters
        """(offset, bytes) of each; None where the driver does not tell (before 12.4)."""


class Functions:
    """The kernels of one walk: a handle names another one after its module was unloaded."""

    def __init__(self, lib: Any, names: Names) -> None:
        self._lib = lib
        self._names = names
        self._known: dict[tuple[int, bool], Function] = {}
        self._device: ctypes.c_int | None = None

    def of(self, handle: int, *, kernel: bool) -> Function:
        """Facts of a CUfunction, or of a CUkernel."""
        found = self._known.get((handle, kernel))
        if found is None:
            prefix = "cuKernel" if kernel else "cuFunc"
            found = self._known[handle, kernel] = Function(
                self._name(prefix, handle), self._attributes(prefix, handle), self._parameters(prefix, handle)
            )
        return found

    def _name(self, prefix: str, handle: int) -> str:
        ask = getattr(self._lib, f"{prefix}GetName", None)  # 12.3
        text = ctypes.c_char_p()
        if ask is None or ask(ctypes.byref(text), ctypes.c_void_p(handle)) != 0 or not text.value:
            return ""
        return self._names.readable(text.value)

    def _attributes(self, prefix: str, handle: int) -> dict[str, int]:
        ask = getattr(self._lib, f"{prefix}GetAttribute", None)
        if ask is None:
            return {}
        more = (self._current_device(),) if prefix == "cuKernel" else ()
        found, value, function = {}, ctypes.c_int(), ctypes.c_void_p(handle)
        for name, number in ATTRIBUTES.items():
            if ask(ctypes.byref(value), number, function, *more) == 0:
                found[name] = value.value
        return found

    def _parameters(self, prefix: str, handle: int) -> list[tuple[int, int]] | None:
        ask = getattr(self._lib, f"{prefix}GetParamInfo", None)
        if ask is None:
            return None
        found: list[tuple[int, int]] = []
        offset, size, function = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_void_p(handle)
        at, sized = ctypes.byref(offset), ctypes.byref(size)
        while len(found) < MOST_PARAMETERS and ask(function, ctypes.c_size_t(len(found)), at, sized) == 0:
            found.append((offset.value, size.value))
        return found

    def _current_device(self) -> ctypes.c_int:
        if self._device is None:
            self._device = ctypes.c_int()
            self._lib.cuCtxGetDevice(ctypes.byref(self._device))
        return self._device


class Names:
    """Readable names of kernels, by the C++ library that the target has mapped."""

    def __init__(self) -> None:
        self._known: dict[bytes, str] = {}
        self._demangle: Any = None
        self._free: Any = None
        try:
            library = ctypes.CDLL("libstdc++.so.6", mode=os.RTLD_NOW | getattr(os, "RTLD_NOLOAD", 4))
            self._demangle = library.__cxa_demangle
            self._demangle.restype = ctypes.c_void_p
            self._free = ctypes.CDLL(None).free
            self._free.argtypes = (ctypes.c_void_p,)
        except (OSError, AttributeError):
            self._demangle = None

    def readable(self, mangled: bytes) -> str:
        """The name as C++ writes it, at most NAME_LIMIT characters; as it is where it is not C++'s."""
        known = self._known.get(mangled)
        if known is None:
            known = self._known[mangled] = self._read(mangled).decode("utf-8", "replace")[:NAME_LIMIT]
        return known

    def _read(self, mangled: bytes) -> bytes:
        if self._demangle is None or not mangled.startswith(b"_Z"):
            return mangled
        status = ctypes.c_int()
        text = self._demangle(mangled, None, None, ctypes.byref(status))
        if not text:
            return mangled
        try:
            return ctypes.string_at(text) if status.value == 0 else mangled
        finally:
            self._free(text)
