"""Whose file is it: user, third party, library or generated (docs/how-it-works.md, "Whose line is it?").

Decided from paths alone. Distributions are looked up only when a file outside of site-packages, or its distribution's
name, is asked for: never at start-up.
"""

from __future__ import annotations

import os
import sys

from cudagraph_doctor._wire import ROLE_GENERATED, ROLE_LIBRARY, ROLE_THIRD_PARTY, ROLE_USER

LIBRARIES = frozenset({"torch", "triton", "cuda", "cupy", "numpy", "functorch", "torchgen", "nvidia", "cupyx"})
"""Packages whose frames are the machinery between the user's line and the driver; torch's satellites included."""

_SITES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_GENERATED = ("torchinductor_", f"{os.sep}.triton{os.sep}", "torch_compile_debug", "<eval_with_key>")
_CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_COMPILE_DEBUG_DIR")


class Owner:
    """Whose a file is, and its path without the machine's folders."""

    __slots__ = ("dist", "path", "role")

    def __init__(self, role: str, path: str, dist: str = "") -> None:
        self.role = role
        self.path = path
        """`root:relative/path`."""
        self.dist = dist


class Ownership:
    """Tells the owner of files.

    Args:
        target: folder of the target's script, "" without one.
        cwd: working directory when the run began.
        own: distributions, packages and paths that the user calls their own.
    """

    def __init__(self, target: str = "", cwd: str = "", own: tuple[str, ...] = ()) -> None:
        self._target = os.path.realpath(target) + os.sep if target else ""
        self._cwd = os.path.realpath(cwd) + os.sep if cwd else ""
        self._own_names = frozenset(_normal(name) for name in own if os.sep not in name)
        self._own_paths = tuple(os.path.realpath(path) for path in own if os.path.exists(path))
        self._stdlib = os.path.dirname(os.path.realpath(os.__file__)) + os.sep
        self._dists: dict[str, dict[str, str]] = {}
        self._editable: list[tuple[str, str]] | None = None

    def of(self, filename: str, module: str = "") -> Owner:
        """The owner of a source file.

        Args:
            filename: as code objects have it.
            module: `__name__` in the globals of a frame of it; decides for code that has no file.
        """
        if filename.startswith("<"):
            return self._unfiled(filename, module)
        path = os.path.realpath(filename)
        if any(mark in path for mark in _GENERATED) or path.startswith(_cache_folders()):
            return Owner(ROLE_GENERATED, "cache:" + os.path.basename(path))
        site = _site_of(path)
        relative = path[len(site) :] if site else ""
        top = relative.split(os.sep, 1)[0].removesuffix(".py")
        dist = self.distribution(site, top) if site else self._editable_dist(path)
        if self._is_own(path, top, dist):
            return Owner(ROLE_USER, self._named(path, site), dist)
        if site:
            role = ROLE_LIBRARY if top in LIBRARIES else ROLE_THIRD_PARTY
            return Owner(role, "site:" + relative.replace(os.sep, "/"), dist)
        if path.startswith(self._stdlib):
            return Owner(ROLE_LIBRARY, "stdlib:" + path[len(self._stdlib) :].replace(os.sep, "/"))
        package = _package_of(path)
        if package in LIBRARIES:  # a source build, run from its checkout
            return Owner(ROLE_LIBRARY, "site:" + path[path.rindex(f"{os.sep}{package}{os.sep}") + 1 :], package)
        return Owner(ROLE_THIRD_PARTY if dist else ROLE_USER, self._named(path, ""), dist)

    def distribution(self, site: str, top: str) -> str:
        """Name of the distribution that installed the top-level module `top` into the folder `site`; "" if unknown."""
        names = self._dists.get(site)
        if names is None:
            names = self._dists[site] = {}
            for entry in _listing(site):
                stem, ending = os.path.splitext(entry)
                if ending in {".dist-info", ".egg-info"}:
                    names[_normal(stem.split("-", 1)[0])] = stem.split("-", 1)[0]
        key = _normal(top)
        if key not in names:
            names[key] = _by_top_level(site, top)
        return names[key]

    # ── the parts ───────────────────────────────────────────────────────────────────────────────
    def _unfiled(self, filename: str, module: str) -> Owner:
        if filename.startswith("<frozen"):
            return Owner(ROLE_LIBRARY, "stdlib:" + filename)
        if any(mark in filename for mark in _GENERATED):
            return Owner(ROLE_GENERATED, "cache:" + filename)
        if module and module != "__main__":
            file = getattr(sys.modules.get(module), "__file__", None)
            if isinstance(file, str) and not file.startswith("<"):
                owner = self.of(file)
                role = ROLE_GENERATED if owner.role == ROLE_USER else owner.role
                return Owner(role, "cache:" + filename, owner.dist)
            return Owner(ROLE_GENERATED, "cache:" + filename)
        return Owner(ROLE_USER, "target:" + filename)  # python -c, a notebook's cell

    def _is_own(self, path: str, top: str, dist: str) -> bool:
        if self._own_names and ({_normal(top), _normal(dist)} & self._own_names):
            return True
        return any(path == own or path.startswith(own.rstrip(os.sep) + os.sep) for own in self._own_paths)

    def _named(self, path: str, site: str) -> str:
        for root, folder in (("site", site), ("target", self._target), ("cwd", self._cwd)):
            if folder and path.startswith(folder):
                return f"{root}:{path[len(folder) :]}".replace(os.sep, "/")
        return "abs:" + path

    def _editable_dist(self, path: str) -> str:
        """Distribution that has `path` by an editable installation, unless the target's script is part of it."""
        if path.startswith(self._stdlib):
            return ""
        if self._editable is None:
            self._editable = [found for site in _sites() for found in _editables(site)]
        for folder, dist in self._editable:
            if path.startswith(folder) and not self._target.startswith(folder):
                return dist
        return ""


