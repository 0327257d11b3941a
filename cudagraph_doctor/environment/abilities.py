"""From facts to what can be checked here, and the way out for each lack. Pure functions: tested without a GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.environment.devices import Driver
    from cudagraph_doctor.environment.platform_facts import PlatformFacts
    from cudagraph_doctor.environment.torch_facts import TorchFacts

OLDEST_TORCH = (2, 6)
"""For python evidence."""
OLDEST_SIMULATED = (2, 11)
"""For the simulated device."""


@dataclass(frozen=True)
class Ability:
    """Something the tool can or cannot do on this machine."""

    what: str
    lack: str | None = None
    """What is missing; None: it works."""
    way_out: str | None = None
    """What to do about it."""


@dataclass(frozen=True)
class Machine:
    """All facts together."""

    driver: Driver
    platform: PlatformFacts
    torch: TorchFacts
    native_probe: bool = False
    """The native probe was built into this installation."""


def abilities(machine: Machine) -> list[Ability]:
    """What can be done here, most wanted first."""
    return [
        Ability("check, explain, rules, dump and pack: any trace, no GPU needed"),
        _first("run on a GPU", _real_device(machine)),
        _first("run on the simulated device", _simulated(machine)),
        _first("python evidence (operators, streams, status of the capture)", _python_evidence(machine)),
        _first("driver evidence (every CUDA call, on every thread)", _driver_evidence(machine)),
        _first("the driver's own error log as witness", _driver_log(machine)),
    ]


def _first(what: str, lacks: Iterator[tuple[str, str]]) -> Ability:
    """The first lack decides: the later ones may follow from it."""
    lack = next(lacks, None)
    return Ability(what) if lack is None else Ability(what, *lack)


def _torch(machine: Machine, oldest: tuple[int, int]) -> Iterator[tuple[str, str]]:
    torch = machine.torch
    if torch.torch is None:
        way = "name the interpreter that has torch: --python PATH, or install torch into this one"
        yield f"no torch in {torch.executable}" + (f" ({torch.why})" if torch.why else ""), way
    elif _release(torch.torch) < oldest:
        yield f"torch {torch.torch} is too old", f"torch {oldest[0]}.{oldest[1]} or newer is needed"


def _real_device(machine: Machine) -> Iterator[tuple[str, str]]:
    driver, torch = machine.driver, machine.torch
    elsewhere = "run on a machine with an NVIDIA GPU, or use --device sim, or `check` a trace from one"
    if torch.hip or (machine.platform.rocm and not machine.platform.libcuda):
        yield "ROCm is not supported", elsewhere
    if not machine.platform.libcuda:
        yield "no CUDA driver is installed", elsewhere
    if not driver.gpus:
        yield f"no GPU is visible ({driver.why or 'NVML sees none'})", elsewhere
    yield from _torch(machine, OLDEST_TORCH)
    if torch.cuda is None:
        yield f"torch {torch.torch} is a build without CUDA", "install a CUDA build of torch, or use --device sim"
    if all(gpu.compute_mode == "prohibited" for gpu in driver.gpus):
        yield "compute mode `prohibited` refuses every process", "nvidia-smi --compute-mode=DEFAULT"


def _simulated(machine: Machine) -> Iterator[tuple[str, str]]:
    if machine.platform.system != "linux":
        yield f"not supported on {machine.platform.system}", "use Linux, also in a container or WSL"
    yield from _torch(machine, OLDEST_SIMULATED)


def _python_evidence(machine: Machine) -> Iterator[tuple[str, str]]:
    yield from _torch(machine, OLDEST_TORCH)


def _driver_evidence(machine: Machine) -> Iterator[tuple[str, str]]:
    if not machine.native_probe:
        yield "the native probe was not compiled", "install a C compiler, then install cudagraph-doctor again"
    if not machine.platform.libcuda:
        yield "no CUDA driver is installed", "run on a machine with an NVIDIA GPU"
    if not machine.torch.cupti:
        yield "libcupti was not found beside torch", "pip install nvidia-cuda-cupti for torch's CUDA release"
    if "CUDA_INJECTION64_PATH" in machine.platform.variables:
        yield "CUDA_INJECTION64_PATH gives CUPTI to another tool", "unset CUDA_INJECTION64_PATH"


def _driver_log(machine: Machine) -> Iterator[tuple[str, str]]:
    if machine.platform.driver_log is None:
        yield "no CUDA driver is installed", "run on a machine with an NVIDIA GPU"
    elif not machine.platform.driver_log:
        yield "this driver has none", "a driver of CUDA 12.9 or newer has it"


def _release(version: str) -> tuple[int, int]:
    """`2.11.0+cu130` is (2, 11); what cannot be read counts as new."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (99, 0)
