"""Finds and reads the configuration; what it does not understand is an error that names the nearest it knows."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from cudagraph_doctor.errors import UsageError
from cudagraph_doctor.gate.config import Budgets, Config, Configuration
from cudagraph_doctor.gate.nearest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

TABLE = "cudagraph-doctor"
_OWN_FILE = "cudagraph-doctor.toml"


def find_configuration(cwd: str) -> Configuration:
    """The configuration of the nearest folder upwards that has one; the defaults, seen from `cwd`, where none has.

    In one folder, cudagraph-doctor.toml is taken before pyproject.toml.

    Raises:
        UsageError: it cannot be read or understood.
    """
    folder = os.path.realpath(cwd)
    while True:
        own = os.path.join(folder, _OWN_FILE)
        if os.path.isfile(own):
            return read_configuration(own)
        shared = os.path.join(folder, "pyproject.toml")
        if os.path.isfile(shared) and _may_hold_table(shared):
            found = _from_pyproject(shared)
            if found is not None:
                return found
        parent = os.path.dirname(folder)
        if parent == folder:
            return Configuration(root=os.path.realpath(cwd))
        folder = parent


def read_configuration(path: str) -> Configuration:
    """The configuration in one file.

    Raises:
        UsageError: it cannot be read or understood, or a pyproject.toml has no such table.
    """
    if os.path.basename(path) == "pyproject.toml":
        found = _from_pyproject(path)
        if found is None:
            raise UsageError(f"{path} has no table [tool.{TABLE}]", "name another file with --config")
        return found
    return _understood(_toml(path), path, "")


def check_codes(configuration: Configuration, known: Callable[[str], object]) -> None:
    """Every code of the configuration must be a rule, a slug or a checker.

    Args:
        configuration: what was read.
        known: raises UsageError for a name that is none.

    Raises:
        UsageError: with the file and the key in front of what `known` says.
    """
    config = configuration.config
    named = {
        "select": config.select,
        "ignore": config.ignore,
        "require-checked": config.require_checked,
        "severity": tuple(config.severity),
        **{f"per-file-ignores.{pattern}": codes for pattern, codes in config.per_file_ignores.items()},
    }
    for key, codes in named.items():
        for code in codes:
            try:
                known(code)
            except UsageError as error:
                raise UsageError(f"{configuration.path}: {key}: {error.message}", error.hint) from None


def _may_hold_table(path: str) -> bool:
    """Most projects have none: their file is not parsed, and an error in it is not ours to tell."""
    try:
        with open(path, "rb") as stream:
            return TABLE.encode() in stream.read()
    except OSError:
        return False


def _from_pyproject(path: str) -> Configuration | None:
    tool = _toml(path).get("tool", {})
    if not isinstance(tool, dict):
        raise UsageError(f"{path}: tool: expected a table", "write [tool.cudagraph-doctor]")
    misspelt = next((name for name in tool if name != TABLE and _plain(name) == _plain(TABLE)), None)
    if misspelt is not None:
        raise UsageError(f"{path}: unknown table [tool.{misspelt}]", f"did you mean [tool.{TABLE}]?")
    if TABLE not in tool:
        return None
    return _understood(tool[TABLE], path, f"tool.{TABLE}.")


def _toml(path: str) -> dict[str, Any]:
    import tomllib

    try:
        with open(path, "rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}", "name another with --config FILE") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no UTF-8 text (byte {error.start})", "save it as UTF-8") from error
    except RecursionError as error:
        raise UsageError(f"{path} is nested too deeply", "its tables are at most two deep") from error
    except ValueError as error:  # tomllib.TOMLDecodeError, and numbers that Python refuses
        raise UsageError(f"{path} is no TOML: {error}", "correct it") from error


def _understood(table: Any, path: str, prefix: str) -> Configuration:
    import msgspec

    if not isinstance(table, dict):
        raise UsageError(f"{path}: [{prefix.rstrip('.')}] is no table", "see docs/configuration.md")
    _refuse_unknown(table, Config, path, prefix)
    budgets = table.get("budgets")
    if isinstance(budgets, dict):
        _refuse_unknown(budgets, Budgets, path, f"{prefix}budgets.")
    try:
        config = msgspec.convert(table, Config)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        key = where.strip("`.").replace("[...]", "")
        raise UsageError(f"{path}: {prefix}{key or '(top)'}: {_in_toml(what)}", "see docs/configuration.md") from error
    from cudagraph_doctor.gate.conditions import parse_condition, parse_size

    try:
        for text in config.fail_on_change:
            parse_condition(text)
        if isinstance(config.budgets.pool, str):
            parse_size(config.budgets.pool)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", error.hint) from None
    return Configuration(config, path, os.path.dirname(os.path.realpath(path)))


def _refuse_unknown(table: dict[str, Any], struct: type[Config | Budgets], path: str, prefix: str) -> None:
    known = struct.__struct_encode_fields__
    for key in table:
        if key not in known:
            raise UsageError(f"{path}: unknown key {prefix}{key}", did_you_mean(key, known))


def _in_toml(text: str) -> str:
    """The words of msgspec for types, in those of TOML."""
    words = {
        "`object`": "a table",
        "`array`": "a list",
        "`str`": "a string",
        "`int`": "a number",
        "`bool`": "true or false",
    }
    text = text.replace(" | null`", "`")
    for ours, theirs in words.items():
        text = text.replace(ours, theirs)
    return text[:1].lower() + text[1:]


def _plain(name: str) -> str:
    return re.sub(r"[-_.\s]+", "", name).lower()
