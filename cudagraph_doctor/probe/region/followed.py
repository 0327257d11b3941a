"""Whose code the region watch follows: the user's, libraries that use torch, and torch's own layers.

The rest of torch, the standard library and libraries that know nothing of torch are not looked into: what they keep for
themselves (caches, counters, registries) decides nothing in a graph, and would only be noise.
"""

from __future__ import annotations

import os
import sys

from cudagraph_doctor._wire import ROLE_LIBRARY, ROLE_THIRD_PARTY, ROLE_USER
from cudagraph_doctor.probe.frames import OURS
from cudagraph_doctor.probe.ownership import Ownership

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType
    from typing import Any

    from cudagraph_doctor.probe.config import Config

_LAYERS = f"{os.sep}torch{os.sep}nn{os.sep}modules{os.sep}"
_OPTIMISERS = f"{os.sep}torch{os.sep}optim{os.sep}"
_MACHINERY = ("module.py", "container.py", "_functions.py", "utils.py")
_SCHEDULERS = ("lr_scheduler.py", "swa_utils.py")


class Followed:
    """Decides by file, once for each."""

    def __init__(self, config: Config) -> None:
        self._ownership = Ownership(config.target, config.cwd, config.own)
        self._files: dict[str, str] = {}
        self._codes: dict[int, tuple[CodeType, str]] = {}

    def code(self, code: CodeType, space: Any) -> str:
        """`user`, `third_party` or `layer` for code that is followed, with its globals; else empty."""
        known = self._codes.get(id(code))
        if known is None:
            name = space.get("__name__") if type(space) is dict else None
            known = self._codes[id(code)] = code, self.file(code.co_filename, name if type(name) is str else "")
        return known[1]

    def file(self, filename: str, module: str) -> str:
        """The same, of a file and the name of a module of it."""
        known = self._files.get(filename)
        if known is None:
            known = self._files[filename] = self._decide(filename, module)
        return known

    def module(self, module: ModuleType, space: dict[str, Any]) -> str:
        """The same, of a module by its globals."""
        filename = space.get("__file__")
        name = space.get("__name__")
        if type(filename) is not str:
            return ROLE_USER if name == "__main__" else ""
        return self.file(filename, name if type(name) is str else "")

    def _decide(self, filename: str, module: str) -> str:
        if filename.startswith((OURS, "<frozen")):
            return ""
        role = self._ownership.of(filename, module).role
        if role == ROLE_USER:
            return role
        if role == ROLE_THIRD_PARTY:
            return role if _uses_torch(module.partition(".")[0]) else ""
        if role == ROLE_LIBRARY:
            name = os.path.basename(filename)
            if (_LAYERS in filename and name not in _MACHINERY) or (
                _OPTIMISERS in filename and name not in _SCHEDULERS
            ):
                return "layer"
        return ""


def _uses_torch(package: str) -> bool:
    """Whether a module of a package has torch among its globals."""
    torch = sys.modules.get("torch")
    if torch is None or not package:
        return False
    for name, module in list(sys.modules.items()):
        if name == package or name.startswith(package + "."):
            try:
                space = object.__getattribute__(module, "__dict__")
            except AttributeError:
                continue
            if type(space) is dict and space.get("torch") is torch:
                return True
    return False
