"""The bytes of a trace file, line by line: plain or gzip, in bounded memory, however the file ends."""

from __future__ import annotations

import gzip
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, cast

from cudagraph_doctor.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINE_LIMIT = 4 * 1024 * 1024
"""Bytes of one line above which it is skipped as damaged. The longest honest line is a source text of 256 KiB."""

_GZIP_MAGIC = b"\x1f\x8b"


class Lines:
    """The complete lines of one file. After the iteration, `skipped` and `torn` say what was not handed out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped = 0
        """Lines over the limit, and the unreadable rest of a damaged gzip stream."""
        self.torn = False
        """The last line handed out had no newline: it was being written, or the copy is incomplete."""

    def __iter__(self) -> Iterator[bytes]:
        """Yields each line without its newline. Raises TraceError if the file cannot be opened."""
        with _open(self.path) as stream:
            while True:
                try:
                    line = stream.readline(LINE_LIMIT)
                except (EOFError, zlib.error, OSError):
                    # A gzip stream that was cut off or damaged: what came before is good.
                    self.skipped += 1
                    return
                if not line:
                    return
                if line[-1] == 0x0A:  # newline
                    yield line
                elif len(line) < LINE_LIMIT:
                    self.torn = True
                    yield line
                else:
                    self.skipped += 1
                    self._skip_rest(stream)

    def _skip_rest(self, stream: BinaryIO) -> None:
        while True:
            try:
                rest = stream.readline(LINE_LIMIT)
            except (EOFError, zlib.error, OSError):
                return
            if not rest or rest[-1] == 0x0A:
                return


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    try:
        raw = path.open("rb")
    except OSError as error:
        raise TraceError(
            f"cannot read trace {path}: {error.strerror or error}", "check the path and its permissions"
        ) from None
    with raw:
        # By content, not by name: an unpacked trace that kept its .gz name is read all the same.
        if raw.peek(2)[:2] == _GZIP_MAGIC:
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield cast("BinaryIO", unpacked)
        else:
            yield raw
