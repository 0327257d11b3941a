"""The GPUs and the driver, through NVML, which opens no CUDA context and wakes no GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_COMPUTE_MODES = {
    0: "default",
    1: "exclusive thread",
    2: "prohibited",
    3: "exclusive process",
}
"""NVML's nvmlComputeMode_t."""


@dataclass(frozen=True)
class Gpu:
    """One device as NVML sees it."""

    index: int
    name: str
    memory: int | None
    """Bytes."""
    compute_mode: str | None
    mig: bool | None
    """Whether multi-instance mode is on; None where the device has none."""


@dataclass(frozen=True)
class Driver:
    """The driver and its devices, or why there is none."""

    version: str | None = None
    """`580.159.03`."""
    cuda: tuple[int, int] | None = None
    """The newest CUDA that the driver supports, e.g. (13, 0)."""
    gpus: tuple[Gpu, ...] = ()
    why: str | None = None
    """NVML's reason, where it could not be asked."""


def find_driver() -> Driver:
    """Ask NVML. Never raises: a machine without a GPU is an answer."""
    try:
        import pynvml
    except ImportError as error:  # pragma: no cover - a dependency of ours
        return Driver(why=f"nvidia-ml-py cannot be imported: {error}")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Driver(why=str(error))
    try:
        return _ask(pynvml)
    except pynvml.NVMLError as error:
        return Driver(why=str(error))
    finally:
        pynvml.nvmlShutdown()


def _ask(nvml: Any) -> Driver:
    cuda = _optional(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2)
    return Driver(
        version=_text(nvml.nvmlSystemGetDriverVersion()),
        cuda=None if cuda is None else (cuda // 1000, cuda % 1000 // 10),
        gpus=tuple(_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount())),
    )


def _gpu(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = _optional(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    mode = _optional(nvml, nvml.nvmlDeviceGetComputeMode, handle)
    mig = _optional(nvml, nvml.nvmlDeviceGetMigMode, handle)
    return Gpu(
        index=index,
        name=_text(nvml.nvmlDeviceGetName(handle)),
        memory=None if memory is None else int(memory.total),
        compute_mode=None if mode is None else _COMPUTE_MODES.get(mode, f"mode {mode}"),
        mig=None if mig is None else bool(mig[0]),
    )


def _optional(nvml: Any, function: Any, *arguments: Any) -> Any:
    """What not every device answers."""
    try:
        return function(*arguments)
    except nvml.NVMLError:
        return None


def _text(value: str | bytes) -> str:
    """Older releases of nvidia-ml-py return bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
