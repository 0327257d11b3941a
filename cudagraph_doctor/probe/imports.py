"""Calls back after a module was imported, without anybody noticing.

A finder at the front of `sys.meta_path` lets the other finders find a watched module, and puts a loader in front of the
found one that executes the module and then calls back. Before the module's first line runs, `__spec__.loader` and
`__loader__` are the real ones again, so that importlib.resources, reload and inspect see what they always see.
"""

from __future__ import annotations

import sys
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    Callback = Callable[[ModuleType], None]


class AfterImport:
    """Watches for modules; `sys.meta_path` holds it from `start` on.

    A callback of `package.module` runs when `package` too is complete: torch imports torch.cuda long before torch is
    itself ready to be called.
    """

    def __init__(self) -> None:
        self._callbacks: dict[str, list[Callback]] = {}
        self._roots: set[str] = set()
        self._loading: list[str] = []
        self._finding: set[tuple[str, int]] = set()
        self._waiting: dict[str, list[str]] = {}
        self._before: frozenset[str] = frozenset()
        self._first: Callable[[], None] | None = None

    def start(self) -> None:
        """Begins to watch."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def watch(self, name: str, callback: Callback) -> None:
        """Calls `callback(module)` when `name` was imported, at once if it is there already."""
        self._callbacks.setdefault(name, []).append(callback)
        root = name.partition(".")[0]
        self._roots.add(root)
        module = sys.modules.get(name)
        if module is not None and not initialising(module):
            if initialising(sys.modules.get(root)):
                self._waiting.setdefault(root, []).append(name)
            else:
                callback(module)

    def before(self, names: frozenset[str], callback: Callable[[], None]) -> None:
        """Calls back once, before the first of the packages `names` is imported; at once if one is there already."""
        self._before, self._first = names, callback
        if not names.isdisjoint(sys.modules):
            self._call_first()

    def _call_first(self) -> None:
        first, self._first, self._before = self._first, None, frozenset()
        if first is not None:
            first()

    # ── what importlib calls ─────────────────────────────────────────────────────────────────

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds a watched module through the other finders; None for all others."""
        if name in self._before:
            self._call_first()
        if name not in self._callbacks and name not in self._roots:
            return None
        mine = (name, get_ident())
        if mine in self._finding:
            return None
        self._finding.add(mine)
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                if finder is self or find is None:
                    continue
                spec: ModuleSpec | None = find(name, path, target)
                if spec is not None:
                    if hasattr(spec.loader, "exec_module") and not isinstance(spec.loader, _Loader):
                        spec.loader = _Loader(spec.loader, self)  # type: ignore[assignment]
                    return spec
            return None
        finally:
            self._finding.discard(mine)

    # ── what the loader calls ────────────────────────────────────────────────────────────────

    def begins(self, name: str) -> None:
        """The module `name` is about to be executed."""
        self._loading.append(name)

    def failed(self, name: str) -> None:
        """Executing `name` raised."""
        self._loading.remove(name)
        self._waiting.pop(name, None)

    def ended(self, name: str, module: ModuleType) -> None:
        """The module `name` is complete."""
        self._loading.remove(name)
        root = name.partition(".")[0]
        if root != name and root in self._loading:
            self._waiting.setdefault(root, []).append(name)
            return
        self._call(name, sys.modules.get(name, module))
        for waiting in self._waiting.pop(name, []):
            if waiting in sys.modules:
                self._call(waiting, sys.modules[waiting])

    def _call(self, name: str, module: ModuleType) -> None:
        for callback in self._callbacks.get(name, ()):
            callback(module)


class _Loader:
    """Stands in for a loader until the module is executed. Everything else it is asked for is the real one's."""

    def __init__(self, real: Any, watcher: AfterImport) -> None:
        self._real = real
        self._watcher = watcher

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The real loader's module, or None for the default."""
        create = getattr(self._real, "create_module", None)
        if create is None:
            return None
        spec.loader = self._real
        try:
            module: ModuleType | None = create(spec)
            return module
        finally:
            spec.loader = self  # type: ignore[assignment]

    def exec_module(self, module: ModuleType) -> None:
        """Takes itself away, executes the module, then tells."""
        spec = module.__spec__
        if spec is not None:
            spec.loader = self._real
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._real
        name = spec.name if spec is not None else module.__name__
        self._watcher.begins(name)
        try:
            self._real.exec_module(module)
        except BaseException:
            self._watcher.failed(name)
            raise
        self._watcher.ended(name, module)


# A traceback through an import is shown without importlib's frames (import.c, remove_importlib_frames). This frame
# stands among them and would break the chain, so it goes by importlib's file name: the traceback stays as it would be.
_IMPORTLIB = "<frozen importlib._bootstrap_external>"
_Loader.exec_module.__code__ = _Loader.exec_module.__code__.replace(co_filename=_IMPORTLIB)


def initialising(module: ModuleType | None) -> bool:
    """Whether a module is being imported right now, further up in some stack."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
