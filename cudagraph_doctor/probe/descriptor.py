"""One append-only file that the target cannot take away, and that never turns into another file.

The descriptor is duplicated to a high number, out of the way of `for fd in range(3, 256): os.close(fd)`. The target may
still close it, or put another file on its number; so its identity is compared before each write. A file description
carries a signal number for O_ASYNC (`F_SETSIG`, fcntl(2)) that means nothing without O_ASYNC and is 0 everywhere else:
ours carries a tag there, which one cheap `fcntl` reads back (0.3 µs, against 1.8 µs for `fstat`). Where the tag does
not hold, `fstat` is asked each time.
"""

from __future__ import annotations

import fcntl
import os
from time import monotonic_ns

LOWEST = 900
"""Preferred number: high, and below FD_SETSIZE for targets that select() on everything."""
TAG = 61
F_SETSIG, F_GETSIG = 10, 11
LOOK_AGAIN = 50_000_000
"""Nanoseconds after which a write asks whether the file still has a name."""
HEAD = 200
"""Bytes at the beginning of the file by which it is known."""
_COPY = 1 << 20


class Descriptor:
    """An append-only file of ours, at `path`. Errors of the operating system are raised as OSError."""

    __slots__ = ("_begins", "_identity", "_looked", "_tagged", "fd", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = -1
        self._tagged = False
        self._identity = (0, 0)
        self._looked = 0
        self._begins = b""
        self._adopt(os.open(path, _FLAGS | os.O_EXCL, 0o644))

    def write(self, data: bytes) -> int:
        """Hands `data` over in one system call; returns how many bytes the kernel took.

        Raises:
            OSError: the file cannot be written or, once lost, not be opened again.
        """
        try:
            mine = self._tagged and fcntl.fcntl(self.fd, F_GETSIG) == TAG
        except OSError:
            mine = False
        if not mine or monotonic_ns() - self._looked > LOOK_AGAIN:
            self.recover()
        written = os.write(self.fd, data)
        if not self._begins:
            self._begins = data[: min(written, HEAD)]
        return written

    def recover(self) -> None:
        """Makes sure that `fd` is our file and that the file has its name.

        A closed or replaced descriptor is opened again by path. A file whose folder was deleted is written anew, with
        all it held.

        Raises:
            OSError: neither is possible.
            FileNotFoundError: the descriptor and the name are both gone: what was written is lost.
        """
        self._looked = monotonic_ns()
        try:
            found = os.fstat(self.fd)
        except OSError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != self._identity:
            self.fd = -1  # the number is somebody else's now, or nobody's
            named = os.stat(self.path)
            if (named.st_dev, named.st_ino) != self._identity:
                raise FileNotFoundError(2, "the trace file was replaced", self.path)
            self._adopt(self._open_again())
        elif found.st_nlink == 0:
            self._write_anew(found.st_size)

    def close(self) -> None:
        """Closes our file, if the number still is ours."""
        try:
            found = os.fstat(self.fd)
            if (found.st_dev, found.st_ino) == self._identity:
                os.close(self.fd)
        except OSError:
            pass
        self.fd = -1

    def renumber(self, number: int) -> None:
        """Moves to the given number, which the caller knows to be ours to use (a parent's, after fork)."""
        if number not in {self.fd, -1}:
            os.dup2(self.fd, number, inheritable=False)
            os.close(self.fd)
            self.fd = number

    def _open_again(self) -> int:
        """Opens our file by name. Its inode number may be a new file's by now, so its beginning has to be ours too."""
        low = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        if not self._begins or os.pread(low, len(self._begins), 0) != self._begins:
            os.close(low)
            raise FileNotFoundError(2, "the trace file was replaced", self.path)
        return low

    def _adopt(self, low: int) -> None:
        """Takes over a descriptor just opened, at a high number."""
        self.fd = _high(low)
        found = os.fstat(self.fd)
        self._identity = (found.st_dev, found.st_ino)
        self._looked = monotonic_ns()
        try:
            fcntl.fcntl(self.fd, F_SETSIG, TAG)
            self._tagged = fcntl.fcntl(self.fd, F_GETSIG) == TAG
        except OSError:
            self._tagged = False

    def _write_anew(self, size: int) -> None:
        """Copies an unlinked file of ours to its old name and goes on there."""
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        old, number = self.fd, self.fd
        fresh = os.open(self.path, _FLAGS | os.O_EXCL, 0o644)
        old = os.dup(old)
        try:
            done = _copy(old, fresh, 0, size)
            self._adopt(fresh)
            if self.fd != number:
                self.renumber(number)
            _copy(old, self.fd, done, os.fstat(old).st_size)  # what other threads wrote meanwhile
        finally:
            os.close(old)


_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def _copy(source: int, target: int, start: int, end: int) -> int:
    while start < end:
        data = os.pread(source, min(_COPY, end - start), start)
        if not data:
            break
        start += os.write(target, data)
    return start


def _high(low: int) -> int:
    """The same file at a high number; the low one is closed. Where no high number is free, the low one is kept."""
    for lowest in (LOWEST, 200):
        try:
            fd = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, lowest)
        except OSError:
            continue  # above the limit of open files
        os.close(low)
        return fd
    return low
