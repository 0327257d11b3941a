"""The bytes of a trace file, line by line: plain or gzip, in bounded memory, however the file ends."""

from __future__ import annotations

import gzip
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cudagraph_doctor.errors import TraceError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from pathlib import Path

LINE_LIMIT = 4 * 1024 * 1024
"""Bytes of one line above which it is skipped as damaged. The longest honest line is a source text of 256 KiB."""

_BLOCK = 256 * 1024
"""Bytes read at once: many lines, so that a line costs little; few, so that a long one is noticed in time."""
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
            rest: bytes | None = b""
            """What of a line was read so far; None: it is too long, its end is awaited."""
            while True:
                try:
                    block = stream.read1(_BLOCK)
                except (EOFError, zlib.error, OSError):
                    # A gzip stream that was cut off or damaged: what came before is good.
                    self.skipped += 1
                    return
                if not block:
                    break
                *lines, end = block.split(b"\n")
                if lines:
                    if rest is None:
                        del lines[0]
                    elif len(rest) + len(lines[0]) < LINE_LIMIT:
                        lines[0] = rest + lines[0]
                    else:
                        self.skipped += 1
                        del lines[0]
                    yield from lines
                    rest = end
                elif rest is not None:
                    rest += end
                if rest is not None and len(rest) >= LINE_LIMIT:
                    self.skipped += 1
                    rest = None
            if rest:
                self.torn = True
                yield rest


@contextmanager
def _open(path: Path) -> Iterator[io.BufferedReader | gzip.GzipFile]:
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
                yield unpacked
        else:
            yield raw
