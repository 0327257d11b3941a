"""Hands each record to the kernel at once: one JSON line, one write(2), nothing buffered.

What the kernel has survives SIGSEGV, abort, SIGKILL and `os._exit`. The writer never raises: what it cannot write it
counts, in the shared memory that the launcher reads (a full disk cannot be told about in the trace itself) and, once
writing works again, as a `lost` record.
"""

from __future__ import annotations

import os
import threading
from json.encoder import JSONEncoder, encode_basestring
from time import monotonic_ns

from cudagraph_doctor._wire import SLOTS_SUFFIX, TRACE_SUFFIX
from cudagraph_doctor.probe.descriptor import Descriptor
from cudagraph_doctor.probe.sequence import Sequence
from cudagraph_doctor.probe.slots import Slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FAULT_SUFFIX = ".fault"
RETRY = 1_000_000_000
"""Nanoseconds between two attempts to get back a trace file that is gone."""


class Writer:
    """Writes the trace of one process.

    Args:
        folder: the run's folder; made if it is missing.
        first: gives the records that a fresh file begins with, each as (kind, fields).
    """

    def __init__(self, folder: str, first: Callable[[], list[tuple[str, dict[str, Any]]]]) -> None:
        self.folder = folder
        self.sequence = Sequence()
        self._first = first
        self._tid = threading.get_native_id
        self._encode = _encoder()
        self._file: Descriptor | None = None
        self._torn = False
        self._lost = 0
        self._why = ""
        self._tried = 0
        self.name = ""
        self.before_next: Callable[[], None] | None = None
        """Called once, before the next record: to write one first that would be worth nothing if none followed."""
        self.slots: Slots
        self._open()

    @property
    def path(self) -> str:
        """Path of the trace file."""
        return os.path.join(self.folder, self.name + TRACE_SUFFIX)

    def write(self, kind: str, fields: dict[str, Any]) -> int:
        """Writes a record and returns its sequence number, whether or not the file took it."""
        if self.before_next is not None:
            self._tell_before()
        q = self.sequence.draw()
        record: dict[str, Any] = {"k": kind, "q": q, "t": monotonic_ns(), "tid": self._tid()}
        record.update(fields)
        self._put(self._line(record))
        return q

    def write_text(self, kind: str, fields: str) -> int:
        """As `write`, for records that are many: their fields come as JSON text, each with a comma before it."""
        if self.before_next is not None:
            self._tell_before()
        q = self.sequence.draw()
        line = f'{{"k":"{kind}","q":{q},"t":{monotonic_ns()},"tid":{self._tid()}{fields}}}\n'
        self._put(line.encode("utf-8", "replace"))
        return q

    def fork(self) -> None:
        """In a forked child: leaves the parent's file alone and begins one of its own."""
        number = -1
        if self._file is not None:
            number = self._file.fd
            self._file.close()
        self.sequence = Sequence()
        self._torn, self._lost, self._why = False, 0, ""
        self.before_next = None
        self._open(number)

    def settle(self) -> None:
        """Makes sure, at the end of the process, that the file has its name."""
        if self._file is not None:
            try:
                self._file.recover()
            except OSError as error:
                self._note_lost(1, error)

    # ── the file ─────────────────────────────────────────────────────────────────────────────

    def _open(self, number: int = -1) -> None:
        self.name = _name()
        try:
            os.makedirs(self.folder, exist_ok=True)
            self._file = Descriptor(self.path)
            self._file.renumber(number)
        except OSError as error:
            self._file = None
            self._why, self._tried = str(error), monotonic_ns()
        slots = os.path.join(self.folder, self.name + SLOTS_SUFFIX)
        if hasattr(self, "slots"):
            self.slots.move_to(slots)
        else:
            self.slots = Slots(slots)
        for kind, fields in self._first():
            self.write(kind, fields)

    def _put(self, line: bytes) -> None:
        file = self._file
        if file is None and not (self._due() and self._reopen()):
            self._note_lost(1, None)
            return
        file = self._file
        assert file is not None
        try:
            if self._lost:
                self._tell_lost(file)
            if self._torn:
                line = b"\n" + line
            self._torn = file.write(line) != len(line)
            if self._torn:
                self._note_lost(1, None)
        except OSError as error:
            if file.fd < 0:
                self._file = None  # the next record tries again
            self._note_lost(1, error)

    def _due(self) -> bool:
        """Whether it is time to try again."""
        now = monotonic_ns()
        if now - self._tried < RETRY:
            return False
        self._tried = now
        return True

    def _reopen(self) -> bool:
        """Begins a new file after the old one and its descriptor were both lost."""
        try:
            os.makedirs(self.folder, exist_ok=True)
            if os.path.exists(self.path):
                self.name = _name()
            self._file = Descriptor(self.path)
        except OSError as error:
            self._why = str(error)
            return False
        lost, self._lost, self._torn = self._lost, 0, False
        for kind, fields in self._first():
            self.write(kind, fields)
        self._lost += lost
        return True

    def _note_lost(self, count: int, error: OSError | None) -> None:
        self._lost += count
        if error is not None:
            self._why = error.strerror or str(error)
        self.slots.lost(count, (error.errno or 0) if error is not None else 0)

    def _tell_lost(self, file: Descriptor) -> None:
        """Writes down what was lost, now that writing may work again."""
        fields = {"k": "lost", "q": self.sequence.draw(), "t": monotonic_ns(), "tid": self._tid()}
        line = self._line({**fields, "count": self._lost, "why": self._why or "a write was cut short"})
        if self._torn:
            line = b"\n" + line
        written = file.write(line)
        self._torn = written != len(line)
        if not self._torn:
            self.slots.lost(-self._lost, 0)  # told here, so the launcher need not
            self._lost = 0

    def _tell_before(self) -> None:
        tell, self.before_next = self.before_next, None
        if tell is not None:
            tell()

    # ── the line ─────────────────────────────────────────────────────────────────────────────

    def _line(self, record: dict[str, Any]) -> bytes:
        try:
            text = self._encode(record)
        except (ValueError, TypeError, RecursionError):
            text = self._encode(_plain(record, 8))
        # A lone surrogate (a file name that is not UTF-8) has no place in UTF-8 and becomes "?".
        return (text + "\n").encode("utf-8", "replace")


