"""What the configuration can say: `[tool.cudagraph-doctor]` in pyproject.toml, or cudagraph-doctor.toml."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

Level: TypeAlias = Literal["error", "warning", "note"]
Natural: TypeAlias = Annotated[int, Meta(ge=0)]
Names: TypeAlias = tuple[str, ...]


class Budgets(Struct, frozen=True, rename="kebab"):
    """What a run may need at most."""

    nodes: Natural | None = None
    """Of each graph."""
    pool: Natural | str | None = None
    """Bytes that one capture allocates in its pool: a number, or `"512 MiB"`."""
    escapes: Natural | None = None
    """Pieces of work that a capture missed (CGD113), in the whole run."""
    skips: Natural | None = None
    """Regions that torch.compile did not graph (CGD951), in the whole run."""
    modules: Natural | None = None
    """Modules loaded inside capture windows, in the whole run."""


class Config(Struct, frozen=True, rename="kebab"):
    """The keys, each as its option on the command line says it. An option that is given wins over its key."""

    select: Names = ()
    ignore: Names = ()
    per_file_ignores: dict[str, Names] = field(default_factory=dict)
    """Codes that do not count in files; the pattern is seen from the configuration's folder."""
    severity: dict[str, Level] = field(default_factory=dict)
    """Another level for a rule's findings."""
    own: Names = ()
    fail_on: Literal["error", "warning", "note", "never"] | None = None
    strict: bool | None = None
    allow_no_capture: bool | None = None
    require_checked: Names = ()
    baseline: str | None = None
    """Path of the baseline, from the configuration's folder."""
    fail_on_change: Names = ()
    budgets: Budgets = Budgets()
    expected_captures: Natural | dict[str, Natural] = 0
    """Captures that must have completed: their number, or one for each `path` or `path::function` pattern."""


class Configuration(Struct, frozen=True):
    """A configuration and where it came from."""

    config: Config = Config()
    path: str = ""
    """Of the file; empty where there is none."""
    root: str = ""
    """Folder that its paths are seen from."""
