"""The folders of a project: where its configuration lies, and its repository's root."""

from __future__ import annotations

import os
import posixpath

from cudagraph_doctor.report import Roots

CONFIGURATION = ("cudagraph-doctor.toml", "pyproject.toml")


def find_roots(cwd: str | None = None) -> Roots:
    """The working directory and the repository around it; without one, the folder of the nearest pyproject.toml."""
    here = os.path.realpath(cwd or os.getcwd())
    repository = _nearest(here, (".git",)) or _nearest(here, CONFIGURATION) or here
    return Roots(cwd=here, repository=repository)


def path_from(root: str, roots: Roots, file: str) -> str:
    """A location's file as seen from a folder, with slashes; unchanged where it is not below the working directory's.

    Args:
        root: the folder, absolute.
        roots: where the location's relative paths begin.
        file: `Location.file`.
    """
    if not roots.cwd or not file or file[1:2] == ":" or _names_a_root(file):
        return file.replace("\\", "/") if "/" not in file else file
    path = posixpath.normpath(posixpath.join(_slashed(roots.cwd), file))
    above = _slashed(root).rstrip("/") + "/"
    return path.removeprefix(above) if path.startswith(above) else file


def _slashed(path: str) -> str:
    """A folder of Windows as traces write paths."""
    return path.replace("\\", "/") if path[1:2] == ":" else path


def _names_a_root(file: str) -> bool:
    head = file.partition(":")[0]
    return head != file and "/" not in head


def _nearest(folder: str, names: tuple[str, ...]) -> str | None:
    while True:
        if any(os.path.exists(os.path.join(folder, name)) for name in names):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
