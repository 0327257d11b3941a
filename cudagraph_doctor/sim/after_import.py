"""Runs something right after the target has imported a module."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

Change = Callable[[ModuleType], None]


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with each of some modules, once it has been executed."""

    def __init__(self) -> None:
        self._changes: dict[str, Change] = {}
        self._busy = False
        sys.meta_path.insert(0, self)

    def change(self, name: str, change: Change) -> None:
        """Call `change` with the module `name`: now if it is imported already, else when it is."""
        self._changes[name] = change
        if (module := sys.modules.get(name)) is not None:
            change(module)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module that is waited for, which will call its change; None for any other."""
        change = self._changes.get(fullname)
        if change is None or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._busy = False
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            change(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
