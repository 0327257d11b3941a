"""The machine in words, for `env`, for bug reports."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudagraph_doctor.environment.abilities import Ability, Machine
    from cudagraph_doctor.environment.devices import Gpu


def facts(machine: Machine) -> list[tuple[str, str]]:
    """Pairs of a name and what there is. What was not found is said, not left out."""
    driver, platform, torch = machine.driver, machine.platform, machine.torch
    cuda = f", CUDA {driver.cuda[0]}.{driver.cuda[1]}" if driver.cuda else ""
    rows = [("driver", f"{driver.version}{cuda}" if driver.version else f"none ({driver.why or 'NVML sees none'})")]
    rows += [(f"GPU {gpu.index}", _gpu(gpu)) for gpu in driver.gpus]
    rows.append(("platform", platform.system + (" (WSL)" if platform.wsl else "")))
    rows.append(("python", f"{torch.python or 'unknown'}, {torch.executable}"))
    if torch.torch:
        built = f"CUDA {torch.cuda}" if torch.cuda else f"ROCm {torch.hip}" if torch.hip else "no CUDA"
        cudnn = f", cuDNN {torch.cudnn}" if torch.cudnn else ""
        rows.append(("torch", f"{torch.torch}, built for {built}{cudnn}"))
    else:
        rows.append(("torch", f"none ({torch.why or 'not installed'})"))
    rows.append(("cuda-bindings", torch.bindings or "none"))
    rows.append(("CUPTI", "found beside torch" if torch.cupti else "not found beside torch"))
    rows.append(("module loading", _loading(machine)))
    rows += [(name, value) for name, value in platform.variables.items() if name != "CUDA_MODULE_LOADING"]
    return rows


def text(machine: Machine, able: list[Ability], width: int = 80) -> str:
    """Everything as plain lines of at most `width` columns; a path is never broken."""
    rows = facts(machine)
    names = max(len(name) for name, _ in rows)
    lines = [line for name, value in rows for line in _hanging(f"{name:<{names}}  ", value, width)]
    lines += ["", "What can be done here"]
    for ability in able:
        lines += _hanging(f"  {'no ' if ability.lack else 'yes'}  ", ability.what, width)
        if ability.lack:
            lines += _hanging(" " * 9, ability.lack, width)
        if ability.way_out:
            lines += _hanging(" " * 9 + "way out: ", ability.way_out, width)
    return "\n".join(lines)


def _hanging(label: str, value: str, width: int) -> list[str]:
    """The value behind its label; its further lines stand under its first."""
    return textwrap.wrap(
        value,
        width,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [label.rstrip()]


def _gpu(gpu: Gpu) -> str:
    parts = [gpu.name]
    if gpu.memory is not None:
        parts.append(f"{gpu.memory / 2**30:.0f} GiB")
    if gpu.compute_mode is not None:
        parts.append(f"compute mode {gpu.compute_mode}")
    if gpu.mig is not None:
        parts.append(f"MIG {'on' if gpu.mig else 'off'}")
    return ", ".join(parts)


def _loading(machine: Machine) -> str:
    """CUDA's default has been lazy since 12.2 on Linux (CUDA C++ Programming Guide, "Lazy Loading")."""
    asked = machine.platform.variables.get("CUDA_MODULE_LOADING")
    return f"{asked.lower()} (CUDA_MODULE_LOADING)" if asked else "lazy (the default; CUDA_MODULE_LOADING is not set)"
