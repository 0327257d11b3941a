"""Finds and loads checkers: ours and plugins through one door, the entry-point group `cudagraph_doctor.checkers`.

Finding imports nothing of a plugin; loading does, and names the package that broke. Our own checkers are in the group
when the package is installed; from a source checkout the same entry points are read from `BUILTIN`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from cudagraph_doctor import __version__
from cudagraph_doctor.api import Checker
from cudagraph_doctor.engine.entry_points import EntryPoint, entry_points
from cudagraph_doctor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudagraph_doctor.findings import Rule

GROUP = "cudagraph_doctor.checkers"
PACKAGE = "cudagraph-doctor"

BUILTIN = (
    EntryPoint("capture_status", "cudagraph_doctor.checkers.capture_status:CaptureStatus"),
    EntryPoint("context_binding", "cudagraph_doctor.checkers.context_binding:ContextBinding"),
    EntryPoint("frozen_values", "cudagraph_doctor.checkers.frozen_values:FrozenValues"),
    EntryPoint("launch_resources", "cudagraph_doctor.checkers.launch_resources:LaunchResources"),
    EntryPoint("module_loading", "cudagraph_doctor.checkers.module_loading:ModuleLoading"),
    EntryPoint("pointer_lifetime", "cudagraph_doctor.checkers.pointer_lifetime:PointerLifetime"),
)
"""Our own entry points, as pyproject.toml declares them (a test holds the two together)."""


class Plugin(Struct, frozen=True):
    """A checker that was found, not loaded."""

    entry_point: EntryPoint
    package: str
    version: str

    @property
    def display_name(self) -> str:
        """`my-checkers 1.2 (capture_extra)`."""
        return f"{self.package} {self.version} ({self.entry_point.name})"


class LoadedChecker(Struct, frozen=True):
    """A checker, ready to run, with the package it came from."""

    checker: Checker
    plugin: Plugin

    @property
    def name(self) -> str:
        """The checker's name."""
        return self.checker.name

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Its rules, by id."""
        return tuple(sorted(self.checker.rules, key=lambda rule: rule.id))


class BrokenPluginError(UsageError):
    """A checker cannot be loaded."""

    def __init__(self, plugin: Plugin, why: str) -> None:
        hint = (
            "this is a bug in cudagraph-doctor: please report it"
            if plugin.package == PACKAGE
            else f"update or uninstall it: pip install -U {plugin.package}"
        )
        super().__init__(f"checker {plugin.display_name} cannot be loaded: {why}", hint)
        self.plugin = plugin


def find() -> list[Plugin]:
    """Every checker that is installed, ours first, then by package and name."""
    found: dict[tuple[str, str], Plugin] = {}
    # Ours come from above: the metadata of an editable install may be older than its source.
    for entry_point, package, version in entry_points(GROUP, but=PACKAGE):
        found.setdefault((package, entry_point.name), Plugin(entry_point, package, version))
    ours = [Plugin(entry_point, PACKAGE, __version__) for entry_point in BUILTIN]
    return ours + [found[key] for key in sorted(found)]


def load(plugins: Iterable[Plugin]) -> list[LoadedChecker]:
    """Imports and makes the checkers.

    Raises:
        BrokenPluginError: one cannot be imported, or is not a checker.
        UsageError: two checkers share a name, or two rules an id; the message names both packages.
    """
    loaded = [_load(plugin) for plugin in plugins]
    _refuse_duplicates(loaded)
    return loaded


def load_all() -> list[LoadedChecker]:
    """All installed checkers."""
    return load(find())


def _load(plugin: Plugin) -> LoadedChecker:
    try:
        target = plugin.entry_point.load()
    except Exception as error:
        raise BrokenPluginError(plugin, f"{type(error).__name__}: {_first_line(error)}") from error
    if not (isinstance(target, type) and issubclass(target, Checker)):
        raise BrokenPluginError(plugin, f"{plugin.entry_point.value} is not a subclass of cudagraph_doctor.api.Checker")
    try:
        checker = target()
        if not checker.name:
            raise TypeError("it has no name")
        rules = tuple(checker.rules)
        if not rules or not all(hasattr(rule, "id") for rule in rules):
            raise TypeError("it has no rules")
    except Exception as error:
        raise BrokenPluginError(plugin, f"{type(error).__name__}: {_first_line(error)}") from error
    return LoadedChecker(checker, plugin)


def _refuse_duplicates(loaded: list[LoadedChecker]) -> None:
    names: dict[str, LoadedChecker] = {}
    rules: dict[str, LoadedChecker] = {}
    for one in loaded:
        if other := names.get(one.name):
            raise UsageError(
                f"two checkers are named {one.name}: {other.plugin.display_name} and {one.plugin.display_name}",
                "uninstall one of the two packages",
            )
        names[one.name] = one
        for rule in one.rules:
            if other := rules.get(rule.id):
                raise UsageError(
                    f"rule {rule.id} is defined twice: by {other.plugin.display_name} and {one.plugin.display_name}",
                    "uninstall one of the two packages, or ask its author to take a prefix of their own",
                )
            rules[rule.id] = one


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or "no message"
