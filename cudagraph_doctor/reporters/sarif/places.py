"""Locations in SARIF's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cudagraph_doctor.reporters.places import absolute_path, is_file, region, repository_path, shown_path, slashed

if TYPE_CHECKING:
    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.report import Report


def location(report: Report, process: int, place: Location | None, message: str | None = None) -> dict[str, Any]:
    """A `location` object; one without a file has a function's name, or only its message."""
    told: dict[str, Any] = {}
    if place is not None:
        if is_file(place.file):
            told["physicalLocation"] = physical(report, process, place)
        name = place.function or (None if is_file(place.file) else place.file)
        if name:
            told["logicalLocations"] = [{"fullyQualifiedName": name, "kind": "function"}]
    if message:
        told["message"] = {"text": message}
    return told


def physical(report: Report, process: int, place: Location) -> dict[str, Any]:
    """File, lines, columns and the source line."""
    where = region(report, process, place)
    told: dict[str, Any] = {"startLine": where.line, "endLine": where.end_line}
    if where.column is not None and where.end_column is not None:
        told |= {"startColumn": where.column, "endColumn": where.end_column}
    if place.code is not None:
        told["snippet"] = {"text": place.code}
    return {"artifactLocation": artifact(report, place.file), "region": told}


def artifact(report: Report, file: str) -> dict[str, Any]:
    """Below the repository relative to its root; below an installed package to that folder; else absolute."""
    inside = repository_path(report.roots, file)
    if inside is not None:
        return {"uri": _quoted(inside), "uriBaseId": "%SRCROOT%"}
    shown = shown_path(file)
    if shown != file and not shown.startswith("/"):
        return {"uri": _quoted(shown), "uriBaseId": "PACKAGES"}
    path = absolute_path(report.roots, slashed(shown))
    if path.startswith("/") or path[1:3] == ":/":
        return {"uri": "file:///" + _quoted(path.lstrip("/"), safe="/:")}
    return {"uri": _quoted(path)}


def _quoted(path: str, safe: str = "/") -> str:
    return quote(path.encode("utf-8", "surrogateescape" if _from_bytes(path) else "replace"), safe=safe)


def _from_bytes(path: str) -> bool:
    """Whether all lone surrogates of the path stand for bytes that are no UTF-8."""
    return all("\udc80" <= c <= "\udcff" for c in path if "\ud800" <= c <= "\udfff")
