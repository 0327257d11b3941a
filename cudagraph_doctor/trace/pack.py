"""One file for a bug report: the traces of a run, compressed, on wish without source text or what names people.

A pack is the traces one after the other, each from its header on; the reader takes it like any trace. A damaged line
stays a damaged line, at its place, so that the report on the pack is the report on the traces.
"""

from __future__ import annotations

import contextlib
import gzip
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cudagraph_doctor._wire import PACK_SUFFIX
from cudagraph_doctor.errors import OutputError, TraceError
from cudagraph_doctor.trace.decode import AnyRecord, decode_line, decode_object
from cudagraph_doctor.trace.encode import encode_records
from cudagraph_doctor.trace.events import Header, Record, Seal, Unknown
from cudagraph_doctor.trace.lines import Lines
from cudagraph_doctor.trace.reader import find_traces, read_header, slots_path
from cudagraph_doctor.trace.redact import redacted
from cudagraph_doctor.trace.slots import fold_slots

if TYPE_CHECKING:
    from collections.abc import Iterator

_DAMAGED = b'{"k":"damaged\n'
"""Stands for a damaged line; no JSON, so that readers count it as what it is."""


def pack(
    trace: str | os.PathLike[str], out: str | os.PathLike[str], *, source: bool = True, redact: bool = False
) -> Path:
    """Writes one file that holds every trace of `trace`.

    Args:
        trace: a trace file, or the folder of a run.
        out: the file to write; `.jsonl.gz` is added where it has no such ending.
        source: keep the text of the user's source files.
        redact: leave out what names people, machines and data: host, arguments, environment, values of variables, the
            folders of absolute paths; implies `source=False`.

    Returns:
        The path of the written file.

    Raises:
        UsageError: `trace` does not exist.
        TraceError: `trace` holds no readable trace.
        OutputError: the file cannot be written.
    """
    paths = find_traces([trace])
    readable = [path for path in paths if _readable(path)]
    if not readable:
        read_header(paths[0])  # raises, and says why
    target = Path(out)
    if not target.name.endswith((PACK_SUFFIX, ".gz")):
        target = target.with_name(target.name + PACK_SUFFIX)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        # mtime=0 and no file name: the same trace gives the same pack.
        with part.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file:
            for path in readable:
                for line in _lines(path, source=source and not redact, redact=redact):
                    file.write(line)
        part.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise OutputError(f"cannot write {target}: {error.strerror or error}", "choose another file with -o") from None
    return target


def _readable(path: Path) -> bool:
    try:
        read_header(path)
    except TraceError:
        return False
    return True


def _lines(path: Path, *, source: bool, redact: bool) -> Iterator[bytes]:
    """The lines of one trace as they go into the pack, with the replay counts of an unsealed one."""
    sealed = False
    last_q = last_t = 0
    lines = Lines(path)
    for line in lines:
        record = decode_line(line)
        if record is None:
            yield _DAMAGED
            continue
        if not isinstance(record, Unknown):
            last_t = record.t
        last_q = max(last_q, record.q)
        if isinstance(record, Header):
            sealed = False
        elif isinstance(record, Seal):
            sealed = True
        if source and not redact:
            yield line if line.endswith(b"\n") else line + b"\n"
        else:
            yield _rewritten(line, record, source=source, redact=redact)
    for _ in range(lines.skipped):
        yield _DAMAGED
    if not sealed:
        yield encode_records(fold_slots(slots_path(path), after=last_q, t=last_t))


def _rewritten(line: bytes, record: AnyRecord, *, source: bool, redact: bool) -> bytes:
    """A good line, changed as asked. Fields of later versions stay, unless they are damaged."""
    data = decode_object(line)
    if data is None:
        assert isinstance(record, Record)
        data = msgspec.json.decode(encode_records([record]), type=dict[str, Any])
    if not source and data.get("k") == "source" and data.pop("text", None) is not None:
        data["why"] = "left out by `pack`"
    if redact:
        data = redacted(data)
    return msgspec.json.encode(data) + b"\n"
