"""Takes out of a record what names people, machines and data, and leaves what a diagnosis needs.

Kept: kinds, numbers, statuses, API and operator names, qualified functions, lines, file names below named roots.
Left out: host, boot and run ids, arguments, environment, configuration, values of Python variables, and the folders of
absolute paths wherever they stand in a text.
"""

from __future__ import annotations

import re
from typing import Any

from cudagraph_doctor._wire import KINDS

_LEFT_OUT: dict[str, tuple[str, ...]] = {
    "header": ("host", "boot", "run", "env", "config", "parent"),
    "capability": (),
    "op": ("values",),
    "process": ("argv",),
    "slot": ("value", "left"),
    "slot-change": ("value",),
    "seal": ("fault",),
}
_ABSOLUTE = re.compile(r"(?:(?<![\w.:/\\<-])|(?<=abs:))(?:[A-Za-z]:[\\/]|/)[^\s'\"<>|,;)\]}]*[\\/](?=[^\\/\s]*)")
"""The folders of an absolute path in a text."""


def redacted(record: dict[str, Any]) -> dict[str, Any]:
    """The record without what names people, machines or data. Kinds that are not known keep only their number."""
    kind = record.get("k")
    if kind not in KINDS:
        return {key: record[key] for key in ("k", "q", "t", "tid") if key in record}
    kept = {key: value for key, value in record.items() if key not in _LEFT_OUT.get(str(kind), ())}
    if kind == "header" and kept.get("argv"):
        kept["argv"] = [_script(kept["argv"])]
    return {key: _clean(value) for key, value in kept.items()}


def _script(argv: list[Any]) -> str:
    """Name of the script among the arguments, without its folder."""
    for argument in argv:
        if isinstance(argument, str) and argument.endswith(".py"):
            return argument.replace("\\", "/").rpartition("/")[2]
    return "…"


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _ABSOLUTE.sub("…/", value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    return value
