"""Source files as they first appear in a stack: one `source` record each, with text where it is the user's to see."""

from __future__ import annotations

import os
import sys

from cudagraph_doctor._wire import ROLE_THIRD_PARTY, ROLE_USER, SOURCE_LIMIT
from cudagraph_doctor.probe.ownership import Owner, Ownership

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""The package's folder: frames of it are no part of the target's stack."""
_TOLD = (ROLE_USER, ROLE_THIRD_PARTY)


class Source:
    """A source file that stands in a stack."""

    __slots__ = ("id", "lines", "told")

    def __init__(self, number: int, *, told: bool, lines: tuple[bytes, ...]) -> None:
        self.id = number
        self.told = told
        """Its text may be shown: columns are worth having."""
        self.lines = lines
        """Lines with characters that take more than one byte, by number; empty where there are none."""


class Frames:
    """The source files of this process.

    Args:
        write: writes a record.
        ownership: decides whose a file is.
    """

    def __init__(self, write: Callable[..., int], ownership: Ownership) -> None:
        self._write = write
        self._ownership = ownership
        self._sources: dict[str, Source | None] = {}
        self._count = 0

    def source(self, code: CodeType, module: str) -> Source | None:
        """The source of a code object, recorded on first sight; None for the recorder's own frames."""
        return self.source_of(code.co_filename, module)

    def source_of(self, filename: str, module: str) -> Source | None:
        """The source of a file by the name that its code objects have."""
        try:
            return self._sources[filename]
        except KeyError:
            pass
        if filename.startswith(OURS):
            found = None
        else:
            self._count += 1
            found = self._record(self._count, filename, module)
        self._sources[filename] = found
        return found

    def forget(self) -> None:
        """In a forked child: its file defines no source yet. Numbers go on, so none is given twice."""
        self._sources.clear()

    def column(self, source: Source, line: int, column: int | None) -> int | None:
        """A column in characters; code objects have it in bytes of UTF-8."""
        if column is None or not source.lines or not 0 < line <= len(source.lines):
            return column
        return len(source.lines[line - 1][:column].decode("utf-8", "replace"))

    def _record(self, number: int, filename: str, module: str) -> Source:
        owner = self._ownership.of(filename, module)
        fields: dict[str, Any] = {"id": number, "path": owner.path, "role": owner.role}
        if owner.dist:
            fields["dist"] = owner.dist
        if module:
            fields["module"] = module
        lines: tuple[bytes, ...] = ()
        if owner.role in _TOLD:
            text = _text_of(filename, owner)
            fields.update(_told(text))
            if text and not text.isascii():
                lines = tuple(text.split(b"\n"))
        self._write("source", **fields)
        return Source(number, told=owner.role in _TOLD, lines=lines)


def _text_of(filename: str, owner: Owner) -> bytes | None:
    if not filename.startswith("<"):
        try:
            with open(filename, "rb") as file:
                return file.read(SOURCE_LIMIT + 1)
        except OSError:
            return None
    cached = getattr(sys.modules.get("linecache"), "cache", {}).get(filename)  # a notebook's cell
    if cached is not None and len(cached) == 4:
        return "".join(cached[2]).encode("utf-8", "replace")
    if owner.path == "target:<string>":  # python -c
        return _command()
    return None


def _command() -> bytes | None:
    """The text of `python -c TEXT`, also where a launcher runs it for us."""
    words = list(getattr(sys, "orig_argv", ()))
    return words[words.index("-c") + 1].encode("utf-8", "replace") if "-c" in words[:-1] else None


def _told(text: bytes | None) -> dict[str, Any]:
    if text is None:
        return {"why": "the file cannot be read"}
    if len(text) > SOURCE_LIMIT:
        return {"why": f"larger than {SOURCE_LIMIT // 1024} KiB"}
    from base64 import b64encode
    from hashlib import sha256
    from zlib import compress

    return {"hash": sha256(text).hexdigest(), "text": b64encode(compress(text)).decode("ascii")}
