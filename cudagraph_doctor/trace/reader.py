"""Reads traces: tolerant, streaming, in bounded memory.

A torn or damaged line is skipped and counted, wherever it stands; a kind of a later version is kept as `Unknown`. Only
what cannot be a trace at all raises, and then one `TraceError` with one clear line.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from cudagraph_doctor._wire import FORMAT, PACK_SUFFIX, SLOTS_SUFFIX, TRACE_SUFFIX, VERSION
from cudagraph_doctor.errors import TraceError, UsageError
from cudagraph_doctor.trace.decode import AnyRecord, decode_line, decode_object
from cudagraph_doctor.trace.events import Header, Seal
from cudagraph_doctor.trace.lines import Lines
from cudagraph_doctor.trace.slots import fold_slots

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Damage(Struct):
    """What could not be read of one process."""

    lines: int = 0
    at_end: bool = False
    """The last of them was its last line, a seal apart."""


class TraceReader:
    """The records of one trace file, once, in the order in which they stand.

    A packed file holds several processes, each beginning with its header. An unsealed process ends with the replay
    counts of the slot file beside the trace.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: list[Damage] = []
        """What was skipped so far, for each process in the file."""

    @property
    def damaged(self) -> int:
        """Lines skipped so far, of the process being read."""
        return self.damage[-1].lines if self.damage else 0

    @property
    def torn_end(self) -> bool:
        """The last of them was the process's last line: it was killed while it wrote, or is writing."""
        return bool(self.damage) and self.damage[-1].at_end

    def __iter__(self) -> Iterator[AnyRecord]:
        """Yields records.

        Raises:
            TraceError: not a trace, empty, of another major version, or not readable at all.
        """
        lines = Lines(self.path)
        header: Header | None = None
        damage = Damage()
        sealed = False
        last_q = skipped = 0
        for line in lines:
            record = decode_line(line)
            if lines.skipped != skipped:
                damage.lines += lines.skipped - skipped
                skipped = lines.skipped
            if record is None:
                if header is None:
                    raise _not_a_trace(self.path, line)
                damage.lines += 1
                damage.at_end = True
                continue
            kind = type(record)
            if kind is Header:
                assert isinstance(record, Header)
                _check_version(self.path, record)
                damage = Damage()
                self.damage.append(damage)
                sealed = False
                header = record
            elif header is None:
                raise _not_a_trace(self.path, line)
            elif kind is Seal:
                sealed = True
            elif damage.at_end:
                damage.at_end = False
            if record.q > last_q:  # noqa: PLR1730 - once a record: `max` takes three times as long
                last_q = record.q
            yield record
        damage.lines += lines.skipped - skipped
        if header is None:
            raise _empty(self.path, lines)
        if not sealed:
            yield from fold_slots(slots_path(self.path), after=last_q, t=header.t)


def read_header(path: Path) -> Header:
    """The header of a trace file. Raises TraceError like the iteration of a `TraceReader`."""
    for record in TraceReader(path):
        assert isinstance(record, Header)
        return record
    raise AssertionError  # pragma: no cover - the iteration yields a header or raises


def find_traces(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """The trace files that the paths name: files as they are, folders by their traces, sorted, each once.

    Raises:
        UsageError: a path does not exist.
        TraceError: a folder holds no trace.
    """
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(p for p in _entries(path) if p.name.endswith((TRACE_SUFFIX, PACK_SUFFIX)))
            if not inside:
                raise TraceError(
                    f"no trace in {path}",
                    f"the folder of a run holds *{TRACE_SUFFIX} files; record one: cudagraph-doctor run script.py",
                )
            begun = [p for p in inside if p.stat().st_size]
            # An empty file beside others: a child that was killed between its birth and its header.
            found.update(dict.fromkeys(begun or inside))
        elif path.exists():
            found[path] = None
        else:
            raise UsageError(f"no such file or folder: {path}", "give a trace file or the folder of a run")
    return list(found)


def slots_path(trace: Path) -> Path:
    """The slot file that belongs to a trace file."""
    name = trace.name.removesuffix(".gz").removesuffix(TRACE_SUFFIX)
    return trace.with_name(name + SLOTS_SUFFIX)


def _entries(folder: Path) -> list[Path]:
    try:
        return [p for p in folder.iterdir() if p.is_file()]
    except OSError as error:
        raise TraceError(f"cannot read folder {folder}: {error.strerror or error}", "check its permissions") from None


def _check_version(path: Path, header: Header) -> None:
    if header.format != FORMAT:
        raise _not_a_trace(path, b"")
    _check_major(path, header.version[0])


def _check_major(path: Path, major: int) -> None:
    if major == VERSION[0]:
        return
    newer = major > VERSION[0]
    raise TraceError(
        f"{path.name} is a trace of format {major}; this version reads format {VERSION[0]}",
        "update cudagraph-doctor: pip install -U cudagraph-doctor"
        if newer
        else "read it with the version of cudagraph-doctor that recorded it",
    )


def _not_a_trace(path: Path, line: bytes) -> TraceError:
    """Why a file that does not begin with a header of ours is refused."""
    data = decode_object(line)
    if data is not None and data.get("format") == FORMAT:
        # A header that this version cannot decode: another major version may have changed anything but these two.
        version = data.get("version")
        major = version[0] if isinstance(version, list) and version else None
        if isinstance(major, int):
            try:
                _check_major(path, major)
            except TraceError as error:
                return error
        return TraceError(f"the header of {path.name} is damaged", "record the run again")
    if data is not None and "k" in data and "q" in data:
        return TraceError(f"{path.name} has no header: its beginning is lost", "record the run again")
    return TraceError(
        f"{path.name} is not a trace of cudagraph-doctor",
        f"give a *{TRACE_SUFFIX} or *{PACK_SUFFIX} file, or the folder of a run",
    )


def _empty(path: Path, lines: Lines) -> TraceError:
    if lines.skipped:
        return _not_a_trace(path, b"")
    return TraceError(f"{path.name} is empty", "the target ended before the first record; record the run again")
