"""A line that says that work goes on: on a terminal, after a second, and gone when the work is done."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

AFTER = 1.0
"""Seconds; shorter work shows nothing."""
EVERY = 0.5


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Around work that may be long; in a pipe or a file it writes nothing."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_tell, args=(what, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _tell(what: str, done: threading.Event) -> None:
    began = time.monotonic()
    told = False
    wait = AFTER
    while not done.wait(wait):
        with suppress(OSError, ValueError):
            sys.stderr.write(f"\rcudagraph-doctor: {what}, {time.monotonic() - began:.0f} s ")
            sys.stderr.flush()
        told, wait = True, EVERY
    if told:
        with suppress(OSError, ValueError):
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
