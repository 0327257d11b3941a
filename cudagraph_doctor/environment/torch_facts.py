"""What the target's interpreter has installed, asked in a process of its own: torch is never imported into ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

from cudagraph_doctor._wire import ENV_TRACE

# Runs in the target's interpreter: any Python 3.8 or newer. Importing torch takes seconds, so its version.py is read
# (literals since torch 1.0); torch is imported only where there is none, as in some source builds.
_QUESTION = r"""
import json, sys
answer = {"python": sys.version.split()[0], "executable": sys.executable}
def literals(path):
    import ast
    found = {}
    with open(path, encoding="utf-8") as file:
        for node in ast.parse(file.read()).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                if isinstance(target, ast.Name) and isinstance(getattr(node, "value", None), ast.Constant):
                    found[target.id] = node.value.value
    return found
def cudnn_of(cuda):
    from importlib.metadata import version
    try:
        major, minor, patch = map(int, version("nvidia-cudnn-cu" + cuda.split(".")[0]).split(".")[:3])
    except Exception:
        return None  # built into torch, or of the system
    return major * 10000 + minor * 100 + patch if major >= 9 else major * 1000 + minor * 100 + patch
def torch_by_import():
    import torch
    return {"__version__": str(torch.__version__), "cuda": torch.version.cuda, "hip": torch.version.hip}
try:
    import importlib.util, os
    spec = importlib.util.find_spec("torch")
    if spec is None:
        raise ModuleNotFoundError("No module named 'torch'")
    try:
        facts = literals(os.path.join(spec.submodule_search_locations[0], "version.py"))
        facts["__version__"]
    except Exception:
        facts = torch_by_import()
    answer.update(torch=facts["__version__"], cuda=facts.get("cuda"), hip=facts.get("hip"))
    answer["cudnn"] = cudnn_of(facts["cuda"]) if facts.get("cuda") else None
except Exception as error:
    answer["error"] = type(error).__name__ + ": " + str(error)
try:
    from importlib.metadata import version
    answer["bindings"] = version("cuda-bindings")
except Exception:
    answer["bindings"] = None
try:
    import glob, importlib.util, os
    found = []
    for name in ("nvidia", "torch"):
        spec = importlib.util.find_spec(name)
        for root in (spec.submodule_search_locations or []) if spec else []:
            found += glob.glob(os.path.join(root, "**", "libcupti.so*"), recursive=True)
            found += glob.glob(os.path.join(root, "**", "cupti64*.dll"), recursive=True)
    answer["cupti"] = sorted(found)[:1]
except Exception:
    answer["cupti"] = []
sys.stdout.write("\n" + json.dumps(answer))
"""

TIMEOUT = 120.0
"""Seconds: importing torch from a cold network disk can take a minute."""


@dataclass(frozen=True)
class TorchFacts:
    """One interpreter and its torch."""

    executable: str
    python: str | None = None
    torch: str | None = None
    cuda: str | None = None
    """CUDA release that torch was built for; None for a CPU build."""
    hip: str | None = None
    """ROCm release that torch was built for."""
    cudnn: int | None = None
    bindings: str | None = None
    """Version of cuda-bindings."""
    cupti: bool = False
    """libcupti is installed beside torch."""
    why: str | None = None
    """Why torch, or the interpreter, could not be asked."""


def ask_interpreter(executable: str | None = None, timeout: float = TIMEOUT) -> TorchFacts:
    """Ask an interpreter (by default ours) about its torch. Never raises."""
    program = executable or sys.executable
    environment = {key: value for key, value in os.environ.items() if key != ENV_TRACE}  # this question is no target
    environment["CUDA_VISIBLE_DEVICES"] = ""  # importing torch must not wake a device
    try:
        result = subprocess.run(
            [program, "-c", _QUESTION],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return TorchFacts(program, why=f"no answer within {timeout:.0f} s")
    except OSError as error:
        return TorchFacts(program, why=f"cannot be started: {error.strerror or error}")
    return _read(program, result)


def _read(program: str, result: subprocess.CompletedProcess[str]) -> TorchFacts:
    last = result.stdout.rpartition("\n")[2]
    try:
        answer = json.loads(last)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        errors = result.stderr.strip().splitlines()
        return TorchFacts(program, why=errors[-1] if errors else f"ended with status {result.returncode}")
    return TorchFacts(
        executable=str(answer.get("executable") or program),
        python=answer.get("python"),
        torch=answer.get("torch"),
        cuda=answer.get("cuda"),
        hip=answer.get("hip"),
        cudnn=answer.get("cudnn"),
        bindings=answer.get("bindings"),
        cupti=bool(answer.get("cupti")),
        why=answer.get("error"),
    )
