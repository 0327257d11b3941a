"""Replay slots: what a replay leaves behind without writing a record, in memory that survives SIGKILL.

`<trace>.slots` is a file of 64-byte units, mapped shared. Unit 0 is the head, the others are slots of eight unsigned
64-bit words, `_wire.SLOT_WORDS`. The launcher reads the file after the process ended, turns it into `replay` records
and removes it.

Head words: 0 the sequence counter, once a C writer shares it; 1 records lost; 2 the errno of the last loss; 3 slots in
use.
"""

from __future__ import annotations

import contextlib
import mmap
import os

from cudagraph_doctor._wire import SLOT_SIZE

CHUNK = 1024 * SLOT_SIZE
"""Bytes that the file grows by."""
HEAD_SEQUENCE, HEAD_LOST, HEAD_ERRNO, HEAD_USED = range(4)


class Slots:
    """The slots of this process. Where the file cannot be made, they live in memory that dies with the process."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.persistent = True
        self._chunks: list[tuple[mmap.mmap, memoryview]] = []
        self._index: dict[int, int] = {}
        self._grow()

    @property
    def head(self) -> memoryview:
        """The eight head words."""
        return self._chunks[0][1][0:8]

    def open(self, exec_id: int) -> memoryview:
        """The slot of an executable graph, eight unsigned 64-bit words; the same one for the same id."""
        index = self.index(exec_id)
        chunk, unit = divmod(index, CHUNK // SLOT_SIZE)
        slot = self._chunks[chunk][1][unit * 8 : unit * 8 + 8]
        slot[0] = exec_id
        return slot

    def index(self, exec_id: int) -> int:
        """Position of the slot of an executable graph in the file, in units of 64 bytes, from 1 on."""
        known = self._index.get(exec_id)
        if known is None:
            known = self._index[exec_id] = len(self._index) + 1
            if (known + 1) * SLOT_SIZE > len(self._chunks) * CHUNK:
                self._grow()
            self.head[HEAD_USED] = known
        return known

    def used(self) -> list[memoryview]:
        """Every slot in use."""
        return [self.open(exec_id) for exec_id in self._index]

    def lost(self, count: int, errno: int) -> None:
        """Notes records that could not be written, for the launcher to tell."""
        head = self.head
        head[HEAD_LOST] += count
        head[HEAD_ERRNO] = errno

    def move_to(self, path: str) -> None:
        """In a forked child: puts a file of its own under the same addresses, so that slots held by hooks stay valid.

        The counts start at 0 again.
        """
        execs = list(self._index)
        self.path = path
        for number, (memory, _view) in enumerate(self._chunks):
            self.persistent = _remap(memory, path, number) and self.persistent
        if self.persistent:
            for exec_id in execs:
                self.open(exec_id)
            self.head[HEAD_USED] = len(execs)

    def remove(self) -> None:
        """Takes the file away; the memory stays."""
        with contextlib.suppress(OSError):
            os.unlink(self.path)

    def _grow(self) -> None:
        """Adds a chunk, its disk space reserved: touching a hole on a full disk would kill the target with SIGBUS."""
        offset = len(self._chunks) * CHUNK
        try:
            if not self.persistent:
                raise OSError
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                os.posix_fallocate(fd, offset, CHUNK)
                memory = mmap.mmap(fd, CHUNK, offset=offset)
            finally:
                os.close(fd)
        except (OSError, ValueError):
            self.persistent = False
            memory = mmap.mmap(-1, CHUNK)
        self._chunks.append((memory, memoryview(memory).cast("Q")))


def _remap(memory: mmap.mmap, path: str, number: int) -> bool:
    """Maps chunk `number` of a new file, or else private memory, over the addresses of `memory`."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protection, fixed = mmap.PROT_READ | mmap.PROT_WRITE, 0x10
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            os.posix_fallocate(fd, number * CHUNK, CHUNK)
            if libc.mmap(address, CHUNK, protection, mmap.MAP_SHARED | fixed, fd, number * CHUNK) == address:
                return True
        finally:
            os.close(fd)
    except OSError:
        pass
    libc.mmap(address, CHUNK, protection, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | fixed, -1, 0)
    return False
