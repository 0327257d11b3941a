"""Where a location lies for a CI system: a path from the repository's root, columns in characters."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from cudagraph_doctor._wire import ROOTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.report import Report, Roots

_ROOTED = re.compile(rf"^(?:{'|'.join(ROOTS)}):")
_DRIVE = re.compile(r"^[A-Za-z]:/")
_NO_FILE = re.compile(r"^(?:<.*>|\w+::.*|\?)$")
"""Code without a file: `<string>`, an operator's name, a source that was not recorded."""

HIGHEST_LINE = 2**31 - 1
"""What readers of SARIF and of JUnit hold a line number in."""


class Region(Struct, frozen=True):
    """Lines and columns from 1; columns count code points, and `end_column` is the one after the last."""

    line: int
    end_line: int
    column: int | None = None
    end_column: int | None = None


def repository_path(roots: Roots, file: str) -> str | None:
    """A location's file from the repository's root, with slashes; None where it lies outside, or is no file.

    Without a known repository, relative paths count as lying in it.
    """
    if _NO_FILE.match(file) or _ROOTED.match(file):
        return None
    path = absolute_path(roots, file)
    if roots.repository:
        repository = slashed(roots.repository).rstrip("/")
        head = path[: len(repository) + 1]
        same = head.lower() == f"{repository}/".lower() if _DRIVE.match(repository) else head == f"{repository}/"
        return path[len(repository) + 1 :] if same else None
    return None if _is_absolute(path) or path.startswith("..") else path


def absolute_path(roots: Roots, file: str) -> str:
    """The file's path from the working directory, normalised and slashed; relative where that is not known."""
    path = slashed(file)
    if roots.cwd and not _is_absolute(path):
        path = f"{slashed(roots.cwd).rstrip('/')}/{path}"
    return posixpath.normpath(path)


def is_file(file: str) -> bool:
    """Whether a location's file is a file at all."""
    return not _NO_FILE.match(file)


def shown_path(file: str) -> str:
    """A recorded path without its root's name: `site:torch/_tensor.py` is `torch/_tensor.py`."""
    return _ROOTED.sub("", file, count=1)


def where(place: Location | None) -> str:
    """`decode.py:24 in generate`."""
    if place is None:
        return "no Python line"
    function = f" in {place.function}" if place.function not in (None, "<module>") else ""
    return f"{shown_path(place.file)}:{place.line}{function}"


def region(report: Report, process: int, place: Location) -> Region:
    """A location's lines and columns, held within what the formats can carry."""
    line = min(max(place.line, 1), HIGHEST_LINE)
    end = min(max(place.end_line or line, line), HIGHEST_LINE)
    if place.column is None or place.end_column is None:
        return Region(line, end)
    sources = sources_of(report, process)
    start = _characters(_line_of(sources, place, line), place.column)
    stop = _characters(_line_of(sources, place, end), place.end_column)
    if start is None or stop is None or (line == end and stop <= start):
        return Region(line, end)
    return Region(line, end, start + 1, stop + 1)


def sources_of(report: Report, process: int) -> Mapping[int, str]:
    """The recorded texts of one process."""
    return next((info.sources for info in report.processes if info.id == process), {})


def slashed(path: str) -> str:
    """A path of Windows with slashes; a backslash beside slashes is part of a name."""
    return path.replace("\\", "/") if "/" not in path or _DRIVE.match(path.replace("\\", "/")) else path


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or bool(_DRIVE.match(path))


def _line_of(sources: Mapping[int, str], place: Location, line: int) -> str | None:
    text = sources.get(place.source) if place.source is not None else None
    if text is None:
        return None
    lines = text.split("\n")
    return lines[line - 1] if line <= len(lines) else None


def _characters(line: str | None, column: int) -> int | None:
    """Python counts columns in bytes of UTF-8."""
    if line is None or column < 0:
        return None
    return len(line.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))
