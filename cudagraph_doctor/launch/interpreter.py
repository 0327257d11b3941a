"""Which Python runs the target: the first one that can import torch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

from cudagraph_doctor.errors import TargetError, UsageError

OLDEST = (3, 11)
PATIENCE = 30.0
"""Seconds that an interpreter may take to answer."""

# Runs in the candidate, whatever version it is. Importing torch takes seconds; looking for it takes milliseconds, and
# torch/version.py is four assignments.
_QUESTION = """
import sys
sys.path[:] = [entry for entry in sys.path if entry]  # a json.py in the working directory is not ours to run
import json
answer = {"version": list(sys.version_info[:3]), "implementation": sys.implementation.name, "path": sys.executable}
try:
    import importlib.util, os, runpy
    found = importlib.util.find_spec("torch")
    if found is not None and found.origin:
        answer["torch"] = ""
        told = runpy.run_path(os.path.join(os.path.dirname(found.origin), "version.py"))
        answer.update(torch=str(told.get("__version__", "")), cuda=told.get("cuda"), hip=told.get("hip"))
except Exception:
    pass
print(json.dumps(answer))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python that answered."""

    path: str
    version: tuple[int, ...]
    implementation: str = "cpython"
    torch: str | None = None
    """Version of torch; None where it cannot be imported, "" where it does not say."""
    cuda: str | None = None
    """CUDA version torch was built for; None for a CPU or ROCm build."""
    hip: str | None = None
    """ROCm version torch was built for."""

    @property
    def name(self) -> str:
        """For a sentence: path, Python's version and torch's."""
        torch = f", torch {self.torch}" if self.torch else ""
        return f"{self.path} (Python {'.'.join(map(str, self.version))}{torch})"


def choose(python: str | None, environment: dict[str, str], *, need_torch: bool = True) -> Interpreter:
    """The interpreter to run the target with.

    Args:
        python: what `--python` named.
        environment: the variables that the target will see.
        need_torch: refuse one that cannot import torch.

    Raises:
        UsageError: `python` names no program.
        TargetError: no candidate can run the target.
    """
    if python is not None:
        path = shutil.which(python)
        if path is None:
            hint = "Name the interpreter of the environment that has torch."
            raise UsageError(f"--python {python}: no such program", hint)
        chosen = ask(path, environment)
        if chosen is None:
            raise TargetError(f"--python {python} does not answer as a Python interpreter")
        _check(chosen, need_torch=need_torch)
        return chosen
    seen: list[Interpreter] = []
    for path in _candidates(environment):
        found = ask(path, environment)
        if found is None:
            continue
        seen.append(found)
        if (found.torch is not None and found.version >= OLDEST) or not need_torch:
            return found
    if seen:
        with_torch = [found for found in seen if found.torch is not None]
        _check((with_torch or seen)[0], need_torch=need_torch, others=seen)
    raise TargetError("no Python interpreter was found", "Name one with --python PATH.")


def ask(path: str, environment: dict[str, str]) -> Interpreter | None:
    """What an interpreter says of itself; None where it does not answer like a Python 3."""
    try:
        answer = subprocess.run(
            [path, "-c", _QUESTION],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=True,
        )
        told = json.loads(answer.stdout.splitlines()[-1])
        return Interpreter(
            path=told["path"] or path,
            version=tuple(told["version"]),
            implementation=told["implementation"],
            torch=told.get("torch"),
            cuda=told.get("cuda"),
            hip=told.get("hip"),
        )
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, IndexError, TypeError):
        return None


def _candidates(environment: dict[str, str]) -> list[str]:
    """This interpreter, the active virtual environment's, then the one on PATH; each once."""
    paths = [sys.executable]
    active = environment.get("VIRTUAL_ENV")
    if active:
        paths.append(os.path.join(active, "bin", "python"))
    paths += [found for name in ("python", "python3") if (found := shutil.which(name, path=environment.get("PATH")))]
    return list(dict.fromkeys(path for path in paths if path))


def _check(chosen: Interpreter, *, need_torch: bool, others: list[Interpreter] | None = None) -> None:
    """Refuses an interpreter that cannot be recorded."""
    version = ".".join(map(str, chosen.version))
    if chosen.version < OLDEST:
        raise TargetError(f"{chosen.path} is Python {version}; the recorder needs 3.11 or newer")
    if chosen.implementation != "cpython":
        raise TargetError(f"{chosen.path} is {chosen.implementation}; the recorder needs CPython")
    if need_torch and chosen.torch is None:
        asked = ", ".join(dict.fromkeys(one.path for one in others or [chosen]))
        raise TargetError(
            f"no torch in {asked}",
            "Activate the environment that has torch, name its interpreter with --python PATH, or pip install torch.",
        )
