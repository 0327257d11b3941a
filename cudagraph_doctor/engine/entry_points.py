"""Entry points of installed packages; `importlib.metadata` is asked only where somebody else's package has ours.

Importing that module takes as long as reading a trace and checking it, for it brings email, zipfile and csv. Most
installations have no plugin, and that can be seen from the files that installers write
(packaging.python.org, "Entry points specification": `entry_points.txt` in the `.dist-info` folder).
"""

from __future__ import annotations

import os
import sys
from functools import reduce
from importlib import import_module
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator


class EntryPoint(Struct, frozen=True):
    """A name for an object of an installed package."""

    name: str
    value: str
    """`module:attribute`."""

    def load(self) -> object:
        """Imports the module and returns the object. Raises whatever the import raises, and AttributeError."""
        module, _, attributes = self.value.partition("[")[0].partition(":")
        return reduce(getattr, filter(None, attributes.strip().split(".")), import_module(module.strip()))


def entry_points(group: str, *, but: str) -> Iterator[tuple[EntryPoint, str, str]]:
    """The entry points of a group, each with its package's name and version, of every installed package but `but`."""
    if not _named_by_others(group, but):
        return
    from importlib import metadata

    for point in metadata.entry_points(group=group):
        package, version = (point.dist.name, point.dist.version) if point.dist is not None else ("unknown package", "?")
        if _normal(package) != _normal(but):
            yield EntryPoint(point.name, point.value), package, version


def _named_by_others(group: str, but: str) -> bool:
    """Whether a package other than `but` may have an entry point of the group; wrong only in saying yes."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return True  # packages that lie in no folder
    section = group.encode()
    for folder in dict.fromkeys(sys.path):
        if os.path.isfile(folder) or folder.endswith(".egg"):
            return True  # an archive
        for path in _metadata_folders(folder):
            # Installers write no dash into the name: the first one ends it.
            if _normal(os.path.basename(path).partition("-")[0].removesuffix(".egg")) == _normal(but):
                continue
            try:
                with open(os.path.join(path, "entry_points.txt"), "rb") as file:
                    if section in file.read():
                        return True
            except OSError:
                continue
    return False


def _metadata_folders(folder: str) -> Iterator[str]:
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return
    for name in names:
        if name.lower().endswith((".dist-info", "egg-info")):
            yield os.path.join(folder, name)


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