def _normal(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def _cache_folders() -> tuple[str, ...]:
    found = (os.environ.get(name) for name in _CACHES)
    return tuple(os.path.realpath(folder) + os.sep for folder in found if folder)


def _site_of(path: str) -> str:
    """The site-packages folder that holds `path`, with its separator; "" if none does."""
    end = max(path.rfind(mark) + len(mark) if mark in path else 0 for mark in _SITES)
    return path[:end]


def _sites() -> list[str]:
    return [entry + os.sep for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]


def _package_of(path: str) -> str:
    """Top-level package of a file by the modules that are loaded: the folder that a library's `__path__` names."""
    for name in LIBRARIES:
        folders = getattr(sys.modules.get(name), "__path__", None) or ()
        for folder in list(folders):
            if isinstance(folder, str) and path.startswith(os.path.realpath(folder) + os.sep):
                return name
    return ""


def _listing(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _by_top_level(site: str, top: str) -> str:
    """The distribution whose `top_level.txt` lists `top` (distributions named unlike their packages)."""
    for entry in _listing(site):
        if entry.endswith(".dist-info") and top in _read(os.path.join(site, entry, "top_level.txt")).split():
            return entry.split("-", 1)[0]
    return ""


def _editables(site: str) -> list[tuple[str, str]]:
    """(folder, distribution) of the editable installations in a site-packages folder (PEP 610, and old egg-links)."""
    found = []
    for entry in _listing(site):
        if entry.endswith(".dist-info"):
            text = _read(os.path.join(site, entry, "direct_url.json"))
            if '"editable"' in text:
                folder = _editable_folder(text)
                if folder:
                    found.append((folder, entry.split("-", 1)[0]))
        elif entry.endswith(".egg-link"):
            folder = _read(os.path.join(site, entry)).split("\n", 1)[0].strip()
            if folder:
                found.append((os.path.realpath(folder) + os.sep, entry.removesuffix(".egg-link")))
    return found


def _editable_folder(text: str) -> str:
    import json
    from urllib.parse import unquote, urlsplit

    try:
        record = json.loads(text)
        if not record["dir_info"]["editable"]:
            return ""
        return os.path.realpath(unquote(urlsplit(record["url"]).path)) + os.sep
    except (ValueError, KeyError, TypeError):
        return ""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