def _encoder() -> Callable[[Any], str]:
    """The C encoder of the `json` module, set up once: `JSONEncoder.encode` sets it up for each record."""
    try:
        from json import encoder

        make: Any = getattr(encoder, "c_make_encoder")  # noqa: B009  # not in the stubs
        chunks = make(None, _told, encode_basestring, None, ":", ",", False, False, False)
    except (AttributeError, TypeError):
        return JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_told).encode
    join = "".join
    return lambda record: join(chunks(record, 0))


def _told(value: object) -> str:
    """What stands for an object that JSON has no word for. Its `__repr__` is the target's code and is not run."""
    return f"<{type(value).__module__}.{type(value).__qualname__}>"


def _plain(value: Any, depth: int) -> Any:
    """A value that JSON can say, without cycles, NaN or odd keys."""
    if isinstance(value, float):
        return value if value - value == 0.0 else repr(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if depth and isinstance(value, dict):
        return {str(key): _plain(item, depth - 1) for key, item in value.items()}
    if depth and isinstance(value, (list, tuple)):
        return [_plain(item, depth - 1) for item in value]
    return _told(value)


def _name() -> str:
    """`<host>-<pid>-<start>-<random>`: unique over hosts that share a folder, and over lives of a process id."""
    host = "".join(c if c.isalnum() else "_" for c in os.uname().nodename)[:40] or "host"
    return f"{host}-{os.getpid()}-{start_time(os.getpid())}-{os.urandom(4).hex()}"


def start_time(pid: int) -> int:
    """When a process started, in clock ticks after boot; 0 where /proc does not tell."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0
