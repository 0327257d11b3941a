"""Whether the target runs on a GPU or on the simulated device. Asks NVML, never CUDA: no context is made."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass

from cudagraph_doctor.errors import TargetError
from cudagraph_doctor.launch.interpreter import Interpreter

_SIM_OUT = "cudagraph-doctor env says more; --device sim runs it on the simulated device."
_WAY_OUT = "Run it where there is an NVIDIA GPU, or check a trace recorded there: cudagraph-doctor check TRACE."


@dataclass(frozen=True)
class Gpus:
    """What NVML sees."""

    names: tuple[str, ...]
    """Names of the devices."""
    driver: bool
    """An NVIDIA driver is installed."""
    why: str = ""
    """Why there are no names."""


@dataclass(frozen=True)
class Device:
    """Where the target runs."""

    name: str
    """`cuda` or `sim`."""
    told: str
    """For the first line."""


def see_gpus() -> Gpus:
    """Asks NVML."""
    driver = any(os.path.exists(path) for path in ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"))
    try:
        import pynvml
    except ImportError:
        return Gpus((), driver or _has_libcuda(), "nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
    except Exception as error:
        return Gpus((), driver or _has_libcuda(), str(error))
    try:
        names = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(index))
            names.append(name.decode() if isinstance(name, bytes) else str(name))
        return Gpus(tuple(names), True, "" if names else "NVML sees no device")
    except Exception as error:
        return Gpus((), True, str(error))
    finally:
        pynvml.nvmlShutdown()


def choose(asked: str, sim_devices: int, interpreter: Interpreter | None, gpus: Gpus) -> Device:
    """The device of the run.

    `auto` simulates only where NVML sees no GPU and no driver is installed.

    Args:
        asked: `auto`, `cuda` or `sim`.
        sim_devices: number of simulated devices.
        interpreter: the target's, None for a command whose interpreter is not known.
        gpus: what there is.

    Raises:
        TargetError: the device is not available, with what is missing.
    """
    if asked == "sim" or (asked == "auto" and not gpus.names and not gpus.driver):
        return _simulated(asked, sim_devices, gpus)
    if not gpus.names:
        why = f"an NVIDIA driver is here, but NVML sees no GPU ({gpus.why})" if gpus.driver else "no NVIDIA GPU here"
        raise TargetError(why, _SIM_OUT if _sim_is_here() else _WAY_OUT)
    if interpreter is not None and interpreter.torch is not None:
        if interpreter.hip:
            raise TargetError(f"torch {interpreter.torch} is a ROCm build, which is not supported")
        if interpreter.torch and not interpreter.cuda:
            raise TargetError(
                f"torch {interpreter.torch} in {interpreter.path} is built without CUDA",
                "Install a CUDA build of torch, or name an interpreter that has one with --python PATH.",
            )
    shown = gpus.names[0] + (f" and {len(gpus.names) - 1} more" if len(gpus.names) > 1 else "")
    return Device("cuda", shown)


def _simulated(asked: str, sim_devices: int, gpus: Gpus) -> Device:
    if not _sim_is_here():
        if asked == "sim":
            raise TargetError("the simulated device is not in this build", _WAY_OUT)
        raise TargetError("no NVIDIA GPU and no driver here", _WAY_OUT)
    count = f"{sim_devices} simulated devices" if sim_devices > 1 else "the simulated device"
    why = " (no NVIDIA GPU and no driver here)" if asked == "auto" and not gpus.driver else ""
    return Device("sim", count + why)


def _sim_is_here() -> bool:
    found = importlib.util.find_spec("cudagraph_doctor.sim")
    return found is not None and found.origin is not None


def _has_libcuda() -> bool:
    """Whether the dynamic linker finds the driver library, as in a container whose /dev shows nothing."""
    import ctypes

    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True
