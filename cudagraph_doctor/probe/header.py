"""The header record: which process this is, and what in its environment changes CUDA's or torch's behaviour."""

from __future__ import annotations

import os
import sys
from time import time_ns

from cudagraph_doctor import __version__
from cudagraph_doctor._wire import FORMAT, VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cudagraph_doctor.probe.config import Config

TELLING = ("CUDA_", "CUBLAS_", "CUDNN_", "NCCL_", "TORCH_", "PYTORCH_", "TORCHINDUCTOR_", "TRITON_", "NVIDIA_")
"""Prefixes of the variables that a header tells. Nothing else of the environment is recorded: it holds secrets."""
QUIET = ("TOKEN", "SECRET", "PASSWORD", "KEY")
RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
ARGUMENT_LIMIT = 1000


def header(config: Config, how: str, parent: str = "") -> dict[str, Any]:
    """Fields of the header of this process.

    Args:
        config: the recorder's configuration.
        how: how recording began in this process: `run`, `env`, `auto`, `fork` or `child`.
        parent: name of the trace file of the process that forked this one.
    """
    fields = {
        "format": FORMAT,
        "version": list(VERSION),
        "pid": os.getpid(),
        "wall": time_ns(),
        "ppid": os.getppid(),
        "host": os.uname().nodename,
        "boot": _boot(),
        "argv": [argument[:ARGUMENT_LIMIT] for argument in getattr(sys, "orig_argv", [])[1:]],
        "python": sys.version.split(" ", 1)[0],
        "implementation": sys.implementation.name,
        "platform": f"{sys.platform}-{os.uname().machine}",
        "tool": __version__,
        "run": config.run,
        "how": how,
        "backend": "sim" if config.device == "sim" else "cuda",
        "env": _telling_environment(),
        "config": config.told(),
    }
    if parent:
        fields["parent"] = parent
    rank = _rank()
    if rank is not None:
        fields["rank"] = rank
    return fields


def _telling_environment() -> dict[str, str]:
    return {
        name: value[:ARGUMENT_LIMIT]
        for name, value in sorted(os.environ.items())
        if name.startswith(TELLING) and not any(word in name for word in QUIET)
    }


def _rank() -> int | None:
    for name in RANKS:
        value = os.environ.get(name, "")
        if value.isdecimal():
            return int(value)
    return None


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
            return boot.read().strip()
    except OSError:
        return ""
