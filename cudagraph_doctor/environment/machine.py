"""Gathers the facts of this machine."""

from __future__ import annotations

from importlib.resources import files

from cudagraph_doctor.environment.abilities import Machine
from cudagraph_doctor.environment.devices import find_driver
from cudagraph_doctor.environment.platform_facts import find_platform
from cudagraph_doctor.environment.torch_facts import ask_interpreter


def find_machine(executable: str | None = None) -> Machine:
    """Ask NVML, the driver's library and the interpreter. Never raises; opens no CUDA context."""
    return Machine(
        driver=find_driver(),
        platform=find_platform(),
        torch=ask_interpreter(executable),
        native_probe=_has_native_probe(),
    )


def _has_native_probe() -> bool:
    folder = files("cudagraph_doctor").joinpath("probe", "native")
    return folder.is_dir() and any(entry.name.endswith((".so", ".dll", ".dylib")) for entry in folder.iterdir())
