"""Facts of the machine around the GPU: WSL, the driver's library and its log, environment variables."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass, field

VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_MODULE_LOADING",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LOG_FILE",
    "CUDA_INJECTION64_PATH",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "TORCH_CUDA_SANITIZER",
)
"""Variables that change how captures behave, or whether they can be observed."""


@dataclass(frozen=True)
class PlatformFacts:
    """What the operating system and the driver's own library tell."""

    system: str
    """`linux`, `darwin`, `win32`."""
    wsl: bool = False
    rocm: bool = False
    """An AMD driver is loaded."""
    libcuda: bool = False
    """The CUDA driver's library can be opened."""
    driver_log: bool | None = None
    """The driver has its error log (cuLogsRegisterCallback, since CUDA 12.9); None where there is no driver."""
    variables: dict[str, str] = field(default_factory=dict)


def find_platform() -> PlatformFacts:
    """Look around. Never raises; initialises nothing."""
    library = _libcuda()
    return PlatformFacts(
        system=sys.platform,
        wsl=_is_wsl(),
        rocm=os.path.exists("/sys/module/amdgpu") and os.path.exists("/dev/kfd"),
        libcuda=library is not None,
        driver_log=None if library is None else hasattr(library, "cuLogsRegisterCallback"),
        variables={name: os.environ[name] for name in VARIABLES if name in os.environ},
    )


def _libcuda() -> ctypes.CDLL | None:
    names = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _is_wsl() -> bool:
    try:
        with open("/proc/sys/kernel/osrelease", encoding="ascii", errors="replace") as stream:
            return "microsoft" in stream.read().lower()
    except OSError:
        return False
